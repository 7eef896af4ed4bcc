"""A histogram of the neighbours: their published beliefs, added up, plus discrete Laplace noise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import BudgetError, CampaignError
from veilgraph.privacy.belief_table import finest_scale
from veilgraph.privacy.epsilon import NOT_PRIVATE, ListLoss, ListRelation
from veilgraph.privacy.mechanisms.base import Report
from veilgraph.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from veilgraph.privacy.mechanisms.neighbourhood import ADDED_IN_WORDS, Sums, check_classes, check_sums
from veilgraph.privacy.mechanisms.random_source import RandomIntegers
from veilgraph.privacy.mechanisms.wire import CountReports, check_integers, read_parts
from veilgraph.privacy.plain_text import counted
from veilgraph.privacy.strict_json import expect_whole, number_text

LARGEST_COUNT = 2**15 - 1

_LARGEST_RATE = 2.0
"""Histograms are scaled by their epsilon up to this value; beyond it neighbours, not noise, set the scale."""

_CLIP = 3.0


@dataclass(frozen=True)
class NeighbourhoodHistogram(CountReports):
    r"""Report the sum of the neighbours' published beliefs, with discrete Laplace noise in every class.

    .. math:: r_c = \sum_{j \in N} b_j(c) + Z_c, \qquad P(Z_c = z) \propto e^{-\epsilon |z| / s}

    A neighbour's belief b is a row of whole numbers that sum to s, so one entry changes the sums by s in L1. The
    guarantee for **one entry** of a list is exactly epsilon, however long the list is.

    Whole lists are protected only with a cap. Then at most `cap` neighbours count for each class: sums above cap * s
    are cut. Cutting never moves two sums apart, so one entry still costs epsilon. Any two lists differ by at most
    k cap s, and the epsilon for **any two lists** is exactly k cap epsilon.

    Many answers are an array [people, classes] of int32. Counts beyond `largest` are cut after the noise.

    Args:
        num_classes: k, the declared number of classes.
        epsilon: the requested budget of one entry, for one wave.
        scale: s, the units of a belief.
        cap: number of neighbours that count for each class at most; None for no limit.
        largest: largest absolute count of an answer, in units.

    >>> histogram = NeighbourhoodHistogram(num_classes=4, epsilon=2.0, scale=60)
    >>> round(histogram.list_loss.one_entry, 9), histogram.list_loss.any_lists
    (2.0, inf)
    >>> capped = NeighbourhoodHistogram(num_classes=4, epsilon=0.1, scale=60, cap=5)
    >>> round(capped.list_loss.any_lists, 9)
    2.0
    >>> histogram.randomize(np.array([[120, 0, 0, 60]]), rng=np.random.default_rng(0)).shape
    (1, 4)
    """

    wire_name: ClassVar[str] = "neighbourhood_histogram"
    asks_for_lists: ClassVar[bool] = False

    num_classes: int
    epsilon: float
    scale: int
    cap: int | None = None
    largest: int = LARGEST_COUNT
    noise: DiscreteLaplace = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.num_classes < 2:
            raise BudgetError(f"num_classes is {self.num_classes}: there must be at least 2 classes")
        if self.cap is not None and self.cap < 1:
            raise BudgetError(f"cap is {self.cap}: at least 1 neighbour must count, or leave it out for no limit")
        if not self.scale <= self.largest <= LARGEST_COUNT:
            raise BudgetError(f"largest is {self.largest}: choose {self.scale} to {LARGEST_COUNT} units")
        object.__setattr__(self, "noise", DiscreteLaplace.of(epsilon=self.epsilon, sensitivity=self.scale))

    @property
    def num_columns(self) -> int:
        """k: sums have a column for each class."""
        return self.num_classes

    @property
    def list_loss(self) -> ListLoss:
        """Exact epsilon under each relation between lists."""
        whole = NOT_PRIVATE if self.cap is None else self.noise.epsilon(self.num_classes * self.cap * self.scale)
        return ListLoss(any_lists=whole, one_entry=self.noise.epsilon(self.scale))

    def cut(self, sums: NDArray[Any]) -> NDArray[np.int64]:
        """Return the sums with at most `cap` neighbours for each class, [people, classes]."""
        check_sums(sums, self.num_classes)
        wide = sums.astype(np.int64)
        return wide if self.cap is None else np.minimum(wide, self.cap * self.scale)

    def randomize(self, sums: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Draw one noisy histogram for each row of `sums`, int32 [people, classes]."""
        counted = self.cut(sums)
        noisy = counted + self.noise.draw(counted.size, rng=rng).reshape(counted.shape)
        return np.asarray(np.clip(noisy, -self.largest, self.largest), dtype=np.int32)

    def class_columns(self, reports: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        r"""Return three columns for each class [answers, classes, 3], and one for each answer [answers, 1].

        For a histogram h, in neighbours: :math:`\mathrm{asinh}(\epsilon h_c)`, h itself, clipped, and the share
        :math:`h_c^+ / (1 + \sum_x h_x^+)`. Of a whole answer it is the asinh of the sum.
        """
        counts, rate = reports / self.scale, min(self.epsilon, _LARGEST_RATE)
        positive = np.maximum(counts, 0)
        share = positive / (1 + positive.sum(axis=1, keepdims=True))
        total = np.arcsinh(counts.sum(axis=1, keepdims=True) * rate / np.sqrt(self.num_classes))
        return np.stack([np.arcsinh(counts * rate), np.clip(counts, -_CLIP, _CLIP), share], axis=2), total

    def reports(self) -> Iterator[Report]:
        """Iterate over all histograms."""
        return itertools.product(range(-self.largest, self.largest + 1), repeat=self.num_classes)

    def probability(self, report: Report, sums: Sums) -> Fraction:
        """Return the product over the classes; the ends of the range hold the tails of the noise."""
        counted = sums if self.cap is None else [min(each, self.cap * self.scale) for each in sums]
        return math.prod(
            (self._chance(value, count) for value, count in zip(report, counted, strict=True)), start=Fraction(1)
        )

    def _chance(self, value: int, count: int) -> Fraction:
        if value == self.largest:
            return self.noise.tail(value - count)
        if value == -self.largest:
            return self.noise.tail(count - value)  # the noise is symmetric
        return self.noise.probability(value - count)

    def log_likelihood(self, reports: NDArray[Any], sums: Sums) -> NDArray[np.float64]:
        """Return the log of `probability` for many histograms at once, [reports]."""
        (counted,) = self.cut(np.array([sums]))
        found = np.asarray(self.noise.log_probability(np.asarray(reports, dtype=np.int64) - counted))
        for end in (self.largest, -self.largest):
            for row, column in np.argwhere(np.asarray(reports) == end).tolist():
                chance = self._chance(end, int(counted[column]))
                found[row, column] = math.log(chance) if chance else -math.inf
        return np.asarray(found.sum(axis=1))

    def extreme_sums(self, relation: ListRelation) -> tuple[Sums, Sums]:
        """Return an empty list and one with a single certain neighbour, or with as many as count in every class."""
        empty = (0,) * self.num_classes
        if relation is ListRelation.ANY_LISTS and self.cap is not None:
            return empty, (self.cap * self.scale,) * self.num_classes
        return empty, (self.scale, *empty[1:])

    @property
    def document(self) -> dict[str, Any]:
        """Part of the campaign document."""
        return {
            "mechanism": self.wire_name,
            "epsilon": number_text(self.epsilon),
            "scale": self.scale,
            "cap": self.cap,
            "largest": self.largest,
            "more": self.noise.more,
        }

    @classmethod
    def read(cls, stated: object, where: str, num_classes: int) -> Self:
        """Read the part of a document; refuse integers that do not follow from its epsilon."""
        parts, epsilon = read_parts(stated, {"scale", "cap", "largest", "more"}, where)
        scale, largest = (expect_whole(parts[key], f"{where}.{key}", 1, LARGEST_COUNT) for key in ("scale", "largest"))
        cap = None if parts["cap"] is None else expect_whole(parts["cap"], f"{where}.cap", 1, 2**31 - 1)
        answer = cls(num_classes, epsilon, scale, cap, largest)
        check_integers(answer, parts, where)
        return answer

    def check_asked(self, *, classes: int, people: int) -> None:
        """Refuse a campaign with another number of classes, or units that published beliefs do not have."""
        check_classes(self.num_classes, classes)
        if self.scale != (finest := finest_scale(classes)):
            raise CampaignError(f"a histogram counts in {self.scale} units, a belief in {classes} classes has {finest}")

    @property
    def title(self) -> str:
        """What is asked, and what is protected, in a few words."""
        capped = "" if self.cap is None else f", at most {self.cap} in each class"
        return f"a histogram of the neighbours{capped}, epsilon {self.epsilon:g} for one entry of a list"

    @property
    def asked_in_words(self) -> str:
        """What is asked, in words for people."""
        capped = "" if self.cap is None else f", at most {self.cap} people in each"
        return f"how many of the people in one's list are thought to be in each class{capped}"

    def method_in_words(self, question: str) -> str:
        """Say to people how a device randomizes the answer about the people in a list."""
        capped = "" if self.cap is None else f", at most {counted(self.cap, 'person', 'people')} in each"
        counts = f"how many of {question} are thought to be in each of {self.num_classes} classes{capped}"
        return f"{ADDED_IN_WORDS} It reports {counts}, with noise."
