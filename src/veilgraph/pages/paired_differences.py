"""Differences between rows of results: paired by seed, against published numbers, and counted over settings."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.special import stdtrit

from veilgraph.experiments.results import Row
from veilgraph.privacy.estimate import signed_points

CONTROL = "structure_only"
"""Method that every other one is compared with: it uses no features."""

PUBLISHED_RUNS = 5
"""Number of runs behind each published mean and standard deviation."""

ResultsByExperiment = Mapping[str, Sequence[Row]]
"""Rows by the name of their experiment."""
Pair = tuple[Row, Row]


@dataclass(frozen=True, kw_only=True)
class PairedDifference:
    """Mean difference of two methods, paired by seed: both saw the same split and the same reports.

    Attributes:
        mean: mean difference over seeds.
        standard_error: standard error of the mean; None for one seed.
        seeds: number of seeds.
    """

    mean: float
    standard_error: float | None
    seeds: int

    @classmethod
    def of(cls, accuracies: Sequence[float], control: Sequence[float]) -> PairedDifference:
        """Subtract the accuracies of the control from those of a method, seed by seed.

        >>> PairedDifference.of([0.75, 0.5], [0.5, 0.5])
        PairedDifference(mean=0.125, standard_error=0.125, seeds=2)
        """
        differences = [a - b for a, b in zip(accuracies, control, strict=True)]
        n = len(differences)
        error = statistics.stdev(differences) / math.sqrt(n) if n > 1 else None
        return cls(mean=statistics.mean(differences), standard_error=error, seeds=n)

    @property
    def clear(self) -> bool:
        """Whether the 95 % interval of Student's t excludes zero.

        >>> PairedDifference(mean=0.10, standard_error=0.01, seeds=5).clear
        True
        >>> PairedDifference(mean=0.02, standard_error=0.01, seeds=5).clear
        False
        """
        return self.clear_among(1)

    def clear_among(self, comparisons: int) -> bool:
        """Return whether the difference is clear after a Bonferroni correction for several comparisons.

        >>> PairedDifference(mean=0.04, standard_error=0.01, seeds=5).clear_among(1)
        True
        >>> PairedDifference(mean=0.04, standard_error=0.01, seeds=5).clear_among(48)
        False
        """
        if self.standard_error is None:
            return False
        quantile = float(stdtrit(self.seeds - 1, 1 - 0.025 / comparisons))
        # Accuracies are shares of a few thousand nodes: a difference below 1e-9 is rounding.
        return abs(self.mean) > quantile * self.standard_error + 1e-9

    def __str__(self) -> str:
        return _with_error(self.mean, self.standard_error)


@dataclass(frozen=True, kw_only=True)
class PublishedDifference:
    """A measured mean minus a published one. It is not paired: the seeds of the paper are not known.

    Attributes:
        mean: difference of the means.
        standard_error: standard error of the difference; None where a standard deviation is not known.
    """

    mean: float
    standard_error: float | None

    @classmethod
    def of(cls, measured: Row, published: Row) -> PublishedDifference | None:
        """Subtract the published mean of one row from the measured mean of another; None if nothing is published."""
        if published.published_mean is None:
            return None
        error = None
        if measured.std is not None and published.published_std is not None:
            variance = measured.std**2 / len(measured.accuracies) + published.published_std**2 / PUBLISHED_RUNS
            error = math.sqrt(variance)
        return cls(mean=measured.mean - published.published_mean, standard_error=error)

    @property
    def clear(self) -> bool:
        """Whether the difference is larger than two standard errors.

        >>> PublishedDifference(mean=0.05, standard_error=0.02).clear
        True
        >>> PublishedDifference(mean=-0.03, standard_error=0.02).clear
        False
        """
        return self.standard_error is not None and abs(self.mean) > 2 * self.standard_error

    def __str__(self) -> str:
        return _with_error(self.mean, self.standard_error)


Difference = PairedDifference | PublishedDifference


def _with_error(mean: float, standard_error: float | None) -> str:
    return signed_points(mean) if standard_error is None else f"{signed_points(mean)} ± {100 * standard_error:.1f}"


def side(difference: Difference | None) -> str:
    """Return "above" or "below" for a clear difference, and "" otherwise."""
    if difference is None or not difference.clear:
        return ""
    return "above" if difference.mean > 0 else "below"


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Number of settings in which one method is above or below another.

    Attributes:
        method: the other method.
        clearly_above: settings with a clear positive difference.
        above: settings with a positive difference within noise.
        below: settings with a difference of zero or less within noise.
        clearly_below: settings with a clear negative difference.
        mean: mean difference over all settings.
    """

    method: str
    clearly_above: int
    above: int
    below: int
    clearly_below: int
    mean: float

    @classmethod
    def of(cls, method: str, differences: Sequence[Difference]) -> Tally:
        """Count at least one difference."""
        above = [each for each in differences if each.mean > 0]
        below = [each for each in differences if each.mean <= 0]
        return cls(
            method=method,
            clearly_above=sum(each.clear for each in above),
            above=sum(not each.clear for each in above),
            below=sum(not each.clear for each in below),
            clearly_below=sum(each.clear for each in below),
            mean=statistics.mean(each.mean for each in differences),
        )

    @property
    def settings(self) -> int:
        """Number of compared settings."""
        return self.clearly_above + self.above + self.below + self.clearly_below

    @property
    def mean_text(self) -> str:
        """Mean difference in percentage points."""
        return signed_points(self.mean)


# Selection and pairing of rows.


def select(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """Return the rows whose attributes or swept parameters have the given values."""
    return [
        row
        for row in rows
        if all(
            (getattr(row, key) if hasattr(row, key) else row.swept.get(key)) == value for key, value in wanted.items()
        )
    ]


def find(rows: Iterable[Row], **wanted: Any) -> Row | None:
    """Return the first row with the given values, or None."""
    return next(iter(select(rows, **wanted)), None)


def datasets_of(rows: Iterable[Row]) -> list[str]:
    """Return the data sets of some rows, in order of appearance."""
    return list(dict.fromkeys(row.dataset for row in rows))


def counterpart(row: Row, rows: Sequence[Row], method: str) -> Row | None:
    """Return the row of another method on the same data set and at the same budgets.

    A budget that the other method does not use is None in its row and fits every value.
    """
    same = select(rows, dataset=row.dataset, method=method)
    fitting = [
        each for each in same if each.epsilon_x in (None, row.epsilon_x) and each.epsilon_y in (None, row.epsilon_y)
    ]
    return fitting[0] if fitting else None


def control_of(row: Row, rows: Sequence[Row]) -> Row | None:
    """Return the control on the same data set at the same label budget, with the same label mechanism if there is one.

    A row that is not private is compared with the control of the largest label budget.
    """
    controls = [each for each in select(rows, dataset=row.dataset, method=CONTROL) if each.epsilon_y is not None]
    if row.epsilon_y is None:
        return max(controls, key=lambda each: each.epsilon_y or 0.0, default=None)
    same_budget = select(controls, epsilon_y=row.epsilon_y)
    return find(same_budget, label_mechanism=row.label_mechanism) or next(iter(same_budget), None)


def paired(row: Row, other: Row) -> PairedDifference | None:
    """Return the difference of two rows over the seeds that both have; None where they share no seed."""
    return pooled([(row, other)])


def pooled(pairs: Sequence[Pair]) -> PairedDifference | None:
    """Average the differences of several settings seed by seed, over the seeds that all of them have."""
    shared = set.intersection(*(set(a.accuracies) & set(b.accuracies) for a, b in pairs)) if pairs else set()
    if not shared:
        return None
    differences = [
        statistics.mean(a.accuracies[seed] - b.accuracies[seed] for a, b in pairs) for seed in sorted(shared)
    ]
    return PairedDifference.of(differences, [0.0] * len(differences))
