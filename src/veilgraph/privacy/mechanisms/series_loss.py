r"""Epsilons of a series by L-GRR, from the integers of its two tables.

A history is the value in each of W rounds. Let :math:`x_n = \rho^n - 1`, and divide all probabilities by
:math:`q_2^W`. Then n_j reports of each value j, all from the permanent answer of a value v, have

.. math:: F_v(n) = 1 + p_1 x_{n_v} + q_1 \sum_{j \ne v} x_{n_j}

and different values have independent factors. docs/explanation/rounds.md proves what is used here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache, lru_cache

from veilgraph.privacy.epsilon import SeriesLoss
from veilgraph.privacy.mechanisms.integer_table import DIGITS, IntegerTable, log_ratio

MOST_DIVISIONS = 4_000
"""Most divisions of reports among values that are enumerated; beyond it the bound of free values counts.

It is part of the format of campaigns: devices compute the same figures.
"""

_LEFT_OUT = -1

Counts = tuple[int, ...]


@lru_cache(maxsize=256)
def series_loss(
    permanent: IntegerTable, of_round: IntegerTable, rounds: int, values: int, optional: bool
) -> SeriesLoss:
    """Return the epsilons of a series from the integers of its two tables.

    Args:
        permanent: table of the permanent answers.
        of_round: table of a round's report about a permanent answer.
        rounds: W, the number of rounds.
        values: c, the number of different values of a person that are answered.
        optional: whether an answer may be left out, which counts as one more value.
    """
    ratios = [_unchanged_ratio(permanent, of_round, count) for count in range(rounds + 1)]
    pattern = max(math.prod((ratios[n] for n in sizes), start=Fraction(1)) for sizes in partitions(rounds, values))
    unchanged, same_pattern = (
        log_ratio(Decimal(r.numerator), Decimal(r.denominator)) for r in (ratios[rounds], pattern)
    )
    bound = _Histories(permanent, of_round, rounds, min(values, rounds), optional)
    return SeriesLoss(
        unchanged=unchanged,
        same_pattern=same_pattern,
        any_histories=unchanged if values == 1 else bound.epsilon(),
        rounds=rounds,
        values=values,
    )


def _unchanged_ratio(permanent: IntegerTable, of_round: IntegerTable, count: int) -> Fraction:
    r"""Return the largest ratio of the probabilities of `count` reports under two values that do not change.

    .. math:: \frac{p_1 p_2^n + (k - 1) q_1 q_2^n}{q_1 p_2^n + p_1 q_2^n + (k - 2) q_1 q_2^n}
    """
    same, others, size = of_round.true**count, of_round.other**count, permanent.domain_size
    most = permanent.true * same + (size - 1) * permanent.other * others
    least = permanent.other * same + (permanent.true + (size - 2) * permanent.other) * others
    return Fraction(most, least)


class _Histories:
    """Largest and least probability of reports over all histories, by how often the reports name each value."""

    def __init__(
        self, permanent: IntegerTable, of_round: IntegerTable, rounds: int, values: int, optional: bool
    ) -> None:
        self._size, self._rounds, self._values, self._optional = permanent.domain_size, rounds, values, optional
        with localcontext(prec=DIGITS):
            words = Decimal(permanent.true + (permanent.domain_size - 1) * permanent.other)
            self._powers = [(Decimal(of_round.true) / of_round.other) ** n for n in range(rounds + 1)]
            # Each term p x_n, q x_n and x_n / k, for n = 0 to W.
            self._own, self._other, self._uniform = (
                [share * (power - 1) for power in self._powers]
                for share in (permanent.true / words, permanent.other / words, 1 / Decimal(permanent.domain_size))
            )

    def epsilon(self) -> float:
        """Return the largest log-ratio over all reports, most promising ones first, until no other can exceed it."""
        with localcontext(prec=DIGITS):
            above = {counts: self._above(counts) for counts in partitions(self._rounds, self._size)}
            bounds = {counts: most / self._free(counts, self._values) for counts, most in above.items()}
            largest = Decimal(1)
            for counts in sorted(bounds, key=lambda each: bounds[each], reverse=True):
                if bounds[counts] <= largest:
                    break
                largest = max(largest, above[counts] / self._least(counts))
            return log_ratio(largest, Decimal(1))

    def _above(self, counts: Counts) -> Decimal:
        """Return the largest probability of reports; with more reported values than answered ones, an upper bound."""
        first, later = (
            [self._own[n] for n in counts[: self._values]],
            [self._other[n] for n in counts[self._values :]],
        )
        product = math.prod((1 + x for x in first + later), start=Decimal(1))
        if not later:
            return product
        mean = 1 + sum(first + later, Decimal(0)) / self._values
        return min(product, mean**self._values, self._powers[sum(counts[: self._values])])

    def _free(self, counts: Counts, groups: int) -> Decimal:
        """Return the least probability of reports that are divided among values which none of them names."""
        shares = (
            sum((self._other[n // groups + (group < n % groups)] for n in counts), Decimal(1))
            for group in range(groups)
        )
        return math.prod(shares, start=Decimal(1))

    def _least(self, counts: Counts) -> Decimal:
        """Return the least probability of reports over all histories, or a bound where there are too many divisions."""
        free = min(self._size - len(counts), self._values)
        named = self._values - free
        divided = named if free else named - 1
        if math.prod(math.comb(n + divided, divided) for n in counts) > MOST_DIVISIONS:
            return self._free(counts, self._values)

        @cache
        def least(values: Counts, rest: Counts) -> Decimal:
            if not values:
                return self._free(rest, free)
            value, *others = values
            if not others and not free:
                return self._factor(value, rest)
            return min(
                self._factor(value, taken)
                * least(tuple(others), tuple(n - m for n, m in zip(rest, taken, strict=True)))
                for taken in itertools.product(*(range(n + 1) for n in rest))
            )

        candidates = [_LEFT_OUT] * self._optional + list(range(len(counts)))
        choices = {
            tuple(counts[value] if value >= 0 else value for value in chosen): chosen
            for chosen in itertools.combinations(candidates, named)
        }
        return min(least(chosen, counts) for chosen in choices.values())

    def _factor(self, value: int, counts: Counts) -> Decimal:
        """Return F of a value that reports name, or of an answer that is left out."""
        if value == _LEFT_OUT:
            return sum((self._uniform[n] for n in counts), Decimal(1))
        return sum(((self._own if j == value else self._other)[n] for j, n in enumerate(counts)), Decimal(1))


def partitions(total: int, most: int, largest: int | None = None) -> Iterator[Counts]:
    """Iterate over the falling sequences of at most `most` whole numbers that sum to `total`.

    >>> list(partitions(4, 2))
    [(4,), (3, 1), (2, 2)]
    """
    if total == 0:
        yield ()
    elif most > 0:
        for first in range(min(total, largest or total), 0, -1):
            for rest in partitions(total - first, most - 1, first):
                yield first, *rest
