r"""Sampled reports against stated probabilities: exact tests, whatever the number of draws.

Where reports are few, each count of a report is binomial, given the record. Where they are many, the records of a pair
are guessed: given a report, the first one is behind it with the probability
:math:`P(o \mid x) / (P(o \mid x) + P(o \mid x'))` that the mechanism states. Reports are put in bins by this
probability. The number of first records in a bin is a sum of independent Bernoulli variables, whose tails are at most
those of the binomial with their mean (Hoeffding 1956).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from veilgraph.privacy.auditing.columns import row_keys
from veilgraph.privacy.auditing.sources import Drawn, MechanismSource

MOST_REPORTS = 2000
"""Largest number of different reports that are counted one by one."""
_BINS = 20
_DRAWS_OF_A_VALUE = 16
_ROUNDING = 1e-9
"""By so much may stated probabilities exceed 1 in sum: they are computed from logarithms."""


def binomial_p_values(
    counts: NDArray[np.int64], trials: NDArray[np.int64], chances: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return two-sided exact p-values of counts among trials that have a stated chance.

    >>> binomial_p_values(np.array([0, 5]), np.array([10, 10]), np.array([0.5, 0.5])).round(4).tolist()
    [0.002, 1.0]
    """
    from scipy.special import bdtr, bdtrc  # slow to import

    low = bdtr(counts, trials, chances)
    high = np.where(counts > 0, bdtrc(np.maximum(counts - 1, 0), trials, chances), 1.0)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(low, high)))


@dataclass
class StatedCheck:
    """Counts of reports beside their stated probabilities; `learn` decides which reports are counted, `count` counts.

    Attributes:
        records: number of records.
        keys: sorted keys of the reports that are counted; none, where they are too many.
        chances: stated probabilities of these reports, and of all others together, [keys + 1, records].
        counts: how often each was drawn, [keys + 1, records].
        bins: stated probability of the first record of a pair, and whether it was behind the report.
    """

    records: int
    keys: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    chances: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))
    counts: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))
    bins: list[tuple[NDArray[np.float64], NDArray[np.bool_]]] = field(default_factory=list)

    def learn(self, drawn: Drawn) -> None:
        """Choose the reports that are counted in other draws, where they are few."""
        keys, first = np.unique(row_keys(drawn.columns), return_index=True)
        if len(keys) > MOST_REPORTS:
            return
        few = drawn.take(first)
        known = np.exp(np.column_stack([few.log_likelihood(number) for number in range(self.records)]))
        self.keys, self.chances = keys, np.vstack([known, 1 - known.sum(axis=0)])
        self.counts = np.zeros(self.chances.shape, dtype=np.int64)

    def count(self, drawn: Drawn, numbers: NDArray[np.int64], *, are_of_all: bool) -> None:
        """Count draws of records [reports], which are of all records alike or of some."""
        if not len(self.keys):
            if are_of_all:
                self._count_pairs(drawn, numbers)
            return
        keys = row_keys(drawn.columns)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        places = np.where(self.keys[places] == keys, places, len(self.keys))
        self.counts += np.bincount(places * self.records + numbers, minlength=self.counts.size).reshape(
            self.counts.shape
        )

    def _count_pairs(self, drawn: Drawn, numbers: NDArray[np.int64]) -> None:
        """Compare each record with the one beside it: 0 with 1, 2 with 3."""
        for first in range(0, self.records - 1, 2):
            rows = np.flatnonzero(numbers // 2 == first // 2)
            part = drawn.take(rows)
            ratio = part.log_likelihood(first + 1) - part.log_likelihood(first)
            with np.errstate(over="ignore"):
                self.bins.append((1 / (1 + np.exp(ratio)), numbers[rows] == first))

    @property
    def p_value(self) -> float:
        """Chance that sampled reports deviate so far from what is stated, corrected for the number of tests."""
        if len(self.keys):
            if (self.chances[-1] < -_ROUNDING).any():
                return 0.0
            totals = np.broadcast_to(self.counts.sum(axis=0), self.counts.shape)
            chances = np.clip(self.chances, 0, 1)
            chances[-1] = np.where(chances[-1] < _ROUNDING, 0.0, chances[-1])
            p_values = binomial_p_values(self.counts, totals, chances)
            return min(1.0, float(p_values.min()) * p_values.size)
        stated = np.concatenate([chances for chances, _ in self.bins])
        if np.isnan(stated).any():  # a report that is impossible for both records
            return 0.0
        hits = np.concatenate([hits for _, hits in self.bins])[np.argsort(stated, kind="stable")]
        edges = np.linspace(0, len(stated), _BINS + 1).astype(np.int64)[:-1]
        sizes = np.diff(edges, append=len(stated))
        means = np.add.reduceat(np.sort(stated), edges) / sizes
        p_values = binomial_p_values(np.add.reduceat(hits.astype(np.int64), edges), sizes, np.clip(means, 0, 1))
        return min(1.0, float(p_values.min()) * _BINS)


def values_p_value(source: MechanismSource, rng: np.random.Generator) -> float:
    """Return the chance that the first report of any record comes again so often in a few more draws, corrected.

    Given the first report, each other one equals it with its stated probability: an exact test of each record, which a
    report that is always the same fails, and a report that is stated to be impossible.
    """
    from scipy.special import bdtrc  # slow to import

    least = 1.0
    for number in range(source.num_records):
        drawn = source.draw(np.full(_DRAWS_OF_A_VALUE, number), rng=rng)
        stated = np.exp(drawn.log_likelihood(number))
        if not (stated > 0).all():
            return 0.0
        again = int((drawn.columns[1:] == drawn.columns[0]).all(axis=1).sum())
        if again:
            least = min(least, float(bdtrc(again - 1, _DRAWS_OF_A_VALUE - 1, min(1.0, float(stated[0])))))
    return min(1.0, least * source.num_records)
