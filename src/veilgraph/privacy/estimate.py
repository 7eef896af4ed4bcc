"""An estimate from randomized reports with its interval: cut to what is possible once, and written in one way."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

LEVEL = 0.95
"""Confidence level of every interval."""

QUANTILE = NormalDist().inv_cdf((1 + LEVEL) / 2)
"""Half-width of an interval in standard errors."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A share, or a difference of shares, with a confidence interval of level `LEVEL`.

    Reports are noisy, so an unbiased estimate can be impossible, such as 109 % or -22 %. Then point and interval are
    moved together until the point is possible, and what is still outside is cut off. So an interval never shrinks to
    a point, and holds the truth at least as often as before.

    Attributes:
        value: the estimate, within its possible range; None if there is no point, but an interval alone.
        low: lower end of the interval.
        high: upper end of the interval.
        reports: number of reports that it comes from.

    >>> found = Estimate.of(1.094, 0.95, 1.2, reports=372)
    >>> found.point, found.interval
    ('at least 85.6 %', '85.6 to 100.0 %')
    >>> Estimate.of(0.874, 0.85, 0.9, reports=900).text
    '87.4 % (95 % interval 85.0 to 90.0 %)'
    """

    value: float | None
    low: float
    high: float
    reports: int

    @classmethod
    def of(cls, value: float, low: float, high: float, *, reports: int, lowest: float = 0.0) -> Estimate:
        """Return the estimate within `lowest` to 1.

        Args:
            value: unbiased estimate.
            low: lower end of its interval.
            high: upper end of its interval.
            reports: number of reports that it comes from.
            lowest: least possible value: 0 for a share, -1 for a difference.
        """
        possible = _clip(value, lowest)
        moved = possible - value
        ends = (_clip(low + min(moved, 0.0), lowest), _clip(high + max(moved, 0.0), lowest))
        return cls(value=possible, low=min(ends[0], possible), high=max(ends[1], possible), reports=reports)

    @classmethod
    def normal(cls, value: float, error: float, *, reports: int, lowest: float = 0.0) -> Estimate:
        """Return the estimate with a normal interval around it, from its standard error."""
        half = QUANTILE * error
        return cls.of(value, value - half, value + half, reports=reports, lowest=lowest)

    @classmethod
    def none(cls) -> Estimate:
        """Return the estimate of a share without any report: it can be 0 to 1."""
        return cls(value=None, low=0, high=1, reports=0)

    @classmethod
    def difference(cls, first: Estimate, second: Estimate, paired: Estimate) -> Estimate:
        """Return the difference of two shares as it stands beside them: the figures that are shown add up.

        It moves together with the shares. Where one of them stands at an edge of the possible range, the difference has
        no point. Its interval then has nothing that the two intervals rule out.

        Args:
            first: a share.
            second: the share that is subtracted.
            paired: their difference, estimated person by person; its interval is narrower than that of two shares.

        >>> shares = Estimate.of(0.8736, 0.85, 0.9, reports=900), Estimate.of(0.6543, 0.63, 0.68, reports=900)
        >>> Estimate.difference(*shares, Estimate.of(0.2193, 0.2, 0.24, reports=900, lowest=-1)).points
        '+22.0 points (95 % interval +20.0 to +24.1)'
        """
        if first.value is None or second.value is None or paired.value is None:
            return cls(value=None, low=-1, high=1, reports=0)
        value = (_tenths(first.value) - _tenths(second.value)) / 1000
        moved = value - paired.value
        low, high = _clip(paired.low + min(moved, 0.0), -1.0), _clip(paired.high + max(moved, 0.0), -1.0)
        if not (first.at_edge or second.at_edge):
            return cls(value=value, low=low, high=high, reports=paired.reports)
        low, high = max(low, first.low - second.high), min(high, first.high - second.low)
        return cls(value=None, low=low, high=high, reports=paired.reports)

    @classmethod
    def parse(cls, parts: Mapping[str, Any]) -> Estimate | None:
        """Return the estimate that `dataclasses.asdict` wrote; None if a document has another form."""
        if parts.keys() != {"value", "low", "high", "reports"}:
            return None
        value, low, high, reports = (parts[key] for key in ("value", "low", "high", "reports"))
        ends = [low, high] if value is None else [low, value, high]
        if not all(type(each) in (int, float) and -1 <= each <= 1 for each in ends) or ends != sorted(ends):
            return None
        return cls(value=value, low=low, high=high, reports=reports) if type(reports) is int and reports >= 0 else None

    @property
    def at_edge(self) -> bool:
        """Whether the point of a share is 0 or 1, the last possible ones: the interval says more than the point."""
        return self.value is not None and self.low < self.high and not 0 < self.value < 1

    def holds(self, truth: float) -> bool:
        """Tell whether the interval holds a true value."""
        return bool(self.low <= truth <= self.high)

    @property
    def point(self) -> str:
        """The share in percent; at an edge of the possible range, which end of the interval bounds it."""
        if self.value is None:
            return "–"
        if self.at_edge:
            return f"at least {_percent(self.low)} %" if self.value >= 1 else f"at most {_percent(self.high)} %"
        return f"{_percent(self.value)} %"

    @property
    def interval(self) -> str:
        """The interval of a share in percent."""
        return f"{_percent(self.low)} to {_percent(self.high)} %"

    @property
    def text(self) -> str:
        """The share with its interval."""
        return f"{self.point} ({_LEVEL} interval {self.interval})"

    @property
    def points(self) -> str:
        """A difference of shares with its interval, in percentage points.

        >>> Estimate(value=None, low=0.446, high=0.734, reports=372).points
        'between +44.6 and +73.4 points (95 % interval)'
        """
        low, high = signed_points(self.low), signed_points(self.high)
        if self.value is None:
            return f"between {low} and {high} points ({_LEVEL} interval)"
        return f"{signed_points(self.value)} points ({_LEVEL} interval {low} to {high})"


_LEVEL = f"{100 * LEVEL:.0f} %"


def signed_points(difference: float) -> str:
    """Return a difference in percentage points with its sign; zero after rounding has no sign.

    >>> signed_points(0.012), signed_points(-0.012), signed_points(-0.0001)
    ('+1.2', '−1.2', '0.0')
    """
    tenths = _tenths(difference)
    return f"{tenths / 10:+.1f}".replace("-", "−") if tenths else "0.0"


def _tenths(share: float) -> int:
    """Return a share in tenths of a percent: what is shown of it."""
    return round(1000 * share)


def _percent(share: float) -> str:
    return f"{_tenths(share) / 10:.1f}"


def _clip(value: float, lowest: float) -> float:
    return value if math.isnan(value) else min(max(value, lowest), 1.0)
