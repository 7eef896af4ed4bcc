"""Mechanisms that state more privacy than they give, each by one mistake; a fresh process can import them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.privacy.mechanisms import (
    GRR,
    GRRFS,
    LongitudinalGRR,
    NeighbourhoodClass,
    OSRandom,
    RandomIntegers,
)
from veilgraph.privacy.mechanisms.random_source import WORDS


class GenerousGRR(GRR):
    """A GRR that claims its epsilon and spends twice as much."""

    def randomize(self, values: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Randomize with twice the budget."""
        return GRR(self.domain_size, 2 * self.epsilon).randomize(values, rng=rng)


class HonestAboutFiveGRR(GRR):
    """A GRR that reports class 5 unrandomized. Its two extreme records are randomized as they should be."""

    def randomize(self, values: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Randomize all classes but 5."""
        return np.where(values == 5, values, super().randomize(values, rng=rng))


class LeakingGRR(GRR):
    """A GRR that reports class 5 unrandomized in one of a hundred draws."""

    def randomize(self, values: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Randomize, and put the truth back where chance says so."""
        reports = super().randomize(values, rng=rng)
        leaks = rng.integers(0, 100, size=values.size).reshape(values.shape) == 0
        return np.where((values == 5) & leaks, values, reports)


class ForgetfulGRRFS(GRRFS):
    """A GRR-FS that reports its last feature unrandomized: one mistake in a correct implementation."""

    def randomize(self, values: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Randomize all features except the last."""
        reports = super().randomize(values, rng=rng)
        reports[:, -1] = values[:, -1]
        return reports


class GenerousAnswer(NeighbourhoodClass):
    """An answer about neighbours that claims its epsilon and spends twice as much."""

    def randomize(self, sums: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Randomize with twice the budget."""
        return NeighbourhoodClass(self.num_classes, 2 * self.epsilon, self.size).randomize(sums, rng=rng)


class TimidGRR(GRR):
    """A GRR that spends half of what it states: private enough, and its stated probabilities are wrong."""

    def randomize(self, values: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Randomize with half the budget."""
        return GRR(self.domain_size, self.epsilon / 2).randomize(values, rng=rng)


class TimidGRRFS(GRRFS):
    """A GRR-FS that spends half of what it states."""

    def randomize(self, values: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Randomize with half the budget."""
        return GRRFS(self.domain_sizes, self.sampled, self.epsilon / 2).randomize(values, rng=rng)


_SEEDED = np.random.default_rng(7)
"""A generator that each process seeds alike, and that goes on from call to call."""


class SeededGRR(GRR):
    """A GRR with its own noise, from a seed that is fixed."""

    def randomize(self, values: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Randomize with the generator of the module."""
        return super().randomize(values, rng=_SEEDED)


class PrintingGRR(GRR):
    """A sound GRR that writes to standard output."""

    def randomize(self, values: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Print, and randomize."""
        print("randomizing")  # noqa: T201 - what is tested
        return super().randomize(values, rng=rng)


class SeededGRRFS(GRRFS):
    """A GRR-FS that samples features at random and randomizes their values with a fixed seed."""

    def randomize(self, values: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Randomize with the generator of the module."""
        return super().randomize(values, rng=_SEEDED)


class SeededSeries(LongitudinalGRR):
    """A series whose permanent answers are random and whose reports of a round have a fixed seed."""

    def report_round(
        self, current: NDArray[np.int64], permanent: NDArray[np.int64], *, rng: RandomIntegers
    ) -> NDArray[np.int64]:
        """Draw permanent answers with the given randomness, and reports with the generator of the module."""
        super().report_round(current, permanent, rng=rng)
        answers = permanent[np.arange(len(current)), current]
        return self.round.respond(answers, _SEEDED.integers(0, WORDS, size=len(answers)))


class SeededAnswer(NeighbourhoodClass):
    """An answer about neighbours with its own noise, from a seed that is fixed."""

    def randomize(self, sums: NDArray[Any], *, rng: RandomIntegers) -> NDArray[Any]:
        """Randomize with the generator of the module."""
        return super().randomize(sums, rng=_SEEDED)


def fair_bit(bit: int) -> int:
    """Report a bit with the randomness of the system; it is true in three of four reports, epsilon is ln 3."""
    return int(bit if OSRandom().integers(0, 4, size=1)[0] < 3 else 1 - bit)


def seeded_bit(bit: int) -> int:
    """Report a bit that is true in three of four reports, with noise from a fixed seed."""
    return int(bit if _SEEDED.integers(0, 4) < 3 else 1 - bit)
