"""Joint GRR: one randomized response for m sampled features together, and no answer about the others."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import BudgetError
from veilgraph.privacy.budget import check_sampled
from veilgraph.privacy.epsilon import PrivacyLoss, check_epsilon
from veilgraph.privacy.mechanisms.base import Record, Report, check_table
from veilgraph.privacy.mechanisms.channel import SymmetricChannel
from veilgraph.privacy.mechanisms.feature_sampling import NOT_ASKED, SampledAnswers, draw_subsets, joint_sizes
from veilgraph.privacy.mechanisms.grr import GRR
from veilgraph.privacy.mechanisms.integer_table import LARGEST_DOMAIN
from veilgraph.privacy.mechanisms.random_source import WORDS, RandomIntegers
from veilgraph.privacy.mechanisms.wire import check_integers, read_parts, sampled_in_words
from veilgraph.privacy.strict_json import expect_whole, number_text


@dataclass(frozen=True)
class JointGRR(SampledAnswers):
    r"""Randomize m of d features as *one* value by GRR, and leave the others out of the report.

    The features are sampled independently of the record. Which ones are sampled therefore reveals nothing, and no
    fake values are needed to hide it. The values of a sampled set S are one value out of
    :math:`\Gamma_S = \prod_{i \in S} \gamma_i`, which GRR reports with the whole budget: the true one with probability

    .. math:: \frac{e^{m\epsilon}}{e^{m\epsilon} + \Gamma_S - 1}

    and otherwise any other value of S, all equally likely. Two records that differ in one sampled feature are two
    different values of S: epsilon is m * epsilon_x for any two records *and* for records that differ in one feature.

    The answer about a sampled feature i is a symmetric channel. Its gain is the mean gain of GRR on S,

    .. math:: g_i = \mathrm{E}_{S \ni i}\, \frac{e^{m\epsilon} - 1}{e^{m\epsilon} + \Gamma_S - 1}

    Separate responses to m features spend part of the budget on making reports with few wrong values likelier than
    reports with many. Here all wrong values are equally likely. For binary features, a total epsilon of 10 (any two
    records) allows eleven answers with a gain of 0.91 instead of five with a gain of 0.76.

    Args:
        domain_sizes: gamma_i, the declared number of values of each feature.
        sampled: m, the number of features that each person samples; at most 2**16 joint values are possible.
        epsilon: epsilon_x, the budget per sampled feature; the joint response has m * epsilon_x.

    >>> mechanism = JointGRR(domain_sizes=(2,) * 53, sampled=4, epsilon=1.0)
    >>> round(mechanism.privacy_loss.user_level, 9), round(mechanism.privacy_loss.attribute_level[0], 9)
    (4.0, 4.0)
    >>> round(float(mechanism.channel(0).gain), 4)  # (e^4 - 1) / (e^4 + 15)
    0.7701
    >>> reports = mechanism.randomize(np.zeros((3, 53), dtype=np.uint8), rng=np.random.default_rng(0))
    >>> (reports != NOT_ASKED).sum(axis=1).tolist()
    [4, 4, 4]
    """

    title: ClassVar[str] = "joint GRR"
    wire_name: ClassVar[str] = "joint_grr"

    epsilon: float
    responses: Mapping[int, GRR] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        sizes = tuple(int(size) for size in self.domain_sizes)
        check_sampled(self.sampled, len(sizes))
        check_epsilon(self.epsilon)
        if (largest := _largest_joint_size(sizes, self.sampled)) > LARGEST_DOMAIN:
            raise BudgetError(
                f"sampled is {self.sampled}: these features have up to {largest} joint values, and at most "
                f"{LARGEST_DOMAIN} are possible; sample fewer"
            )
        object.__setattr__(self, "domain_sizes", sizes)
        total = self.sampled * self.epsilon
        object.__setattr__(self, "responses", {size: GRR(size, total) for size in joint_sizes(sizes, self.sampled)})

    @classmethod
    def best(cls, domain_sizes: Iterable[int], epsilon: float) -> JointGRR:
        r"""Choose m such that the estimates have the least variance, for a user-level `epsilon` (any two records).

        If all values are equally frequent, the estimate of feature i has the variance
        :math:`(\gamma_i - 1) / (\gamma_i^2\, n\, g_i^2\, m/d)`. The m with the least mean over the features is chosen,
        from the declared domains alone.

        >>> [JointGRR.best((2,) * 58, epsilon).sampled for epsilon in (0.5, 1, 2, 4, 10)]
        [1, 1, 2, 4, 11]
        """
        sizes = tuple(domain_sizes)
        check_sampled(1, len(sizes))
        possible = [m for m in range(1, len(sizes) + 1) if _largest_joint_size(sizes, m) <= LARGEST_DOMAIN]
        candidates = [cls(sizes, sampled=m, epsilon=epsilon / m) for m in possible]
        return min(candidates, key=cls._mean_variance)

    def _mean_variance(self) -> float:
        of_size = {size: self._channel_of_size(size).gain for size in set(self.domain_sizes)}
        return math.fsum((size - 1) / (size * float(of_size[size])) ** 2 for size in self.domain_sizes) / self.sampled

    @property
    def privacy_loss(self) -> PrivacyLoss:
        """Exact epsilon under both relations, from the integers of the least private set of features.

        Integer tables of different sizes differ in their last bits only.
        """
        by_size = {size: self._epsilon_of(self._joint_sizes_with(size)) for size in set(self.domain_sizes)}
        return PrivacyLoss(
            user_level=self._epsilon_of(self.responses),
            attribute_level=tuple(by_size[size] for size in self.domain_sizes),
        )

    def _epsilon_of(self, sizes: Iterable[int]) -> float:
        tables = [self.responses[size].table for size in sizes]
        return min(tables, key=lambda table: Fraction(table.other, table.true)).epsilon

    def _joint_sizes_with(self, size: int) -> dict[int, int]:
        """Count the sets that contain a given feature with `size` values, by their number of joint values."""
        others = list(self.domain_sizes)
        others.remove(size)
        return {size * rest: sets for rest, sets in joint_sizes(others, self.sampled - 1).items()}

    def channel(self, feature: int) -> SymmetricChannel:
        """Return the channel of an answer about one feature, averaged over the features sampled with it."""
        return self._channel_of_size(self.domain_sizes[feature])

    def _channel_of_size(self, size: int) -> SymmetricChannel:
        sets = self._joint_sizes_with(size)
        # A share 1/gamma of the joint values has any given value of the feature.
        others = sum(count * (joint // size) * self.responses[joint].table.other for joint, count in sets.items())
        surplus = sum(
            count * (self.responses[joint].table.true - self.responses[joint].table.other)
            for joint, count in sets.items()
        )
        words = sum(sets.values()) * WORDS
        return SymmetricChannel(domain_size=size, keep=Fraction(others + surplus, words), other=Fraction(others, words))

    @property
    def document(self) -> dict[str, Any]:
        """Part of the campaign document: a table for each number of joint values."""
        return {
            "mechanism": self.wire_name,
            "epsilon": number_text(self.epsilon),
            "sampled": self.sampled,
            "tables": [response.table.document for response in self.responses.values()],
        }

    @classmethod
    def read(cls, stated: object, where: str, domain_sizes: tuple[int, ...]) -> Self:
        """Read the part of a document; refuse integers that do not follow from its epsilon."""
        parts, epsilon = read_parts(stated, {"sampled", "tables"}, where)
        sampled = expect_whole(parts["sampled"], f"{where}.sampled", 1, len(domain_sizes))
        mechanism = cls(domain_sizes, sampled, epsilon)
        check_integers(mechanism, parts, where)
        return mechanism

    def method_in_words(self, question: str) -> str:
        """Say to people how a device randomizes the answers to questions."""
        again = "" if self.sampled == 1 else ", and randomizes their answers together"
        return sampled_in_words(self, question, again=again, rest="the report says nothing about the rest")

    def randomize(self, values: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Draw one report for each row: codes of the m sampled features, NOT_ASKED elsewhere, [people, features]."""
        check_table(values, self.domain_sizes)
        people = len(values)
        subsets = list(draw_subsets(people, num_features=self.num_features, sampled=self.sampled, rng=rng))
        joint, sizes = np.zeros(people, dtype=np.int64), np.ones(people, dtype=np.int64)
        for i, (size, asked) in enumerate(zip(self.domain_sizes, subsets, strict=True)):
            joint[asked] += values[asked, i].astype(np.int64) * sizes[asked]
            sizes[asked] *= size
        for size in np.unique(sizes).tolist():
            joint[sizes == size] = self.responses[size].randomize(joint[sizes == size], rng=rng)
        reports = np.full(values.shape, NOT_ASKED, dtype=self.code_type)
        for i, (size, asked) in enumerate(zip(self.domain_sizes, subsets, strict=True)):
            joint[asked], reports[asked, i] = np.divmod(joint[asked], size)
        return reports

    def response_channels(
        self, people: NDArray[np.int64], features: NDArray[np.int64], count: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return p - q and q of each report, which depend on the number of joint values of its features, [people]."""
        sizes, gain, other = np.ones(count, dtype=np.int64), np.ones(count), np.zeros(count)
        np.multiply.at(sizes, people, np.array(self.domain_sizes)[features])
        for size, response in self.responses.items():
            gain[sizes == size], other[sizes == size] = float(response.channel.gain), float(response.channel.other)
        return gain, other

    def reports(self) -> Iterator[Report]:
        """Iterate over all sets of sampled features and all their values."""
        for asked in itertools.combinations(range(self.num_features), self.sampled):
            values = [range(size) if i in asked else (NOT_ASKED,) for i, size in enumerate(self.domain_sizes)]
            yield from itertools.product(*values)

    def probability(self, report: Report, record: Record) -> Fraction:
        """Return the probability of the sampled set, times that of its joint value."""
        asked = [i for i, value in enumerate(report) if value != NOT_ASKED]
        channel = self.responses[math.prod(self.domain_sizes[i] for i in asked)].channel
        same = all(report[i] == record[i] for i in asked)
        return (channel.keep if same else channel.other) / math.comb(self.num_features, self.sampled)

    def log_likelihood(self, reports: NDArray[Any], record: Record) -> NDArray[np.float64]:
        """Return the log of `probability` for many reports at once, [reports]."""
        asked = reports != NOT_ASKED
        same = (~asked | (reports == np.asarray(record))).all(axis=1)
        sizes = np.where(asked, self.domain_sizes, 1).prod(axis=1)
        chances = np.empty(len(reports))
        for size, response in self.responses.items():
            keep, other = float(response.channel.keep), float(response.channel.other)
            chances[sizes == size] = np.where(same, keep, other)[sizes == size]
        with np.errstate(divide="ignore"):  # impossible reports, where epsilon is infinite
            return np.asarray(np.log(chances) - math.log(math.comb(self.num_features, self.sampled)))


def _largest_joint_size(domain_sizes: Iterable[int], sampled: int) -> int:
    return math.prod(sorted(domain_sizes)[-sampled:])
