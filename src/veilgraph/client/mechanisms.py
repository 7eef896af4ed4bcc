"""Mechanisms of a report: their integer tables, exact epsilons, draws, and readers of their parts of a document.

**An answer that is left out costs no hidden bit.** Let M(r | v) be the probability of a report r under the value v of
one feature. The other values are given. For a feature that is left out, r has the probability
M(r | none) = (M(r | 0) + ... + M(r | k - 1)) / k. A mean lies between the least and the largest of its terms. So
M(r | none) / M(r | v) and M(r | v) / M(r | none) are at most max over u, w of M(r | u) / M(r | w), which is at most
exp(epsilon): "none" raises neither the user level nor an attribute level. Both mechanisms treat all values of a feature
alike, so its report is exactly uniform, and independent of all other reports: pure chance. In a series the permanent
answer takes the place of the report, and what is left out is one more value of a history: the epsilons count it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

from veilgraph.client.epsilons import log_odds
from veilgraph.client.reading import check_epsilon, longer_text, read_list, read_object, read_whole
from veilgraph.client.refusals import CampaignError
from veilgraph.client.words import WORDS, Codes, ReportedFeatures, Word, choose, uniform_below

_MAX_FEATURES = 2**14
_MAX_STEPS = 1_000_000
_MAX_JOINT_SIZE = 2**16


class Table(NamedTuple):
    """Randomized response (GRR): the number of words that report the true value, and each other value."""

    domain_size: int
    true: int
    other: int

    @property
    def odds(self) -> Fraction:
        """Largest ratio of the probabilities of a report under two values: exp(epsilon)."""
        return Fraction(self.true, self.other)

    @property
    def user_level(self) -> Decimal:
        """Epsilon at user level (any two records)."""
        return log_odds(self.odds)

    @property
    def longest(self) -> int:
        """A report that no other one is longer than, as text."""
        return self.domain_size - 1

    def report(self, value: int, word: Word) -> int:
        """Report one value."""
        surplus = word() - self.true
        return value if surplus < 0 else (value + 1 + surplus // self.other) % self.domain_size

    def fits(self, reported: object) -> bool:
        """Return whether something read back is a report of this table."""
        return are_codes([reported], [self.domain_size])


class SetTable(NamedTuple):
    """Subset selection: the number of words for which a set of `size` classes holds the true class, or does not."""

    domain_size: int
    size: int
    inside: int
    outside: int

    @property
    def odds(self) -> Fraction:
        """Largest ratio of the probabilities of a set under two classes: exp(epsilon).

        Sets that hold the true class are equally likely, and so are those that do not.
        """
        return Fraction(self.inside * (self.domain_size - self.size), self.outside * self.size)

    @property
    def user_level(self) -> Decimal:
        """Epsilon at user level (any two records)."""
        return log_odds(self.odds)

    @property
    def longest(self) -> Codes:
        """A report that no other one is longer than, as text."""
        return tuple(range(self.domain_size - self.size, self.domain_size))

    def report(self, value: int, word: Word) -> Codes:
        """Report a set of classes, in ascending order."""
        held = word() < self.inside
        others = [code for code in range(self.domain_size) if code != value]
        chosen = choose(self.size - held, len(others), word)
        drawn = [code for code, taken in zip(others, chosen, strict=True) if taken]
        return tuple(sorted([*drawn, value] if held else drawn))

    def fits(self, reported: object) -> bool:
        """Return whether something read back is a report of this table."""
        return (
            isinstance(reported, list)
            and are_codes(reported, [self.domain_size] * self.size)
            and all(low < high for low, high in pairwise(reported))
        )


LabelTable = Table | SetTable
"""Randomizer of a label that is asked once."""


class SampledFeatures(NamedTuple):
    """GRR-FS: `sampled` features are reported by their tables, uniform values for the others."""

    tables: tuple[Table, ...]
    sampled: int

    @property
    def sizes(self) -> Codes:
        """Number of values of each feature."""
        return tuple(table.domain_size for table in self.tables)

    @property
    def longest(self) -> Codes:
        """A report that no other one is longer than, as text."""
        return tuple(table.longest for table in self.tables)

    def report(self, values: Codes, word: Word) -> Codes:
        """Report all features."""
        chosen = choose(self.sampled, len(self.tables), word)
        return tuple(
            table.report(value, word) if sampled else uniform_below(table.domain_size, word)
            for value, table, sampled in zip(values, self.tables, chosen, strict=True)
        )

    def fits(self, reported: object) -> bool:
        """Return whether something read back is a report of these features."""
        return are_codes(reported, self.sizes)

    @property
    def user_level(self) -> Decimal:
        """Epsilon for any two records: the sum of ln(true/other) over the `sampled` most revealing tables."""
        ordered = sorted(self.tables, key=lambda table: table.odds, reverse=True)[: self.sampled]
        return sum((n * log_odds(table.odds) for table, n in Counter(ordered).items()), Decimal(0))

    @property
    def attribute_levels(self) -> list[Decimal]:
        """Epsilon of each feature, for two records that differ in it alone."""
        return _attribute_levels(self.tables, self.sampled)


class JointFeatures(NamedTuple):
    """Joint GRR: one response for `sampled` features together, by the table of their joint domain size."""

    sizes: tuple[int, ...]
    sampled: int
    tables: Mapping[int, Table]

    @property
    def longest(self) -> ReportedFeatures:
        """What no report is longer than, as text: the longer of the last code and None for each feature."""
        return tuple(longer_text(size - 1, None) for size in self.sizes)

    def report(self, values: Codes, word: Word) -> ReportedFeatures:
        """Report the chosen features, and None for the others."""
        reporting = [i for i, chosen in enumerate(choose(self.sampled, len(self.sizes), word)) if chosen]
        joint, size = 0, 1
        for i in reporting:
            joint, size = joint + values[i] * size, size * self.sizes[i]
        joint = self.tables[size].report(joint, word)
        reported: list[int | None] = [None] * len(self.sizes)
        for i in reporting:
            joint, reported[i] = divmod(joint, self.sizes[i])
        return tuple(reported)

    def fits(self, reported: object) -> bool:
        """Return whether something read back is a report of these features."""
        return are_chosen_codes(reported, self.sizes, self.sampled)

    @property
    def user_level(self) -> Decimal:
        """Epsilon for any two records: the epsilon of the most revealing table."""
        return log_odds(max(table.odds for table in self.tables.values()))

    @property
    def attribute_levels(self) -> list[Decimal]:
        """Epsilon of each feature, for two records that differ in it alone: of the tables that can hold it."""
        levels = {}
        for size in set(self.sizes):
            others = list(self.sizes)
            others.remove(size)
            joint = [size * rest for rest in joint_sizes(others, self.sampled - 1)]
            levels[size] = log_odds(max(self.tables[product].odds for product in joint))
        return [levels[size] for size in self.sizes]


def joint_sizes(sizes: Sequence[int], sampled: int) -> list[int]:
    """Return the products of `sampled` of the sizes that occur, in ascending order."""
    products: list[set[int]] = [{1}, *(set() for _ in range(sampled))]
    for size, copies in Counter(sizes).items():
        for _ in range(min(copies, sampled)):
            for taken in range(sampled, 0, -1):
                products[taken] |= {size * product for product in products[taken - 1]}
    return sorted(products[sampled])


def are_codes(codes: object, sizes: Sequence[int]) -> bool:
    """Return whether this is a list of one code below each size."""
    return (
        isinstance(codes, list)
        and len(codes) == len(sizes)
        and all(type(code) is int and 0 <= code < size for code, size in zip(codes, sizes, strict=True))
    )


def are_chosen_codes(codes: object, sizes: Sequence[int], chosen: int) -> bool:
    """Return whether these are the codes of the given number of features, with None for all others."""
    if not isinstance(codes, list) or len(codes) != len(sizes):
        return False
    given = [(code, size) for code, size in zip(codes, sizes, strict=True) if code is not None]
    return len(given) == chosen and are_codes([code for code, _ in given], [size for _, size in given])


def _attribute_levels(tables: tuple[Table, ...], sampled: int) -> list[Decimal]:
    """Return ln of the likelihood ratio of two records that differ in one feature, if no other feature matches.

    The mean product over all subsets of `sampled` features is a + b * factor in the factor of one feature. A pass
    over what follows each feature and one over what precedes it give a and b for every table, up to a common factor.
    """
    kinds = Counter(tables)
    ordered = [*kinds, *(kinds - Counter(kinds.keys())).elements()]  # one feature of each table first
    misses = [Decimal(table.domain_size * table.other) / WORDS for table in ordered]
    after: dict[int, dict[int, Decimal]] = {}
    none, one = Decimal(0), Decimal(1)
    means = {sampled: one}  # of the features that follow, by the number taken before
    for i in range(len(ordered) - 1, -1, -1):
        if i < len(kinds):
            after[i] = means
        means = {
            taken: take * misses[i] * means.get(taken + 1, none) + skip * means.get(taken, none)
            for taken, take, skip in _steps(i, sampled, len(ordered))
        }
    levels = {}
    before = {0: one}  # of the features that precede, by the number taken
    for i, table in enumerate(kinds):
        taking, passing, means = none, none, dict[int, Decimal]()
        for taken, take, skip in _steps(i, sampled, len(ordered)):
            if take:
                mean = before[taken] * take
                taking += mean * after[i][taken + 1]
                means[taken + 1] = means.get(taken + 1, none) + mean * misses[i]
            if skip:
                mean = before[taken] * skip
                passing += mean * after[i][taken]
                means[taken] = means.get(taken, none) + mean
        before = means
        match = Decimal(table.domain_size * table.true) / WORDS
        levels[table] = ((passing + taking * match) / (passing + taking * misses[i])).ln()
    return [levels[table] for table in tables]


def _steps(i: int, sampled: int, count: int) -> Iterator[tuple[int, int, int]]:
    """Yield the possible numbers of features taken before feature i, with the odds to take and to skip it."""
    for taken in range(max(0, sampled - count + i), min(i, sampled) + 1):
        yield taken, sampled - taken, count - i - sampled + taken


def read_features(stated: object, sizes: list[int], known: Sequence[str]) -> SampledFeatures | JointFeatures | None:
    """Read a campaign's part about features."""
    if stated is None:
        return None
    parts = read_object(stated, "epsilon mechanism sampled tables", "features")
    check_epsilon(parts["epsilon"], "features.epsilon")
    joint = read_mechanism(parts, known, "features") == "joint_grr"
    sampled = read_whole(parts["sampled"], "features.sampled")
    if sampled > len(sizes) or len(sizes) > _MAX_FEATURES or sampled * (len(sizes) - sampled) > _MAX_STEPS:
        raise CampaignError(f"the campaign samples {sampled} of {len(sizes)} features, which is not possible")
    if joint and prod(sorted(sizes)[-sampled:]) > _MAX_JOINT_SIZE:
        raise CampaignError(f"{sampled} of the features can have more than {_MAX_JOINT_SIZE} joint values")
    domains = joint_sizes(sizes, sampled) if joint else sizes
    entries = read_list(parts["tables"], "features.tables")
    if len(entries) != len(domains):
        raise CampaignError("features: there is not one table for each " + ("joint domain" if joint else "feature"))
    tables = tuple(read_table(entry, size) for entry, size in zip(entries, domains, strict=True))
    if joint:
        return JointFeatures(tuple(sizes), sampled, dict(zip(domains, tables, strict=True)))
    return SampledFeatures(tables, sampled)


def read_label(stated: object, size: int) -> LabelTable | None:
    """Read a campaign's part about the label."""
    if stated is None:
        return None
    is_set = isinstance(stated, dict) and "size" in stated
    parts = read_object(stated, "epsilon mechanism size table" if is_set else "epsilon mechanism table", "label")
    check_epsilon(parts["epsilon"], "label.epsilon")
    read_mechanism(parts, ("subset_selection" if is_set else "grr",), "label")
    return read_set_table(parts["table"], size, parts["size"]) if is_set else read_table(parts["table"], size)


def read_mechanism(parts: Mapping[str, Any], known: Sequence[str], where: str) -> str:
    """Return the name of a mechanism, which must be a known one."""
    if parts["mechanism"] not in known:
        raise CampaignError(f"{where}: the mechanism is not one that the campaign's format has")
    return str(parts["mechanism"])


def read_table(entry: object, size: int) -> Table:
    """Read a table of randomized response; refuse one that does not use up all words."""
    parts = read_object(entry, "domain_size other true", "a table")
    table = Table(**{key: read_whole(parts[key], f"a table's {key}") for key in Table._fields})
    used = table.true + (table.domain_size - 1) * table.other
    if table.domain_size != size or used != WORDS or table.true <= table.other:
        raise CampaignError(
            "a table is not a randomized response for its domain: "
            "it must use up 2**53 words, most of them for the true value"
        )
    return table


def read_set_table(entry: object, domain_size: int, size: object) -> SetTable:
    """Read a table of subset selection; refuse one that does not use up all words."""
    parts = read_object(entry, "domain_size inside outside size", "a table")
    table = SetTable(**{key: read_whole(parts[key], f"a table's {key}") for key in SetTable._fields})
    if table.domain_size != domain_size or table.size != read_whole(size, "label.size") or not table.size < domain_size:
        raise CampaignError("a table is for another number of classes, or for sets of another size")
    if table.inside + table.outside != WORDS or table.odds <= 1:
        raise CampaignError(
            "a table is not a subset selection: it must use up 2**53 words, and favour sets that hold the true class"
        )
    return table
