"""Figures as SVG and pages as HTML, in one theme that follows the light or dark mode of the reader.

The same figure gives the same bytes. Templates escape text, and a missing value is an error.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any

from veilgraph.errors import MissingExtraError
from veilgraph.privacy.plain_text import counted

try:
    from matplotlib import style
    from matplotlib.figure import Figure
except ImportError:
    raise MissingExtraError("matplotlib", "lab") from None
try:
    from jinja2 import Environment, FunctionLoader, StrictUndefined
except ImportError:
    raise MissingExtraError("jinja2", "lab") from None

PALETTE = {
    "ink": ("#1c2128", "#e6eaf0"),
    "muted": ("#59626f", "#a5afbc"),
    "grid": ("#dde2e8", "#363e49"),
    "card": ("#ffffff", "#14181e"),
    "rgnn": ("#1d5fb4", "#7db5ff"),
    "plain": ("#8a5a00", "#e3b553"),
    "structure_only": ("#a8326e", "#f58fc1"),
    "non_private": ("#2f7250", "#74c99c"),
    "lpgnn": ("#6a45b8", "#b79cff"),
    "veil": ("#b84300", "#ff9f5a"),
    "refuted": ("#b02a21", "#ff948a"),
}
"""Light and dark variant of each colour. Figures are drawn in the light one, which is then replaced by its name."""

_SHARED_COLOURS = {"veil_labels": "veil", "veil_non_private": "veil", "rgnn_best": "rgnn"}

_PADDING = 16
_FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

_STYLE = {
    "axes.axisbelow": True,
    "axes.edgecolor": PALETTE["muted"][0],
    "axes.facecolor": "none",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "none",
    "font.family": "DejaVu Sans",
    "font.size": 11.0,
    "grid.color": PALETTE["grid"][0],
    "svg.fonttype": "none",
    "text.color": PALETTE["ink"][0],
    "text.parse_math": False,
    "xtick.color": PALETTE["muted"][0],
    "ytick.color": PALETTE["muted"][0],
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Panel:
    """One figure.

    Attributes:
        name: stem of its file name, and the prefix of every id on a page.
        title: title above the figure.
        paint: draws on an empty figure.
        width: width in pixels before the page scales the figure.
        height: height in pixels before the page scales the figure.
        label: text for screen readers.
    """

    name: str
    title: str
    paint: Callable[[Figure], None]
    width: int
    height: int
    label: str

    @cached_property
    def svg(self) -> str:
        """Inline SVG for a page."""
        return inline_svg(self.paint, width=self.width, height=self.height, name=self.name, label=self.label)

    @property
    def pdf(self) -> bytes:
        """A page of a PDF, for a paper: in the light colours, with its fonts."""
        return _drawn(self.paint, self.width, self.height, "pdf", {"pdf.fonttype": 42}, {"CreationDate": None})


def file_name(*parts: str) -> str:
    """Join parts with dashes and replace characters that are unsafe in a file name.

    >>> file_name("ablation", "a/b")
    'ablation-a-b'
    """
    return re.sub(r"[^\w.]+", "-", "-".join(parts))


def colour(name: str) -> str:
    """Return the light variant of a colour; a method without its own colour has the colour of text.

    >>> colour("veil_labels") == colour("veil")
    True
    """
    return PALETTE.get(_SHARED_COLOURS.get(name, name), PALETTE["ink"])[0]


def inline_svg(paint: Callable[[Figure], None], *, width: int, height: int, name: str, label: str) -> str:
    """Draw a figure and return it as an SVG element of an HTML page.

    Args:
        paint: draws on an empty figure, in the style of the pages whatever the user's Matplotlib settings are.
        width: width in pixels before the page scales the figure.
        height: height in pixels before the page scales the figure.
        name: unique name on the page; the prefix of every id.
        label: text for screen readers.
    """
    drawn = _drawn(paint, width, height, "svg", {"svg.hashsalt": name}, {"Date": None}).decode()
    opening = (
        f'<svg role="img" aria-label="{html.escape(label)}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" stroke-linejoin="round">'
    )
    return opening + _themed(_with_own_ids(_body(drawn), name))


def _drawn(
    paint: Callable[[Figure], None],
    width: int,
    height: int,
    kind: str,
    settings: dict[str, Any],
    facts: dict[str, None],
) -> bytes:
    buffer = io.BytesIO()
    with style.context(_STYLE | settings, after_reset=True):
        figure = Figure(figsize=(width / 72, height / 72))  # a unit of the SVG is 1/72 inch
        paint(figure)
        figure.savefig(buffer, format=kind, metadata=facts)
    return buffer.getvalue()


def standalone_svg(inline: str) -> str:
    """Return an inline figure as a file, on a card that is legible on any background."""
    opening, body = inline.split(">", 1)
    width, height = (int(size) + 2 * _PADDING for size in re.findall(r' (?:width|height)="(\d+)"', opening))
    label = re.findall(r' aria-label="[^"]*"', opening)[0]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img"{label} width="{width}" height="{height}" '
        f'viewBox="{-_PADDING} {-_PADDING} {width} {height}" stroke-linejoin="round">'
        f"<style>{theme_css('svg')}</style>"
        f'<rect x="{0.5 - _PADDING}" y="{0.5 - _PADDING}" width="{width - 1}" height="{height - 1}" rx="8" '
        f'style="fill: var(--vg-card); stroke: var(--vg-grid)"/>{body}\n'
    )


def theme_css(selector: str) -> str:
    """Return the palette as CSS variables, with the text colour of `selector`."""
    light, dark = (
        "".join(f"--vg-{name}:{pair[i]};" for name, pair in PALETTE.items()) + f"color:{PALETTE['ink'][i]}"
        for i in (0, 1)
    )
    return f"{selector}{{{light}}}@media (prefers-color-scheme:dark){{{selector}{{{dark}}}}}"


def _body(document: str) -> str:
    """Remove the opening tag, metadata and the style rule that would apply to the whole page."""
    body = document[document.index(">", document.index("<svg")) + 1 :]
    body = re.sub(r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>", "", body, flags=re.DOTALL)
    return re.sub(r"\s+", " ", body).replace("> <", "><").strip()


def _with_own_ids(body: str, name: str) -> str:
    prefix = re.sub(r"\W+", "-", name)
    return re.sub(r'( id="| href="#|url\(#)', rf"\1{prefix}-", body.replace("xlink:href", "href"))


def _themed(body: str) -> str:
    body = re.sub(r"'DejaVu Sans'[^;\"]*", _FONTS, body)
    for name, (light, _) in PALETTE.items():
        body = body.replace(light, "currentColor" if name == "ink" else f"var(--vg-{name})")
    return body


def render_template(name: str, **values: Any) -> str:
    """Render a template of this package to HTML.

    Args:
        name: file name of the template.
        values: variables of the template.
    """
    environment = Environment(
        autoescape=True,
        loader=FunctionLoader(_source),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name).render(theme=theme_css(":root"), counted=counted, **values)


def _source(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
