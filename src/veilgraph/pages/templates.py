"""Pages from templates: text is escaped, and a value that is missing is an error."""

from __future__ import annotations

from importlib import resources
from typing import Any

from veilgraph.errors import MissingExtraError
from veilgraph.pages.svg import theme_css

try:
    from jinja2 import Environment, FunctionLoader, StrictUndefined
except ImportError:
    raise MissingExtraError("jinja2", "lab") from None


def render_template(name: str, **values: Any) -> str:
    """A template of this package, in the report's theme.

    Args:
        name: its file.
        values: what it shows.
    """
    environment = Environment(
        autoescape=True,
        loader=FunctionLoader(_source),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name).render(theme=theme_css(":root"), **values)


def _source(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
