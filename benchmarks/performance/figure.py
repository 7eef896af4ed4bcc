"""Figure of all stages: lower bound, veilgraph and the paper's loops on a logarithmic time axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from veilgraph.pages.rendering import colour, inline_svg, standalone_svg

_WIDTH, _LEFT, _RIGHT, _ROW, _TOP, _BOTTOM = 860, 330, 70, 34, 44, 44
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def draw(report: Mapping[str, Any]) -> str:
    """Return the figure as the content of an SVG file."""
    rows = list(_lines(report))
    height = _TOP + _ROW * len(rows) + _BOTTOM

    def paint(figure: Figure) -> None:
        axes = figure.add_axes(
            (_LEFT / _WIDTH, _BOTTOM / height, 1 - (_LEFT + _RIGHT) / _WIDTH, 1 - (_TOP + _BOTTOM) / height)
        )
        _prepare(axes, len(rows))
        for y, row in enumerate(rows):
            _line(axes, y, *row)
        axes.legend(
            loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=3, frameon=False, fontsize=11, handletextpad=0.3
        )

    spoken = "; ".join(
        f"{name}: {ratio:.0f} times faster" for name, _, ours, theirs in rows if (ratio := (theirs or 0) / ours)
    )
    label = f"Seconds of each stage on a logarithmic scale, literal against veilgraph. {spoken}."
    return standalone_svg(inline_svg(paint, width=_WIDTH, height=height, name="bench", label=label))


def _lines(report: Mapping[str, Any]) -> list[tuple[str, float | None, float, float | None]]:
    """Return name, highest lower bound, our time and literal time of each line."""
    lines = [
        (row["stage"], max(row["floors_s"].values()) or None, row["veilgraph_s"], row["literal_s"])
        for row in report["stages"]
    ]
    if "rgnn_column" in report.get("table2", {}):
        column, whole = report["table2"]["rgnn_column"], report["table2"]["whole_table"]
        lines.append(
            (f"Table 2, RGNN, {column['runs']} runs", None, column["veilgraph_s"], column["literal_s_estimated"])
        )
        lines.append((f"Table 2, whole, {whole['runs']} runs", None, whole["veilgraph_s"], None))
    return lines


def _prepare(axes: Axes, rows: int) -> None:
    axes.set_xscale("log")
    axes.set_ylim(rows - 0.4, -0.6)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.tick_params(length=0)
    axes.grid(visible=True, axis="x", linewidth=0.8)
    axes.xaxis.set_major_locator(LogLocator(base=10, numticks=12))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: _tick(seconds)))
    axes.set_xlabel("time, logarithmic", color=colour("muted"))


def _line(axes: Axes, y: int, name: str, floor: float | None, ours: float, theirs: float | None) -> None:
    hidden = "" if y == 0 else "_"  # the legend names each mark once
    words: dict[str, Any] = {"xycoords": ("figure fraction", "data"), "va": "center", "fontsize": 11}
    axes.annotate(name, (0.005, y), **words)
    if theirs is not None:
        axes.plot([ours, theirs], [y, y], color=colour("grid"), linewidth=5, solid_capstyle="round", zorder=1)
        axes.plot(theirs, y, "D", color=colour("plain"), markersize=8, label=f"{hidden}the paper's loops")
        axes.annotate(f"{theirs / ours:,.0f}×", (0.995, y), ha="right", weight="bold", **words)
    axes.plot(ours, y, "o", color=colour("rgnn"), markersize=9, label=f"{hidden}veilgraph")
    if floor is not None:
        axes.plot(floor, y, "|", color=colour("ink"), markersize=16, markeredgewidth=2, label=f"{hidden}floor")


def _tick(seconds: float) -> str:
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size * 0.999), _UNITS[-1])
    return f"{seconds / size:.0f} {unit}"
