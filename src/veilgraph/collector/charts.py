"""Shapes of the dashboard's charts, in the coordinates of their SVG elements: numbers only, drawn by the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

WIDTH, HEIGHT = 1000.0, 200.0
_MOST_BARS = 120
_HOUR = 3600
_STEPS = (_HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, 24 * _HOUR, 7 * 24 * _HOUR, 28 * 24 * _HOUR)


@dataclass(frozen=True, kw_only=True)
class Bar:
    """Reports that arrived in one step of time.

    Attributes:
        x: left edge.
        y: upper edge.
        width: of the bar.
        height: of the bar.
        text: what it stands for.
    """

    x: float
    y: float
    width: float
    height: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Arrivals:
    """Reports over time.

    Attributes:
        bars: one per step.
        line: points of the running total, as SVG wants them.
        highest: reports in the highest bar.
        step: of time, in words.
        first: when the first step begins.
        last: when the last step ends.
    """

    bars: Sequence[Bar]
    line: str
    highest: int
    step: str
    first: str
    last: str


def arrivals_chart(hours: Sequence[tuple[int, int]]) -> Arrivals | None:
    """Bars of reports per step and the running total; steps are as short as fit. None before the first report.

    >>> chart = arrivals_chart([(0, 3), (7200, 1)])
    >>> [(round(bar.x), round(bar.height)) for bar in chart.bars], chart.line
    ([(0, 200), (667, 67)], '0,200 333,50 667,50 1000,0')
    """
    if not hours:
        return None
    span = hours[-1][0] + _HOUR - hours[0][0]
    step = next((s for s in _STEPS if span <= s * _MOST_BARS), span // _MOST_BARS + 1)
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
            text=f"{_time(start + number * step)}: {count:,} reports",
        )
        for number, count in enumerate(counts)
        if count
    ]
    return Arrivals(
        bars=bars,
        line=" ".join(points),
        highest=highest,
        step=_words(step),
        first=_time(start),
        last=_time(start + len(counts) * step),
    )


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%d %H:%M")


def _words(step: int) -> str:
    hours = round(step / _HOUR)
    if hours < 24:
        return "hour" if hours == 1 else f"{hours} hours"
    return "day" if hours == 24 else f"{hours // 24} days"
