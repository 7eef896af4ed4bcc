"""The protocol that every mechanism satisfies."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from veilgraph.privacy.epsilon import PrivacyLoss
from veilgraph.privacy.mechanisms.random_source import RandomIntegers

Record = tuple[float, ...]
Report = tuple[int, ...]


class Mechanism(Hashable, Protocol):
    """A randomizer together with its privacy loss and its channel.

    Single records and reports are tuples with one entry per feature (GRR: one entry). Many of them are arrays,
    [people, features].
    """

    @property
    def privacy_loss(self) -> PrivacyLoss:
        """Exact epsilon under each neighbour relation, computed from the integers that `randomize` compares."""
        ...

    @property
    def num_features(self) -> int:
        """Number of features of a record."""
        ...

    def randomize(self, values: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Draw one report for each row of `values`, independently."""
        ...

    def records(self) -> Iterator[Record]:
        """Iterate over all records, or over the extreme ones where values are continuous; small domains only."""
        ...

    def reports(self) -> Iterator[Report]:
        """Iterate over all possible reports; small domains only."""
        ...

    def probability(self, report: Report, record: Record) -> Fraction:
        """Return the exact probability of a report given a record."""
        ...

    def log_likelihood(self, reports: NDArray[Any], record: Record) -> NDArray[np.float64]:
        """Return the log-probability of each row of `reports` given `record`, [reports]."""
        ...

    def extreme_records(self) -> tuple[Record, Record]:
        """Return two records whose reports differ most: a pair that attains the user-level epsilon."""
        ...
