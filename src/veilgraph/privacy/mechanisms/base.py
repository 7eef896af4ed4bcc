"""What every mechanism offers, whatever it randomizes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import DomainError
from veilgraph.privacy.epsilon import PrivacyLoss
from veilgraph.privacy.mechanisms.random_source import RandomIntegers

Record = tuple[float, ...]
Report = tuple[int, ...]


class Mechanism(Hashable, Protocol):
    """A randomizer together with its privacy claim and its channel.

    Records and reports are tuples with one entry per feature (GRR: one entry) where they are enumerated, and
    arrays with one row per node where they are many.
    """

    @property
    def privacy_loss(self) -> PrivacyLoss:
        """What is promised, computed from the integers that `randomize` compares."""
        ...

    @property
    def num_features(self) -> int:
        """Entries of a record."""
        ...

    def randomize(self, values: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """One report for each row of `values`, independently."""
        ...

    def records(self) -> Iterator[Record]:
        """Every record, or the extreme ones where values are continuous; small domains only."""
        ...

    def reports(self) -> Iterator[Report]:
        """Every report that can occur; small domains only."""
        ...

    def probability(self, report: Report, record: Record) -> Fraction:
        """The exact probability of a report given a record."""
        ...

    def log_likelihood(self, reports: NDArray[Any], record: Record) -> NDArray[np.float64]:
        """ln probability of each row of `reports` given `record`."""
        ...

    def extreme_records(self) -> tuple[Record, Record]:
        """Two records that are told apart as well as any two can be."""
        ...


def check_shape(values: NDArray[Any], num_features: int) -> None:
    """Refuse records that are no table with a column for each feature."""
    if values.ndim != 2 or values.shape[1] != num_features:
        raise DomainError(f"records have shape {values.shape}: expected one row per node and {num_features} features")
