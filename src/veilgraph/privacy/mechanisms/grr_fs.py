"""GRR with feature sampling (GRR-FS): the paper's feature mechanism, with its exact guarantee."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from veilgraph.privacy.budget import check_sampled
from veilgraph.privacy.epsilon import NOT_PRIVATE, PrivacyLoss
from veilgraph.privacy.mechanisms.base import Record, Report, check_table
from veilgraph.privacy.mechanisms.channel import SymmetricChannel
from veilgraph.privacy.mechanisms.feature_sampling import AllAnswers, draw_subsets, mean_over_subsets, split_means
from veilgraph.privacy.mechanisms.grr import GRR
from veilgraph.privacy.mechanisms.integer_table import joint_epsilon, log_ratio
from veilgraph.privacy.mechanisms.random_source import WORDS, RandomIntegers
from veilgraph.privacy.mechanisms.wire import check_integers, read_parts, sampled_in_words
from veilgraph.privacy.strict_json import expect_whole, number_text
from veilgraph.progress import tracked


@dataclass(frozen=True)
class GRRFS(AllAnswers):
    r"""Randomize m of d features by GRR, report uniform values for the others (Section IV-A of the paper).

    The exact epsilon for *any two records* is m * epsilon: sampling features of one record does not amplify its
    privacy. Take the report o = x and a record x' that differs from x in every feature: for every choice of the
    sampled features the likelihood ratio is (p/q)^m. The paper's Theorem 1 states less and is wrong.

    For two records that differ in *one* feature k, sampling does amplify. With r_i = gamma_i q_i, the ratio is
    largest where no other feature matches:

    .. math:: \ln \frac{e_m + \gamma_k p_k e_{m-1}}{e_m + \gamma_k q_k e_{m-1}}

    where e_j are the elementary symmetric polynomials of the other features' r_i.

    Args:
        domain_sizes: gamma_i, the declared number of values of each feature.
        sampled: m, the number of features that each person samples.
        epsilon: epsilon_x, the budget of each sampled feature.

    >>> mechanism = GRRFS(domain_sizes=(2,) * 53, sampled=10, epsilon=1.0)
    >>> round(mechanism.privacy_loss.user_level, 9)
    10.0
    >>> round(mechanism.privacy_loss.attribute_level[0], 4)
    0.2808
    >>> GRRFS(domain_sizes=(2, 3), sampled=1, epsilon=1.0).randomize(
    ...     np.array([[0, 2], [1, 1]]), rng=np.random.default_rng(0)
    ... ).shape
    (2, 2)
    """

    title: ClassVar[str] = "GRR-FS"
    wire_name: ClassVar[str] = "grr_fs"

    domain_sizes: tuple[int, ...]
    sampled: int
    epsilon: float
    responses: tuple[GRR, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        sizes = tuple(int(size) for size in self.domain_sizes)
        check_sampled(self.sampled, len(sizes))
        by_size = {size: GRR(size, self.epsilon) for size in set(sizes)}
        object.__setattr__(self, "domain_sizes", sizes)
        object.__setattr__(self, "responses", tuple(by_size[size] for size in sizes))

    @property
    def sampling_rate(self) -> Fraction:
        """Probability m / d that a given feature is sampled."""
        return Fraction(self.sampled, self.num_features)

    @property
    def privacy_loss(self) -> PrivacyLoss:
        """Exact epsilon under both relations, from the integers.

        Integer tables of different domain sizes differ in their last bits; the m least private ones bound any m.
        """
        tables = sorted((r.table for r in self.responses), key=lambda table: Fraction(table.other, table.true))
        return PrivacyLoss(
            user_level=joint_epsilon(tables[: self.sampled]),
            attribute_level=self._attribute_levels(),
            theorem_1=theorem_1_figure(self.epsilon, self.sampled, self.num_features),
        )

    def _attribute_levels(self) -> tuple[float, ...]:
        if math.isinf(self.epsilon):
            return (NOT_PRIVATE,) * self.num_features
        # One feature of each size first: the level depends on the size alone.
        features = Counter(self.domain_sizes)
        sizes = [*features, *(features - Counter(set(features))).elements()]
        with localcontext(prec=50):
            matches = {size: _decimal(size * r.channel.keep) for size, r in self._sized_responses()}
            misses = {size: _decimal(size * r.channel.other) for size, r in self._sized_responses()}
            splits = split_means([misses[size] for size in sizes], self.sampled, len(features), one=Decimal(1))
            by_size = {
                size: log_ratio(rest + share * matches[size], rest + share * misses[size])
                for size, (rest, share) in zip(sizes, splits, strict=False)
            }
        return tuple(by_size[size] for size in self.domain_sizes)

    def _sized_responses(self) -> Iterator[tuple[int, GRR]]:
        return zip(self.domain_sizes, self.responses, strict=True)

    def channel(self, feature: int) -> SymmetricChannel:
        """Return the channel of one feature: GRR, diluted by the uniform padding of unsampled features."""
        return self.responses[feature].channel.diluted(self.sampling_rate)

    @property
    def document(self) -> dict[str, Any]:
        """Part of the campaign document: a table for each feature."""
        return {
            "mechanism": self.wire_name,
            "epsilon": number_text(self.epsilon),
            "sampled": self.sampled,
            "tables": [response.table.document for response in self.responses],
        }

    @classmethod
    def read(cls, stated: object, where: str, domain_sizes: tuple[int, ...]) -> Self:
        """Read the part of a document; refuse integers that do not follow from its epsilon."""
        parts, epsilon = read_parts(stated, {"sampled", "tables"}, where)
        mechanism = cls(domain_sizes, expect_whole(parts["sampled"], f"{where}.sampled", 1, len(domain_sizes)), epsilon)
        check_integers(mechanism, parts, where)
        return mechanism

    def picked_channel(self, feature: int) -> SymmetricChannel:
        """Return the channel of a sampled feature: GRR."""
        return self.responses[feature].channel

    def method_in_words(self, question: str) -> str:
        """Say to people how a device randomizes the answers to questions."""
        return sampled_in_words(self, question, rest="all the rest get random answers")

    @property
    def coupling(self) -> Hashable:
        """Parameters without the epsilon, if it is finite; otherwise nothing is random."""
        return self if math.isinf(self.epsilon) else replace(self, epsilon=1.0)

    def randomize(self, values: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Draw one report for each row of `values`, [people, features]."""
        (reports,) = self.randomize_coupled((), values, rng=rng)
        return reports

    def randomize_coupled(
        self, others: Sequence[Any], values: NDArray[Any], *, rng: RandomIntegers
    ) -> list[NDArray[Any]]:
        """Draw reports of this mechanism and of others with the same `coupling`, from the same random words."""
        mechanisms: list[GRRFS] = [self, *others]
        check_table(values, self.domain_sizes)
        reports = [np.empty_like(values) for _ in mechanisms]
        subsets = draw_subsets(len(values), num_features=self.num_features, sampled=self.sampled, rng=rng)
        for i, sampled in zip(tracked(range(self.num_features), "randomized features"), subsets, strict=True):
            chosen, padded = np.flatnonzero(sampled), np.flatnonzero(~sampled)
            words = None if math.isinf(self.epsilon) else rng.integers(0, WORDS, size=len(chosen))
            padding = rng.integers(0, self.domain_sizes[i], size=len(padded)).astype(values.dtype)
            given = values[chosen, i]
            for each, found in zip(mechanisms, reports, strict=True):
                found[chosen, i] = given if words is None else each.responses[i].respond(given, words)
                found[padded, i] = padding
        return reports

    def reports(self) -> Iterator[Report]:
        """Iterate over all reports; they are the same tuples as the records."""
        return itertools.product(*(range(size) for size in self.domain_sizes))

    def probability(self, report: Report, record: Record) -> Fraction:
        """Return the mean over all subsets of sampled features: GRR on the subset, uniform values elsewhere."""
        factors = [
            size * (r.channel.keep if reported == value else r.channel.other)
            for (size, r), reported, value in zip(self._sized_responses(), report, record, strict=True)
        ]
        mean: Fraction = mean_over_subsets(factors, self.sampled, one=Fraction(1))
        return mean / math.prod(self.domain_sizes)

    def log_likelihood(self, reports: NDArray[Any], record: Record) -> NDArray[np.float64]:
        """Return the log of `probability` for many reports at once, [reports]."""
        factors: Sequence[NDArray[np.float64]] = [
            np.where(reports[:, i] == record[i], float(size * r.channel.keep), float(size * r.channel.other))
            for i, (size, r) in enumerate(self._sized_responses())
        ]
        means = mean_over_subsets(factors, self.sampled, one=np.ones(len(reports)))
        with np.errstate(divide="ignore"):  # impossible reports, where epsilon is infinite
            return np.asarray(np.log(means) - math.fsum(map(math.log, self.domain_sizes)))


def _decimal(fraction: Fraction) -> Decimal:
    return Decimal(fraction.numerator) / Decimal(fraction.denominator)


def theorem_1_figure(epsilon_x: float, sampled: int, num_features: int) -> float:
    r"""Return the figure of the paper's Theorem 1, ln(1 + (m/d)(e^(m epsilon_x) - 1)). It is not a guarantee.

    The lemma behind it is about sampling *records*. Sampling features of one record does not amplify the
    privacy of the record. The exact user-level epsilon is m * epsilon_x.

    >>> round(theorem_1_figure(1.0, sampled=10, num_features=53), 2)
    8.33
    >>> round(theorem_1_figure(0.1, sampled=10, num_features=53), 3)
    0.281
    """
    exponent = sampled * epsilon_x
    rate = sampled / num_features
    # e^exponent overflows a float beyond 709; there the 1 in the formula is lost in rounding anyway.
    return exponent + math.log(rate) if exponent > 700 else math.log1p(rate * math.expm1(exponent))
