"""Geometry of the dashboard's chart: reports over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from veilgraph.privacy.plain_text import counted

# Size of the chart, in the coordinates of its SVG element.
WIDTH, HEIGHT = 1000.0, 200.0
MAX_BARS = 120
_HOUR = 3600
_STEPS = (_HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, 24 * _HOUR, 7 * 24 * _HOUR, 28 * 24 * _HOUR)


@dataclass(frozen=True, kw_only=True)
class Bar:
    """Reports of one time step, as a rectangle of the chart.

    Attributes:
        x: left edge.
        y: upper edge.
        width: width of the bar.
        height: height of the bar.
        text: time and number of reports.
    """

    x: float
    y: float
    width: float
    height: float
    text: str


@dataclass(frozen=True, kw_only=True)
class ArrivalsChart:
    """Geometry of a chart of reports over time; the page draws it.

    Attributes:
        bars: one bar for each time step with reports.
        line: points of the running total, in SVG's notation.
        highest: number of reports of the highest bar.
        step: length of a time step, in words.
        first: start of the first time step.
        last: end of the last time step.
    """

    bars: Sequence[Bar]
    line: str
    highest: int
    step: str
    first: str
    last: str


def arrivals_chart(hours: Sequence[tuple[int, int]]) -> ArrivalsChart | None:
    """Lay out bars of reports per time step, and their running total, with at most `MAX_BARS` time steps.

    Args:
        hours: Unix time of each hour with reports, and their number; earliest first.

    Returns:
        The chart, or None without reports.

    >>> chart = arrivals_chart([(0, 3), (7200, 1)])
    >>> [(round(bar.x), round(bar.height)) for bar in chart.bars], chart.line
    ([(0, 200), (667, 67)], '0,200 333,50 667,50 1000,0')
    """
    if not hours:
        return None
    span = hours[-1][0] + _HOUR - hours[0][0]
    step = next((s for s in _STEPS if span <= s * MAX_BARS), span // MAX_BARS + 1)
    start = hours[0][0] // step * step
    counts = [0] * ((hours[-1][0] - start) // step + 1)
    for hour, count in hours:
        counts[(hour - start) // step] += count
    width, highest, total = WIDTH / len(counts), max(counts), sum(counts)
    running, points = 0, [f"0,{HEIGHT:g}"]
    for number, count in enumerate(counts, start=1):
        running += count
        points.append(f"{number * width:.0f},{HEIGHT * (1 - running / total):.0f}")
    bars = [
        Bar(
            x=number * width,
            y=HEIGHT * (1 - count / highest),
            width=width,
            height=HEIGHT * count / highest,
            text=f"{_time_text(start + number * step)}: {counted(count, 'report')}",
        )
        for number, count in enumerate(counts)
        if count
    ]
    return ArrivalsChart(
        bars=bars,
        line=" ".join(points),
        highest=highest,
        step=_step_text(step),
        first=_time_text(start),
        last=_time_text(start + len(counts) * step),
    )


def _time_text(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%d %H:%M")


def _step_text(step: int) -> str:
    hours = round(step / _HOUR)
    if hours < 24:
        return "hour" if hours == 1 else f"{hours} hours"
    return "day" if hours == 24 else f"{hours // 24} days"
