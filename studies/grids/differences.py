"""Differences that the studies make beside those of the package: pooled, against published numbers, and counted."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import stdtrit

from veilgraph.experiments.results import Row
from veilgraph.pages.paired_differences import PairedDifference
from veilgraph.privacy.estimate import signed_points

PUBLISHED_RUNS = 5
"""Number of runs behind each published mean and standard deviation."""

Pair = tuple[Row, Row]


def clear_among(difference: PairedDifference, comparisons: int) -> bool:
    """Return whether a difference is clear after a Bonferroni correction for several comparisons.

    >>> difference = PairedDifference(mean=0.04, standard_error=0.01, seeds=5)
    >>> clear_among(difference, 1), clear_among(difference, 48)
    (True, False)
    """
    if difference.standard_error is None:
        return False
    quantile = float(stdtrit(difference.seeds - 1, 1 - 0.025 / comparisons))
    return abs(difference.mean) > quantile * difference.standard_error + 1e-9  # below is rounding


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
        if self.standard_error is None:
            return signed_points(self.mean)
        return f"{signed_points(self.mean)} ± {100 * self.standard_error:.1f}"


Difference = PairedDifference | PublishedDifference


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


def pooled(pairs: Sequence[Pair]) -> PairedDifference | None:
    """Average the differences of several settings seed by seed, over the seeds that all of them have."""
    shared = set.intersection(*(set(a.accuracies) & set(b.accuracies) for a, b in pairs)) if pairs else set()
    if not shared:
        return None
    differences = [
        statistics.mean(a.accuracies[seed] - b.accuracies[seed] for a, b in pairs) for seed in sorted(shared)
    ]
    return PairedDifference.of(differences, [0.0] * len(differences))
