"""Accuracy against the total user-level epsilon: a panel for each graph, and all of them in one picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from veilgraph.errors import MissingExtraError
from veilgraph.experiments.results import Row
from veilgraph.pages.frontier import (
    CEILING,
    LABEL_ALONE,
    PAPER,
    Curve,
    Published,
    curve,
    divided_curve,
)
from veilgraph.pages.paired_differences import CONTROL, dataset_name, find
from veilgraph.pages.svg import Panel, colour, file_name, inline_svg

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator
except ImportError:
    raise MissingExtraError("matplotlib", "lab") from None

_WIDTH = 336
_TICKS = (0.25, 0.5, 1, 2, 4, 8, 16)
_AXIS = "total user-level ε (any two records)"
_VEIL, _DIVIDED, _CONTROL = "Veil, label alone", "Veil, best split", "control"
_PAPER, _PUBLISHED, _CEILING = "RGNN, paper's split", "RGNN, published", "not private"
_LEGEND = (_VEIL, _DIVIDED, _CONTROL, _PAPER, _PUBLISHED, _CEILING)
_OVERVIEW_COLUMNS = 3


@dataclass(frozen=True, kw_only=True)
class _Band:
    label: str
    points: Curve
    colour: str
    marker: str
    line: tuple[int, tuple[int, ...]] | str = "solid"
    strength: float = 1.0


def _bands(rows: Sequence[Row], dataset: str) -> list[_Band]:
    """What is drawn as a line with a band, the most important on top, as far as there are rows for it."""
    bands = [
        _Band(label=_PAPER, points=curve(rows, dataset, PAPER), colour="rgnn", marker="s"),
        _Band(label=_CONTROL, points=curve(rows, dataset, CONTROL), colour=CONTROL, marker="D", line=(0, (4, 2))),
        _Band(
            label=_DIVIDED,
            points=divided_curve(rows, dataset),
            colour="veil",
            marker="",
            line=(0, (1, 2)),
            strength=0.6,
        ),
        _Band(label=_VEIL, points=curve(rows, dataset, LABEL_ALONE), colour="veil", marker="o"),
    ]
    return [band for band in bands if band.points]


def _datasets(rows: Sequence[Row]) -> list[str]:
    return [dataset for dataset in dict.fromkeys(row.dataset for row in rows) if curve(rows, dataset, LABEL_ALONE)]


def frontier_panels(rows: Sequence[Row], published: Sequence[Published]) -> list[Panel]:
    """One panel for each graph that Veil ran on.

    Args:
        rows: of the frontier.
        published: accuracies of the paper, drawn at their true epsilon.
    """
    return [_panel(rows, dataset, published) for dataset in _datasets(rows)]


def _panel(rows: Sequence[Row], dataset: str, published: Sequence[Published]) -> Panel:
    def paint(figure: Figure) -> None:
        axes = figure.add_axes((0.1, 0.135, 0.885, 0.7))
        _draw(axes, rows, dataset, published)
        axes.set_xlabel(_AXIS, color=colour("muted"))
        _legend(figure, axes, columns=2, size=10, anchor=(0.0, 1.0))

    name, title = file_name("frontier", dataset), dataset_name(dataset)
    label = f"{title}. {_spoken(rows, dataset, published)}"
    return Panel(name=name, title=title, svg=inline_svg(paint, width=_WIDTH, height=310, name=name, label=label))


def frontier_overview(rows: Sequence[Row], published: Sequence[Published]) -> Panel | None:
    """All graphs side by side, in one picture for a page that has the width for it."""
    datasets = _datasets(rows)
    if not datasets:
        return None
    columns = min(_OVERVIEW_COLUMNS, len(datasets))
    lines = -(-len(datasets) // columns)
    pitch, head, foot = 214, 42, 20
    width, height = 320 * columns, head + pitch * lines + foot

    def paint(figure: Figure) -> None:
        axes = None
        for place, dataset in enumerate(datasets):
            line, column = divmod(place, columns)
            left, bottom = 30 + width / columns * column, height - head - pitch * (line + 1) + 30
            box = (left / width, bottom / height, (width / columns - 42) / width, (pitch - 54) / height)
            axes = figure.add_axes(box)
            _draw(axes, rows, dataset, published)
            axes.set_title(dataset_name(dataset), loc="left", fontsize=13, weight="bold", pad=6)
        if axes is not None:
            _legend(figure, axes, columns=6 if columns > 2 else columns, size=12, anchor=(8 / width, 1 - 2 / height))
        figure.text(0.5, 6 / height, f"Accuracy in percent over the {_AXIS}", ha="center", color=colour("muted"))

    spoken = " ".join(f"{dataset_name(d)}. {_spoken(rows, d, published)}" for d in datasets)
    svg = inline_svg(paint, width=width, height=height, name="frontier", label=spoken)
    return Panel(name="frontier", title="The frontier", svg=svg)


def _draw(axes: Axes, rows: Sequence[Row], dataset: str, published: Sequence[Published]) -> None:
    for band in _bands(rows, dataset):
        _draw_band(axes, band)
    if ceiling := find(rows, dataset=dataset, method=CEILING):
        axes.axhline(
            100 * ceiling.mean,
            color=colour(CEILING),
            linewidth=1.4,
            linestyle=(0, (6, 3)),
            label=_CEILING,
            zorder=1,
        )
    own = [each for each in published if each.dataset == dataset]
    if own:
        axes.plot(
            [each.epsilon for each in own],
            [100 * each.mean for each in own],
            "D",
            color=colour("card"),
            markeredgecolor=colour("rgnn"),
            markeredgewidth=1.3,
            markersize=5.5,
            label=_PUBLISHED,
            zorder=4,
        )
    axes.set_xscale("log", base=2)
    axes.set_xlim(_TICKS[0] / 1.1, _TICKS[-1] * 1.1)
    axes.xaxis.set_major_locator(FixedLocator(list(_TICKS)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.grid(visible=True, axis="y", linewidth=0.6)
    axes.spines["left"].set_visible(False)
    axes.tick_params(length=0)


def _draw_band(axes: Axes, band: _Band) -> None:
    totals = [total for total, _ in band.points]
    means = [100 * row.mean for _, row in band.points]
    spreads = [100 * (row.std or 0.0) for _, row in band.points]
    axes.fill_between(
        totals,
        [mean - spread for mean, spread in zip(means, spreads, strict=True)],
        [mean + spread for mean, spread in zip(means, spreads, strict=True)],
        color=colour(band.colour),
        alpha=0.16 * band.strength,
        linewidth=0,
        zorder=2,
    )
    axes.plot(
        totals,
        means,
        color=colour(band.colour),
        alpha=band.strength,
        marker=band.marker,
        markersize=4.5,
        linewidth=1.8,
        linestyle=band.line,
        label=band.label,
        zorder=3,
    )


def _legend(figure: Figure, axes: Axes, *, columns: int, size: float, anchor: tuple[float, float]) -> None:
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda place: _LEGEND.index(labels[place]))
    figure.legend(
        [handles[place] for place in order],
        [labels[place] for place in order],
        loc="upper left",
        bbox_to_anchor=anchor,
        ncols=columns,
        frameon=False,
        fontsize=size,
        handlelength=2.0,
        handletextpad=0.5,
        columnspacing=1.2,
        borderpad=0.1,
        borderaxespad=0.1,
    )


def _spoken(rows: Sequence[Row], dataset: str, published: Sequence[Published]) -> str:
    """The figure for a person who cannot see it."""
    lines = [
        f"{band.label}: " + ", ".join(f"{total:g}: {100 * row.mean:.1f}" for total, row in band.points)
        for band in reversed(_bands(rows, dataset))
    ]
    if own := [each for each in published if each.dataset == dataset]:
        lines.append(f"{_PUBLISHED}: " + ", ".join(f"{each.epsilon:g}: {100 * each.mean:.1f}" for each in own))
    ceiling = find(rows, dataset=dataset, method=CEILING)
    beside = "" if ceiling is None else f" Not private: {100 * ceiling.mean:.1f}."
    return f"Accuracy in percent over the {_AXIS}. {'; '.join(lines)}.{beside}"
