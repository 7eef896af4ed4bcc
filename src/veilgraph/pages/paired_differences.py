"""Differences between rows of results, paired by seed, and the rows that belong together."""

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

ResultsByExperiment = Mapping[str, Sequence[Row]]
"""Rows by the name of their experiment."""


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
        if self.standard_error is None:
            return False
        # Accuracies are shares of a few thousand nodes: a difference below 1e-9 is rounding.
        return abs(self.mean) > float(stdtrit(self.seeds - 1, 0.975)) * self.standard_error + 1e-9

    def __str__(self) -> str:
        if self.standard_error is None:
            return signed_points(self.mean)
        return f"{signed_points(self.mean)} ± {100 * self.standard_error:.1f}"


def side(difference: PairedDifference | None) -> str:
    """Return "above" or "below" for a clear difference, and "" otherwise."""
    if difference is None or not difference.clear:
        return ""
    return "above" if difference.mean > 0 else "below"


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
    seeds = sorted(row.accuracies.keys() & other.accuracies.keys())
    if not seeds:
        return None
    return PairedDifference.of([row.accuracies[seed] for seed in seeds], [other.accuracies[seed] for seed in seeds])
