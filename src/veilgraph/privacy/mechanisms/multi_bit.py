"""Multi-bit mechanism of LPGNN: one bit for each of m sampled features, and no answer about the others."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import BudgetError, DomainError, ReconstructionError
from veilgraph.privacy.budget import check_sampled
from veilgraph.privacy.epsilon import PrivacyLoss
from veilgraph.privacy.mechanisms.base import Record, Report, check_shape
from veilgraph.privacy.mechanisms.channel import SymmetricChannel
from veilgraph.privacy.mechanisms.feature_sampling import NOT_ASKED, FeatureReports, draw_subsets
from veilgraph.privacy.mechanisms.integer_table import IntegerTable, joint_epsilon
from veilgraph.privacy.mechanisms.random_source import WORDS, RandomIntegers


@dataclass(frozen=True)
class MultiBit(FeatureReports):
    r"""Report +1 or -1 for m of d features and 0 for the others (Sajadmanesh and Gatica-Perez, CCS 2021).

    A sampled value x in [lower, upper] is reported as +1 with probability

    .. math:: \frac{1}{e^\epsilon + 1} + \frac{x - lower}{upper - lower} \cdot \frac{e^\epsilon - 1}{e^\epsilon + 1}

    which is rounded to an integer threshold between those of the two ends. Rounding therefore cannot reveal more than
    the ends do. The zeros show which features were sampled, so sampling does not amplify: epsilon is m * epsilon_x for
    any two records, and epsilon_x for records that differ in one feature. The epsilon of their paper is m * epsilon_x.

    Args:
        lower: declared lower end of each feature's range.
        upper: declared upper end of each feature's range.
        sampled: m, the number of features that each person samples.
        epsilon: epsilon_x, the budget of each sampled feature.

    >>> mechanism = MultiBit(lower=(0.0,) * 53, upper=(1.0,) * 53, sampled=2, epsilon=0.5)
    >>> round(mechanism.privacy_loss.user_level, 9), round(mechanism.privacy_loss.attribute_level[0], 9)
    (1.0, 0.5)
    """

    title: ClassVar[str] = "multi-bit"
    shows_sampled: ClassVar[bool] = True

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    sampled: int
    epsilon: float
    table: IntegerTable = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.lower) != len(self.upper):
            raise BudgetError(f"{len(self.lower)} lower ends but {len(self.upper)} upper ends: give one of each")
        for i, (low, high) in enumerate(zip(self.lower, self.upper, strict=True)):
            if not 0 < high - low < math.inf:
                raise BudgetError(f"feature {i}: range {low}..{high} is empty or infinite")
        check_sampled(self.sampled, len(self.lower))
        object.__setattr__(self, "lower", tuple(map(float, self.lower)))
        object.__setattr__(self, "upper", tuple(map(float, self.upper)))
        object.__setattr__(self, "table", IntegerTable.of(domain_size=2, epsilon=self.epsilon))

    @property
    def num_features(self) -> int:
        """Number of features, d."""
        return len(self.lower)

    @property
    def privacy_loss(self) -> PrivacyLoss:
        """Exact epsilon under both relations, from the integers."""
        return PrivacyLoss(
            user_level=joint_epsilon([self.table] * self.sampled),
            attribute_level=(self.table.epsilon,) * self.num_features,
        )

    @property
    def answering_rate(self) -> Fraction:
        """m / d, the share of people who answer about a given feature."""
        return Fraction(self.sampled, self.num_features)

    def channel(self, feature: int) -> SymmetricChannel:
        """Return the channel of an answer's sign, for a value at the lower end (-1) or the upper end (+1)."""
        return SymmetricChannel(
            domain_size=2,
            keep=Fraction(self.table.true, WORDS),
            other=Fraction(self.table.other, WORDS),
        )

    @property
    def coupling(self) -> Hashable:
        """Parameters without the epsilon, if it is finite; otherwise nothing is random."""
        return self if math.isinf(self.epsilon) else replace(self, epsilon=1.0)

    def randomize(self, values: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Draw one report of -1, 0 and +1 for each row of `values`, [people, features]."""
        (reports,) = self.randomize_coupled((), values, rng=rng)
        return reports

    def randomize_coupled(
        self, others: Sequence[Any], values: NDArray[Any], *, rng: RandomIntegers
    ) -> list[NDArray[Any]]:
        """Draw reports of this mechanism and of others with the same `coupling`, from the same random words."""
        mechanisms: list[MultiBit] = [self, *others]
        self._check_records(values)
        reports = [np.zeros(values.shape, dtype=np.int8) for _ in mechanisms]
        subsets = draw_subsets(len(values), num_features=self.num_features, sampled=self.sampled, rng=rng)
        for i, sampled in enumerate(subsets):
            chosen = np.flatnonzero(sampled)
            words = rng.integers(0, WORDS, size=len(chosen))
            for each, found in zip(mechanisms, reports, strict=True):
                found[chosen, i] = np.where(words < each._thresholds(values[chosen, i], i), 1, -1)
        return reports

    def answered(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which features each report has an answer about, [people, features]."""
        return np.asarray(reports != 0)

    def codes(self, reports: NDArray[Any], domain_sizes: Sequence[int]) -> NDArray[Any]:
        """Return signs as codes of binary features; refuse other features, where it is no symmetric channel."""
        if {*zip(self.lower, self.upper, domain_sizes, strict=True)} != {(0.0, 1.0, 2)}:
            raise ReconstructionError(
                "features with more than two values cannot be reconstructed from reports of MultiBit: use GRRFS or "
                "JointGRR"
            )
        return np.where(reports == 0, NOT_ASKED, reports > 0).astype(np.int8)

    def _check_records(self, values: NDArray[Any]) -> None:
        check_shape(values, self.num_features)
        lower, upper = np.asarray(self.lower), np.asarray(self.upper)
        # The columns' extremes are enough to accept all values at once. NaN fails every comparison.
        if len(values) and ((values.min(axis=0) >= lower) & (values.max(axis=0) <= upper)).all():
            return
        outside = ~((values >= lower) & (values <= upper))
        if outside.any():
            row, i = np.argwhere(outside)[0]
            raise DomainError(
                f"feature {i}, row {row}: outside the declared range {lower[i]}..{upper[i]} (value withheld)"
            )

    def _thresholds(self, values: NDArray[Any], feature: int) -> NDArray[np.int64]:
        """Return for each value of one feature the number of random words that report +1."""
        lower, upper = self.lower[feature], self.upper[feature]
        span = self.table.true - self.table.other
        # The guarantee depends on this clip: no rounding exceeds the thresholds of the two ends.
        steps = np.clip(np.rint((values - lower) / (upper - lower) * span).astype(np.int64), 0, span)
        return np.asarray(self.table.other + steps)

    def _record_thresholds(self, record: Record) -> NDArray[np.int64]:
        values = np.array([record], dtype=np.float64)
        self._check_records(values)
        return np.concatenate([self._thresholds(column, i) for i, column in enumerate(values.T)])

    @property
    def record_values(self) -> tuple[Record, ...]:
        """Ends of the range of each feature."""
        return tuple(zip(self.lower, self.upper, strict=True))

    def records(self) -> Iterator[Record]:
        """Iterate over the corners of the range; inside it, probabilities lie between those of the corners."""
        return itertools.product(*self.record_values)

    def reports(self) -> Iterator[Report]:
        """Iterate over all vectors with exactly m non-zero entries."""
        vectors = itertools.product((-1, 0, 1), repeat=self.num_features)
        return (vector for vector in vectors if sum(map(abs, vector)) == self.sampled)

    def probability(self, report: Report, record: Record) -> Fraction:
        """Return the probability of the sampled set, times that of the bit of each sampled feature."""
        thresholds = self._record_thresholds(record)
        bits = [
            Fraction(int(t) if bit > 0 else WORDS - int(t), WORDS)
            for bit, t in zip(report, thresholds, strict=True)
            if bit
        ]
        return math.prod(bits, start=Fraction(1, math.comb(self.num_features, self.sampled)))

    def log_likelihood(self, reports: NDArray[Any], record: Record) -> NDArray[np.float64]:
        """Return the log of `probability` for many reports at once, [reports]."""
        chance = self._record_thresholds(record) / WORDS
        with np.errstate(divide="ignore"):  # impossible bits, where epsilon is infinite
            log_one, log_minus_one = np.log(chance), np.log1p(-chance)
        bits = np.where(reports > 0, log_one, np.where(reports < 0, log_minus_one, 0.0)).sum(axis=1)
        return np.asarray(bits - math.log(math.comb(self.num_features, self.sampled)))

    def extreme_records(self) -> tuple[Record, Record]:
        """Return the record of all lower ends and the record of all upper ends."""
        return tuple(self.lower), tuple(self.upper)
