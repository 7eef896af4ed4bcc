"""Accuracy over the total epsilon: bands of mean and spread on a logarithmic axis, for all figures that have one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from veilgraph.errors import MissingExtraError
from veilgraph.pages.rendering import colour

try:
    from matplotlib.axes import Axes
    from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator
except ImportError:
    raise MissingExtraError("matplotlib", "lab") from None

EPSILON_AXIS = "total user-level ε (any two records)"
"""Title of the axis: an epsilon is shown with its neighbour relation."""


class Spread(Protocol):
    """Accuracies of one setting over seeds, as shares of 1."""

    @property
    def mean(self) -> float:
        """Mean over seeds."""

    @property
    def std(self) -> float | None:
        """Standard deviation over seeds; None for one seed."""


@dataclass(frozen=True, kw_only=True)
class Band:
    """A line through the means of one method, with a band of one standard deviation to each side.

    Attributes:
        label: name of the method in the figure.
        points: total epsilon and accuracies, by rising total.
        colour: name of the colour in the palette.
        marker: Matplotlib's marker of the points; "" for none.
        line: Matplotlib's line style.
        strength: opacity of the line.
    """

    label: str
    points: Sequence[tuple[float, Spread]]
    colour: str
    marker: str
    line: tuple[int, tuple[int, ...]] | str = "solid"
    strength: float = 1.0


def draw_epsilon_axis(axes: Axes, ticks: Sequence[float]) -> None:
    """Set up a logarithmic axis of totals below, and accuracy in percent at the left."""
    axes.set_xscale("log", base=2)
    axes.set_xlim(ticks[0] / 1.1, ticks[-1] * 1.1)
    axes.xaxis.set_major_locator(FixedLocator(list(ticks)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    draw_accuracy_axis(axes)


def draw_accuracy_axis(axes: Axes) -> None:
    """Set up accuracy in percent at the left."""
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.grid(visible=True, axis="y", linewidth=0.6)
    axes.spines["left"].set_visible(False)
    axes.tick_params(length=0)


def draw_band(axes: Axes, band: Band) -> None:
    """Draw the line and the band of one method, in percent."""
    totals = [total for total, _ in band.points]
    means = [100 * each.mean for _, each in band.points]
    spreads = [100 * (each.std or 0.0) for _, each in band.points]
    axes.fill_between(
        totals,
        [mean - spread for mean, spread in zip(means, spreads, strict=True)],
        [mean + spread for mean, spread in zip(means, spreads, strict=True)],
        color=colour(band.colour),
        alpha=0.16 * band.strength,
        linewidth=0,
        zorder=2,
    )
    if len(totals) == 1:  # a band needs two points
        axes.errorbar(totals, means, yerr=spreads, color=colour(band.colour), linewidth=1.2, capsize=4, zorder=2)
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


def draw_level(axes: Axes, accuracy: float, *, label: str, paint: str) -> None:
    """Draw a dashed line at an accuracy that does not depend on epsilon."""
    axes.axhline(100 * accuracy, color=colour(paint), linewidth=1.4, linestyle=(0, (6, 3)), label=label, zorder=1)


def in_words(band: Band, names: Sequence[str] | None = None) -> str:
    """Return the points of a band as text for screen readers; `names` are of points at 0, 1 and so on."""
    points = [(f"{x:g}" if names is None else names[int(x)], each) for x, each in band.points]
    return f"{band.label}: " + ", ".join(f"{name}: {100 * each.mean:.1f}" for name, each in points)
