"""The protocol that every mechanism satisfies."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import DomainError
from veilgraph.privacy.epsilon import PrivacyLoss
from veilgraph.privacy.mechanisms.channel import SymmetricChannel
from veilgraph.privacy.mechanisms.random_source import RandomIntegers
from veilgraph.privacy.mechanisms.wire import PackedForm

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

    @property
    def num_features(self) -> int:
        """Number of features of a record."""

    def randomize(self, values: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Draw one report for each row of `values`, independently."""

    @property
    def record_values(self) -> tuple[Record, ...]:
        """Values of each entry of a record; the ends of the range where values are continuous."""

    def records(self) -> Iterator[Record]:
        """Iterate over all records, or over the extreme ones where values are continuous; small domains only."""

    def reports(self) -> Iterator[Report]:
        """Iterate over all possible reports; small domains only."""

    def probability(self, report: Report, record: Record) -> Fraction:
        """Return the exact probability of a report given a record."""

    def log_likelihood(self, reports: NDArray[Any], record: Record) -> NDArray[np.float64]:
        """Return the log-probability of each row of `reports` given `record`, [reports]."""

    def extreme_records(self) -> tuple[Record, Record]:
        """Return two records whose reports differ most: a pair that attains the user-level epsilon."""


class LabelMechanism(PackedForm, Mechanism, Protocol):
    """A mechanism for one class out of a declared domain. Its report names a set of w classes; with GRR, w is 1.

    All consumers of labels read reports through `named`, `channel` and `likelihood`, and their wire form through the
    methods of `PackedForm`, so any label mechanism will do.
    """

    @property
    def domain_size(self) -> int:
        """Number of classes, k."""

    @property
    def epsilon(self) -> float:
        """Requested budget."""

    @property
    def set_size(self) -> int:
        """Number of classes that a report names, w."""

    @property
    def channel(self) -> SymmetricChannel:
        """Probability that a report names a class, given the true class; each row sums to w."""

    @property
    def likelihood(self) -> SymmetricChannel:
        """Probability of a report given a class that it names (keep) or does not name (other), up to one factor."""

    def named(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which classes each report names, [reports, classes]."""

    def check_reports(self, reports: NDArray[Any]) -> None:
        """Refuse an array whose rows are not possible reports."""


class FeatureMechanism(Mechanism, Protocol):
    """A mechanism for the features of a record, with what learning asks of its reports, [people, features].

    Attributes:
        title: name in tables.
        shows_sampled: whether a report shows which features it answers; otherwise it has an answer about each.
    """

    title: ClassVar[str]
    shows_sampled: ClassVar[bool]

    @property
    def answering_rate(self) -> Fraction:
        """Probability that a report says something about a given feature."""

    def channel(self, feature: int) -> SymmetricChannel:
        """Return the channel from a feature's value to the answer about it."""

    def answered(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which features each report has an answer about, [people, features]."""

    def codes(self, reports: NDArray[Any], domain_sizes: Sequence[int]) -> NDArray[Any]:
        """Return reports as codes of a schema, NOT_ASKED where there is no answer; refuse reports that are none."""

    def response_channels(
        self, people: NDArray[np.int64], features: NDArray[np.int64], count: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the gain and the `other` of the response to all features of a report together, [people] each.

        A mechanism that answers one feature at a time has 1 and 0: then learning compares the answers themselves.

        Args:
            people: person of each answer, [answers].
            features: feature of each answer, [answers].
            count: number of people.
        """

    @property
    def coupling(self) -> Hashable:
        """Key that is equal for mechanisms that can read the same random words: they differ in epsilon alone."""

    def randomize_coupled(
        self, others: Sequence[Any], values: NDArray[Any], *, rng: RandomIntegers
    ) -> list[NDArray[Any]]:
        """Draw reports of this mechanism and of others with the same `coupling`, from the same random words.

        For simulations: only one of these reports may leave a device, since together they reveal more.

        Args:
            others: the other mechanisms; a mechanism that cannot be coupled has none.
            values: records, [people, features].
            rng: source of the shared random words.
        """


class OneValue:
    """What mechanisms share whose record is a single value, such as the label."""

    domain_size: int
    table: Any

    @property
    def num_features(self) -> int:
        """1: a record is a single value."""
        return 1

    @property
    def privacy_loss(self) -> PrivacyLoss:
        """Exact epsilon; both relations coincide, since one value is the whole record."""
        return PrivacyLoss(user_level=self.table.epsilon, attribute_level=(self.table.epsilon,))

    @property
    def record_values(self) -> tuple[Record, ...]:
        """All values."""
        return (tuple(range(self.domain_size)),)

    def records(self) -> Iterator[Record]:
        """Iterate over all values."""
        return itertools.product(*self.record_values)

    def extreme_records(self) -> tuple[Record, Record]:
        """Return two different values; any two attain the epsilon."""
        return (0,), (1,)


def check_shape(values: NDArray[Any], num_features: int) -> None:
    """Refuse records that do not have the shape [people, features]."""
    if values.ndim != 2 or values.shape[1] != num_features:
        raise DomainError(f"records have shape {values.shape}: expected one row per node and {num_features} features")


def check_codes(values: NDArray[Any], domain_size: int, *, feature: str = "value") -> None:
    """Refuse codes outside 0..domain_size-1.

    >>> check_codes(np.array([0, 7]), 3, feature="feature 2")
    Traceback (most recent call last):
    veilgraph.errors.DomainError: feature 2, row 1: outside the declared domain 0..2 (value withheld)
    """
    if not np.issubdtype(values.dtype, np.integer):
        raise DomainError(f"{feature}: codes must be integers, not {values.dtype}; encode the table first")
    if np.iinfo(values.dtype).max < domain_size - 1:
        raise DomainError(f"{feature}: {values.dtype} cannot hold reports of 0..{domain_size - 1}; use a wider type")
    outside = (values < 0) | (values >= domain_size)
    if outside.any():
        row = int(np.argwhere(outside)[0][0])
        raise DomainError(f"{feature}, row {row}: outside the declared domain 0..{domain_size - 1} (value withheld)")


def check_table(values: NDArray[Any], domain_sizes: Sequence[int]) -> None:
    """Check the codes of records, [people, features], as `check_codes` does for one feature.

    >>> check_table(np.array([[0, 1], [7, 0]]), (2, 3))
    Traceback (most recent call last):
    veilgraph.errors.DomainError: feature 0, row 1: outside the declared domain 0..1 (value withheld)
    """
    check_shape(values, len(domain_sizes))
    if _all_inside(values, np.asarray(domain_sizes)):
        return
    for i, size in enumerate(domain_sizes):
        check_codes(values[:, i], size, feature=f"feature {i}")


def _all_inside(values: NDArray[Any], sizes: NDArray[np.int64]) -> bool:
    """Check all codes at once by the columns' extremes; only if this fails, the wrong entry has to be found."""
    if len(values) == 0 or not np.issubdtype(values.dtype, np.integer):
        return False
    holds_all = np.iinfo(values.dtype).max >= sizes.max() - 1
    return bool(holds_all and (values.min(axis=0) >= 0).all() and (values.max(axis=0) < sizes).all())
