"""Answers about a private neighbour list: three mechanisms, and what an answer costs.

A wave about private neighbours reports a list by one of three mechanisms. Two of them add up what is published about
the people in the list, one whole number for each class, and report these sums:

- The class takes, of the n classes with the largest sum, the one that a number below n names, in ascending order. Then
  it reports this class by subset selection.
- The histogram goes through the classes in order. It counts the words below `more` until one is not, and then does so
  again. It adds the first number to the sum, and takes the second one off. Sums are cut at the cap before that, and
  counts at the largest count after it.

The third reports the list itself:

- The randomized list goes through all people, in the order of their rows in the published file. One word for each, by
  its table of the value 1 for a neighbour and 0 for everybody else, decides the reported value. The person's own row is
  like every other one. The answer is the reported values as text: eight to a byte, row 0 in the lowest bit of the first
  byte, and the bytes in base64url without padding. So all lists have one length.

The browser's module takes the same words; the package draws many lists at once, in another order.
"""

from __future__ import annotations

import base64
import re
from decimal import Decimal, localcontext
from fractions import Fraction
from math import comb
from typing import NamedTuple

from veilgraph.client.epsilons import ListCost, log_odds
from veilgraph.client.mechanisms import SetTable, Table, read_mechanism, read_set_table, read_table
from veilgraph.client.reading import check_epsilon, read_object, read_whole
from veilgraph.client.refusals import CampaignError
from veilgraph.client.words import WORDS, Codes, Word, uniform_below

_MAX_COUNT = 2**15 - 1
_MAX_CAP = 2**31 - 1
_MAX_LISTED_PEOPLE = 50_000  # a randomized list takes a word for each of them, and a collector a bit for every two
_MAX_NOISE_WORDS = 2**17  # expected words of one geometric variable, which a device draws in a moment
BELIEF_CODES = 2**16
_FINEST_SCALE = 60
_BASE64 = re.compile(r"[A-Za-z0-9_-]*")


class ListClass(NamedTuple):
    """The class that the neighbours point to, by subset selection; it protects any two lists."""

    table: SetTable

    @property
    def needs_beliefs(self) -> bool:
        """Whether it adds up published beliefs, which a later wave may improve."""
        return True

    @property
    def cost(self) -> ListCost:
        """Epsilons of an answer: one entry can change the class, and costs as much as any two lists."""
        return ListCost(self.table.user_level, self.table.user_level)

    @property
    def longest(self) -> Codes:
        """An answer that no other one is longer than, as text."""
        return self.table.longest

    def report(self, sums: Codes, word: Word) -> Codes:
        """Report a set of classes, in ascending order."""
        pointed = [code for code, total in enumerate(sums) if total == max(sums)]
        return self.table.report(pointed[uniform_below(len(pointed), word)], word)

    def fits(self, reported: object) -> bool:
        """Return whether something read back is an answer of this kind."""
        return self.table.fits(reported)


class ListHistogram(NamedTuple):
    """Sums over the neighbours with discrete Laplace noise; it protects one entry, and whole lists with a cap."""

    classes: int
    scale: int
    cap: int | None
    largest: int
    more: int

    @property
    def needs_beliefs(self) -> bool:
        """Whether it adds up published beliefs, which a later wave may improve."""
        return True

    @property
    def cost(self) -> ListCost:
        """Epsilons of an answer: an entry moves the sums by `scale`, and a capped list by as much as there is room."""
        with localcontext(prec=60):
            one_entry = self.scale * log_odds(Fraction(WORDS, self.more))
            room = None if self.cap is None else self.classes * self.cap
            return ListCost(Decimal("Infinity") if room is None else room * one_entry, one_entry)

    @property
    def longest(self) -> Codes:
        """An answer that no other one is longer than, as text."""
        return (-self.largest,) * self.classes

    def report(self, sums: Codes, word: Word) -> Codes:
        """Report a noisy count for each class."""
        cut = sums if self.cap is None else tuple(min(total, self.cap * self.scale) for total in sums)
        noisy = [total + self._geometric(word) - self._geometric(word) for total in cut]
        return tuple(max(-self.largest, min(self.largest, count)) for count in noisy)

    def _geometric(self, word: Word) -> int:
        steps = 0
        while word() < self.more:
            steps += 1
        return steps

    def fits(self, reported: object) -> bool:
        """Return whether something read back is an answer of this kind."""
        return (
            isinstance(reported, list)
            and len(reported) == self.classes
            and all(type(count) is int and -self.largest <= count <= self.largest for count in reported)
        )


class RandomizedList(NamedTuple):
    """For every person whether they are in the list, by randomized response; it protects one entry alone."""

    people: int
    table: Table

    @property
    def needs_beliefs(self) -> bool:
        """Whether it adds up published beliefs: it does not, so a later wave would ask for the same."""
        return False

    @property
    def cost(self) -> ListCost:
        """Epsilons of an answer: an entry changes one value, and a list as many as there are people."""
        return ListCost(Decimal("Infinity"), self.table.user_level)

    @property
    def longest(self) -> str:
        """An answer; all of them have one length."""
        return self._text(0)

    def report(self, rows: Codes, word: Word) -> str:
        """Report for every person whether they are said to be a neighbour: a bit for each row, as text."""
        listed = bytearray(self.people)
        for row in rows:
            listed[row] = 1
        named = bytearray(-(-self.people // 8))
        for row, value in enumerate(listed):
            named[row // 8] |= self.table.report(value, word) << row % 8
        return self._text(int.from_bytes(named, "little"))

    def _text(self, bits: int) -> str:
        """Write bits in base64url without padding; row 0 is the lowest bit."""
        return base64.urlsafe_b64encode(bits.to_bytes(-(-self.people // 8), "little")).decode().rstrip("=")

    def fits(self, reported: object) -> bool:
        """Return whether something read back is an answer of this kind: it has one way to be written."""
        if not isinstance(reported, str) or len(reported) != len(self.longest) or not _BASE64.fullmatch(reported):
            return False
        bits = int.from_bytes(base64.urlsafe_b64decode(reported + "=" * (-len(reported) % 4)), "little")
        return bits < 2**self.people and self._text(bits) == reported


ListMechanism = ListClass | ListHistogram | RandomizedList


def finest_scale(classes: int) -> int:
    """Return the units of a belief: the most, up to 60, for which every belief has a code of 16 bits."""
    return next(scale for scale in range(_FINEST_SCALE, 0, -1) if count_beliefs(scale, classes) < BELIEF_CODES)


def count_beliefs(scale: int, classes: int) -> int:
    """Return the number of ways to give the units to the classes."""
    return comb(scale + classes - 1, classes - 1)


def belief(code: int, classes: int) -> Codes:
    """Return the units of each class that a code stands for: beliefs are numbered from 1 in lexicographic order."""
    if code == 0:
        return (0,) * classes
    number, left, units = code - 1, finest_scale(classes), []
    for after in range(classes - 1, 0, -1):
        taken = 0
        while number >= (ways := count_beliefs(left - taken, after)):
            number, taken = number - ways, taken + 1
        units.append(taken)
        left -= taken
    return (*units, left)


def read_list_mechanism(entry: object, classes: int, people: int) -> ListMechanism:
    """Read the mechanism of a wave."""
    named = entry.get("mechanism") if isinstance(entry, dict) else None
    if named == "neighbourhood_class":
        parts = read_object(entry, "epsilon mechanism size table", "an answer")
        check_epsilon(parts["epsilon"], "the epsilon of an answer")
        return ListClass(read_set_table(parts["table"], classes, parts["size"]))
    if named == "randomized_neighbour_list":
        parts = read_object(entry, "epsilon mechanism people table", "an answer")
        check_epsilon(parts["epsilon"], "the epsilon of an answer")
        if read_whole(parts["people"], "an answer's people") != people or not 2 <= people <= _MAX_LISTED_PEOPLE:
            raise CampaignError(
                f"a randomized neighbour list is about all {people} people of the campaign, and they must be 2 to "
                f"{_MAX_LISTED_PEOPLE}"
            )
        return RandomizedList(people, read_table(parts["table"], 2))
    parts = read_object(entry, "cap epsilon largest mechanism more scale", "an answer")
    read_mechanism(parts, ("neighbourhood_histogram",), "an answer")
    check_epsilon(parts["epsilon"], "the epsilon of an answer")
    cap = None if parts["cap"] is None else read_whole(parts["cap"], "the cap of an answer")
    units = (read_whole(parts[key], f"an answer's {key}") for key in ("scale", "largest", "more"))
    scale, largest, more = units
    if scale != finest_scale(classes) or not scale <= largest <= _MAX_COUNT or (cap or 1) > _MAX_CAP:
        raise CampaignError("a histogram of neighbours has other units, or other limits, than its classes allow")
    if (WORDS - more) * _MAX_NOISE_WORDS < WORDS:
        raise CampaignError("the noise of a histogram would take a device too long")
    return ListHistogram(classes, scale, cap, largest, more)
