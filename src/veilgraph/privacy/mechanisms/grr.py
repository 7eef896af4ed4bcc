"""Generalized randomized response (GRR) of one value from a declared domain."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from veilgraph.privacy.mechanisms.base import OneValue, Record, Report, check_codes
from veilgraph.privacy.mechanisms.channel import SymmetricChannel
from veilgraph.privacy.mechanisms.integer_table import IntegerTable
from veilgraph.privacy.mechanisms.random_source import WORDS, RandomIntegers
from veilgraph.privacy.mechanisms.wire import CodeReports, chance_text, check_integers, read_parts
from veilgraph.privacy.strict_json import number_text


@dataclass(frozen=True)
class GRR(OneValue, CodeReports):
    r"""Report the true value with probability p, each other value with probability q.

    .. math:: p = e^\epsilon / (e^\epsilon + k - 1), \qquad q = 1 / (e^\epsilon + k - 1)

    for k = `domain_size` values. p and q are multiples of 2**-53, and p/q is at most e^epsilon. One random word
    decides a report. The paper randomizes labels and each sampled feature with it.

    Args:
        domain_size: k, the declared number of values.
        epsilon: the requested budget; with infinity the report is the value itself.

    >>> label = GRR(domain_size=3, epsilon=1.0)
    >>> round(float(label.channel.keep), 4), round(float(label.channel.other), 4)
    (0.5761, 0.2119)
    >>> round(label.privacy_loss.user_level, 9)
    1.0
    >>> label.randomize(np.array([0, 1, 2, 2]), rng=np.random.default_rng(0)).shape
    (4,)
    """

    wire_name: ClassVar[str] = "grr"

    domain_size: int
    epsilon: float
    table: IntegerTable = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        table = IntegerTable.of(domain_size=self.domain_size, epsilon=self.epsilon)
        object.__setattr__(self, "table", table)

    @cached_property
    def channel(self) -> SymmetricChannel:
        """Channel with p on the diagonal and q elsewhere."""
        return SymmetricChannel(
            domain_size=self.domain_size,
            keep=Fraction(self.table.true, WORDS),
            other=Fraction(self.table.other, WORDS),
        )

    @property
    def likelihood(self) -> SymmetricChannel:
        """Probability of a report given the value that it names (keep) or another one (other): the channel."""
        return self.channel

    def named(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        """Return one-hot reports, [reports, values].

        >>> GRR(3, 1.0).named(np.array([2, 0])).astype(int).tolist()
        [[0, 0, 1], [1, 0, 0]]
        """
        hits: NDArray[np.bool_] = np.asarray(reports)[:, None] == np.arange(self.domain_size)
        return hits

    @property
    def document(self) -> dict[str, Any]:
        """Part of the campaign document."""
        return {"mechanism": self.wire_name, "epsilon": number_text(self.epsilon), "table": self.table.document}

    @classmethod
    def read(cls, stated: object, where: str, domain_size: int) -> Self:
        """Read the part of a document; refuse integers that do not follow from its epsilon."""
        parts, epsilon = read_parts(stated, {"table"}, where)
        mechanism = cls(domain_size, epsilon)
        check_integers(mechanism, parts, where)
        return mechanism

    def method_in_words(self, question: str) -> str:
        """Say to people how a device randomizes the answer to a question.

        >>> GRR(3, 1.0).method_in_words("the label")
        'A report has the true answer to the label with a chance of 57.6 in 100, and another one otherwise.'
        """
        return (
            f"A report has the true answer to {question} with {chance_text(self.channel)}, and another one otherwise."
        )

    def randomize(self, values: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Randomize each entry of `values` independently; the result has the same shape and type."""
        check_codes(values, self.domain_size)
        if self.table.other == 0:
            return values.copy()
        return self.respond(values, rng.integers(0, WORDS, size=values.size).reshape(values.shape))

    def respond(self, values: NDArray[Any], words: NDArray[np.int64]) -> NDArray[Any]:
        """Return the reports that given random words decide, one word per value, for a finite epsilon."""
        # Words above the true value's share are divided equally among the k - 1 other values: 1, 2, ... steps away.
        step = np.maximum((words - (self.table.true - self.table.other)) // self.table.other, 0)
        reported = values + step
        reported -= self.domain_size * (reported >= self.domain_size)
        return reported.astype(values.dtype)

    def reports(self) -> Iterator[Report]:
        """Iterate over all values."""
        return ((v,) for v in range(self.domain_size))

    def probability(self, report: Report, record: Record) -> Fraction:
        """Return p if the report equals the record, q otherwise."""
        return self.channel.keep if report == record else self.channel.other

    def log_likelihood(self, reports: NDArray[Any], record: Record) -> NDArray[np.float64]:
        """Return ln p where the report equals the record, ln q elsewhere, [reports]."""
        log_keep = math.log(self.channel.keep)
        log_other = math.log(self.channel.other) if self.channel.other else -math.inf
        same = np.asarray(reports).reshape(len(reports), -1)[:, 0] == record[0]
        return np.where(same, log_keep, log_other)
