"""The guarantee of a whole report: a list of terms, one for each released thing and relation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import MAX_EMAX, ROUND_CEILING, Context, Decimal
from enum import Enum
from functools import lru_cache
from typing import ClassVar

from veilgraph.errors import BudgetError
from veilgraph.privacy.epsilon import (
    HistoryRelation,
    ListLoss,
    ListRelation,
    NeighbourRelation,
    PrivacyLoss,
    Relation,
    add_epsilons,
    describe_epsilon,
    json_epsilon,
    show_epsilon,
    state_epsilon,
)
from veilgraph.privacy.mechanisms import Mechanism, NeighbourMechanism
from veilgraph.privacy.notebook_table import html_table
from veilgraph.privacy.plain_text import counted


class Released(Enum):
    """What a report releases a part of."""

    FEATURES = "features"
    LABEL = "label"
    LISTS = "lists"


@dataclass(frozen=True, kw_only=True)
class Term:
    """What one released thing reveals at most under one relation.

    Attributes:
        released: the thing.
        relation: pairs that the epsilon protects from each other.
        epsilons: the epsilon; at attribute level that of each feature.
    """

    released: Released
    relation: Relation
    epsilons: tuple[float, ...]

    @property
    def epsilon(self) -> float:
        """The largest epsilon."""
        return max(self.epsilons)


@dataclass(frozen=True)
class OneRecord:
    """What a person reports who is asked once."""

    rounds: int | None = None

    any_two: ClassVar[str] = NeighbourRelation.USER_LEVEL.value
    differing_in_one: ClassVar[str] = NeighbourRelation.ATTRIBUTE_LEVEL.value

    @property
    def compared(self) -> tuple[str, str, str]:
        """Words for the record, for its reports, and for how likely these are otherwise."""
        return "record", "no report is", "it would be"

    def as_dict(self, guarantee: Guarantee) -> dict[str, object]:
        """Return the part of a guarantee about a series, for JSON: empty."""
        return {}

    def in_words(self, guarantee: Guarantee) -> list[str]:
        """Return sentences about relations that the total does not state: there are none."""
        return []


@dataclass(frozen=True)
class History(OneRecord):
    """What a person reports who is asked in rounds: a value for each round.

    Attributes:
        rounds: number of rounds.
        values: number of different values of each question that are answered in all rounds.
    """

    values: int = 1

    any_two: ClassVar[str] = HistoryRelation.ANY_HISTORIES.value
    differing_in_one: ClassVar[str] = "two histories that differ in one feature"

    @property
    def compared(self) -> tuple[str, str, str]:
        """Words for the history, for its reports, and for how likely these are otherwise."""
        return "history", f"no reports of {self.rounds} rounds are", "they would be"

    def as_dict(self, guarantee: Guarantee) -> dict[str, object]:
        """Return the part of a guarantee about a series, for JSON."""
        things = {thing.value: (thing,) for thing in _RECORD if guarantee.releases(thing)} | {"total": _RECORD}
        epsilons = {
            part: {each.key: _json(guarantee.epsilon(each, *released)) for each in HistoryRelation}
            for part, released in things.items()
        }
        return {"series": {**asdict(self), **epsilons, "relations": _relations(HistoryRelation)}}

    def in_words(self, guarantee: Guarantee) -> list[str]:
        """Return sentences about all rounds under the relations that the total does not state."""
        unchanged, same = (
            show_epsilon(state_epsilon(guarantee.epsilon(relation, *_RECORD)))
            for relation in (HistoryRelation.UNCHANGED, HistoryRelation.SAME_PATTERN)
        )
        of_each = " of each question" if guarantee.releases(Released.FEATURES) else ""
        told = f"{guarantee.unchanged_pairs.capitalize()}: epsilon = {unchanged} for all {self.rounds} rounds together."
        if self.values == 1:
            return [told, f"A device answers for the value{of_each} of its first round in every round."]
        return [
            told,
            f"{HistoryRelation.SAME_PATTERN.value.capitalize()}, {self.values} different values{of_each} at most: "
            f"epsilon = {same}. Whether and when a value changed is protected by the first figure alone.",
            f"After {self.values} different values{of_each} a device answers as if the value did not change any more.",
        ]


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """Upper bound on what all reports of a person reveal: a list of terms, from which totals, words and JSON follow.

    Attributes:
        terms: what each released thing reveals at most under each of its relations.
        unsound_theorem_1: the figure that the paper's Theorem 1 states for the features. It is *not* a
            guarantee: enumeration refutes it (see docs/explanation/privacy.md). It labels reproduced tables.
        record: what a person reports: a record, or in rounds a history.
        list_waves: number of waves of answers about the neighbour list that one person gives.

    >>> from veilgraph.privacy.mechanisms import GRR
    >>> label = guarantee_of(None, GRR(6, 3.0))
    >>> [(term.released.value, str(term.relation), round(term.epsilon, 9)) for term in label.terms]
    [('label', 'user level (any two records)', 3.0)]
    """

    terms: tuple[Term, ...]
    unsound_theorem_1: float | None = None
    record: OneRecord = OneRecord()
    list_waves: int = 0

    def releases(self, thing: Released) -> bool:
        """Return whether reports release a thing."""
        return any(term.released is thing for term in self.terms)

    def epsilon(self, relation: Relation, *things: Released) -> float:
        """Return the epsilon of several released things, or of all, under a relation: their sum, rounded up.

        A thing that is not released adds nothing. One that has no term under the relation is refused.
        """
        asked = [thing for thing in things or tuple(Released) if self.releases(thing)]
        found = {term.released: term.epsilon for term in self.terms if term.relation is relation}
        if unknown := [thing.value for thing in asked if thing not in found]:
            raise BudgetError(f"no epsilon is known for {unknown[0]} at {relation}: ask under another relation")
        return add_epsilons(*(found[thing] for thing in asked))

    def about(self, *things: Released) -> Guarantee:
        """Return the guarantee about some of the things."""
        kept = tuple(term for term in self.terms if term.released in things)
        return replace(
            self, terms=kept, unsound_theorem_1=self.unsound_theorem_1 if Released.FEATURES in things else None
        )

    def with_lists(self, loss: ListLoss, *, waves: int = 1) -> Guarantee:
        """Return the guarantee together with answers about the neighbour list.

        Args:
            loss: privacy loss of all waves of one person.
            waves: number of waves that one person answers.
        """
        losses: dict[Relation, float] = {NeighbourRelation.USER_LEVEL: loss.any_lists}
        losses |= {each: loss.under(each) for each in ListRelation}
        return replace(self, terms=(*self.terms, *_terms(Released.LISTS, losses)), list_waves=waves)

    @property
    def features_user_level(self) -> float:
        """User-level epsilon of the features; 0 where none are collected."""
        return self.epsilon(NeighbourRelation.USER_LEVEL, Released.FEATURES)

    @property
    def label_user_level(self) -> float:
        """User-level epsilon of the label; 0 where none is collected."""
        return self.epsilon(NeighbourRelation.USER_LEVEL, Released.LABEL)

    @property
    def total_user_level(self) -> float:
        """User-level epsilon of the whole report: features, label and lists compose by addition, rounded up."""
        return self.epsilon(NeighbourRelation.USER_LEVEL)

    @property
    def lists(self) -> ListLoss | None:
        """Privacy loss of all answers about the neighbour list together; None where none is asked."""
        if not self.releases(Released.LISTS):
            return None
        return ListLoss(**{each.key: self.epsilon(each, Released.LISTS) for each in WITH_RECORD})

    @property
    def attribute_levels(self) -> tuple[float, ...]:
        """Epsilon of each feature, for two records that differ in this feature only; empty without features."""
        levels = (term for term in self.terms if term.relation is NeighbourRelation.ATTRIBUTE_LEVEL)
        return next((term.epsilons for term in levels), ())

    @property
    def user_level_pairs(self) -> str:
        """Pairs that the user level protects from each other, in words."""
        pairs = self.record.any_two
        return f"{pairs} with any two lists" if self.releases(Released.LISTS) else pairs

    @property
    def attribute_level_pairs(self) -> str:
        """Pairs that the attribute level protects from each other, in words."""
        return self.record.differing_in_one

    @property
    def unchanged_pairs(self) -> str:
        """Histories that never change, in words."""
        return "two records that never change" if self.releases(Released.FEATURES) else HistoryRelation.UNCHANGED.value

    @property
    def rounds(self) -> int | None:
        """Number of rounds in which everything is asked; None if it is asked once."""
        return self.record.rounds

    @property
    def _record_without_list(self) -> float:
        return self.epsilon(NeighbourRelation.USER_LEVEL, *_RECORD)

    def _repr_html_(self) -> str:
        levels = {
            "features": self.features_user_level,
            "label": self.label_user_level,
            "features and label": self._record_without_list,
        }
        facts = {f"epsilon of {part}": show_epsilon(state_epsilon(value)) for part, value in levels.items()}
        return html_table(f"Guarantee, {NeighbourRelation.USER_LEVEL}", facts, notes=self.in_words(theorem_1=False)[1:])

    def as_dict(self) -> dict[str, object]:
        """Return a dictionary for JSON, with every epsilon under the key of its relation."""
        return {
            NeighbourRelation.USER_LEVEL.key: {
                "features": _json(self.features_user_level),
                "label": _json(self.label_user_level),
                "total": _json(self.total_user_level),
            },
            NeighbourRelation.ATTRIBUTE_LEVEL.key: {
                "features": [_json(epsilon) for epsilon in self.attribute_levels],
                "label": _json(self.label_user_level),
            },
            "theorem_1": None if self.unsound_theorem_1 is None else json_epsilon(self.unsound_theorem_1),
            "theorem_1_is_a_guarantee": False,
            "relations": _relations(NeighbourRelation),
            **self.record.as_dict(self),
            **({"neighbours": self._lists_as_dict()} if self.releases(Released.LISTS) else {}),
        }

    def _lists_as_dict(self) -> dict[str, object]:
        rest, lists = self._record_without_list, {each: self.epsilon(each, Released.LISTS) for each in ListRelation}
        return {
            "waves": self.list_waves,
            "lists": {each.key: _json(epsilon) for each, epsilon in lists.items()},
            "lists_and_record": {each.key: _json(add_epsilons(rest, lists[each])) for each in WITH_RECORD},
            "relations": _relations(ListRelation),
        }

    def in_words(self, *, theorem_1: bool = True) -> list[str]:
        """Return plain sentences, for a person who has to approve the collection.

        Args:
            theorem_1: say what the paper's Theorem 1 states, and that it is not used.

        >>> from veilgraph.privacy.mechanisms import GRR
        >>> print(guarantee_of(None, GRR(2, 1.0)).in_words()[0])
        User level, any two records: epsilon = 1.0000 in total (the label alone).
        """
        sentences = _record_in_words(self) if any(map(self.releases, _RECORD)) else []
        sentences.extend(self.record.in_words(self))
        if self.releases(Released.LISTS):
            sentences.extend(_lists_in_words(self))
        if levels := self.attribute_levels:
            stated, pairs = map(state_epsilon, levels), self.attribute_level_pairs
            sentences.append(f"{describe_epsilon(NeighbourRelation.ATTRIBUTE_LEVEL, *stated, pairs=pairs)}.")
        if theorem_1 and self.unsound_theorem_1 is not None:
            sentences.append(
                f"The paper's Theorem 1 would say {show_epsilon(self.unsound_theorem_1)} for the features. "
                "That figure is not a guarantee and is not used."
            )
        return sentences


_USER = NeighbourRelation.USER_LEVEL
_RECORD = (Released.FEATURES, Released.LABEL)
WITH_RECORD = (ListRelation.ANY_LISTS, ListRelation.ONE_ENTRY)
"""Relations between lists that have a meaning for the whole record, too."""


def _record_in_words(guarantee: Guarantee) -> list[str]:
    """Say what features and label reveal together."""
    shown = {
        thing: show_epsilon(state_epsilon(guarantee.epsilon(_USER, thing)))
        for thing in _RECORD
        if guarantee.releases(thing)
    }
    parts = ", ".join(f"{thing.value} {epsilon}" for thing, epsilon in shown.items())
    if len(shown) == 1:
        parts = f"the {next(iter(shown)).value} alone"
    epsilon = guarantee.epsilon(_USER, *_RECORD)
    record, reports, would = guarantee.record.compared
    pairs, other = guarantee.about(*_RECORD).user_level_pairs, ""
    if guarantee.releases(Released.LISTS):
        pairs, other = f"{pairs} with the same neighbour list", " and the same neighbour list"
    total = f"{describe_epsilon(_USER, state_epsilon(epsilon), pairs=pairs)} in total ({parts})."
    if math.isinf(epsilon):
        return [total, "This is not private: a report can give its record away completely."]
    return [
        total,
        f"Whatever a person's {record} is, {reports} more than {show_odds(epsilon)} times as likely as {would} "
        f"with any other {record}{other}.",
    ]


def _lists_in_words(guarantee: Guarantee) -> list[str]:
    """Say what answers about the neighbour list reveal under each relation."""
    rest, sentences = guarantee.epsilon(_USER, *_RECORD), []
    waves = counted(guarantee.list_waves, "wave") + (" together" if guarantee.list_waves > 1 else "")
    for relation in WITH_RECORD:
        alone = guarantee.epsilon(relation, Released.LISTS)
        if math.isinf(alone):
            sentences.append(f"{relation.value.capitalize()}: not private. Whole lists are not protected.")
            continue
        both = show_epsilon(state_epsilon(add_epsilons(rest, alone)))
        also = f"; {both} if the rest of the record differs as well" if rest else ""
        sentences.append(f"{describe_epsilon(relation, state_epsilon(alone))} for {waves}{also}.")
    both_ends = state_epsilon(guarantee.epsilon(ListRelation.ONE_RELATIONSHIP, Released.LISTS))
    sentences.append(f"{describe_epsilon(ListRelation.ONE_RELATIONSHIP, both_ends)}, twice that of one entry.")
    return [*sentences, "That others list a person is protected by their answers, not by this person's."]


def _json(epsilon: float) -> float | str:
    return json_epsilon(state_epsilon(epsilon))


def _relations(kind: type[Relation]) -> dict[str, str]:
    return {relation.key: relation.value for relation in kind}


def _terms(released: Released, losses: Mapping[Relation, float]) -> tuple[Term, ...]:
    return tuple(Term(released=released, relation=each, epsilons=(loss,)) for each, loss in losses.items())


def guarantee_of(
    features: Mechanism | None, label: Mechanism | None, neighbours: Sequence[NeighbourMechanism] = ()
) -> Guarantee:
    """Compose the mechanisms of one report; None where nothing is collected.

    Args:
        features: mechanism of the features.
        label: mechanism of the label.
        neighbours: mechanism of each wave of answers about the neighbour list; none if the graph is public.

    They randomize independently, so their epsilons add up.

    >>> from veilgraph.privacy.mechanisms import GRR, GRRFS
    >>> features = GRRFS(domain_sizes=(2,) * 53, sampled=10, epsilon=1.0)
    >>> round(guarantee_of(features, GRR(6, 3.0)).total_user_level, 9)
    13.0
    """
    terms: list[Term] = []
    parts = {Released.FEATURES: features, Released.LABEL: label}
    losses = {thing: _privacy_loss_of(mechanism) for thing, mechanism in parts.items() if mechanism is not None}
    for thing, loss in losses.items():
        terms.extend(_terms(thing, {_USER: loss.user_level}))
        if thing is Released.FEATURES:
            attribute = NeighbourRelation.ATTRIBUTE_LEVEL
            terms.append(Term(released=thing, relation=attribute, epsilons=loss.attribute_level))
    series = {thing: loss.series for thing, loss in losses.items() if loss.series is not None}
    lengths = {loss.rounds for loss in series.values()}
    if series and (len(lengths) > 1 or len(series) < len(losses)):
        raise BudgetError("a series asks for features and label in the same rounds: give both, or neither, as rounds")
    for thing, repeated in series.items():
        terms.extend(_terms(thing, {each: repeated.under(each) for each in HistoryRelation}))
    made = Guarantee(
        terms=tuple(terms),
        unsound_theorem_1=losses[Released.FEATURES].theorem_1 if Released.FEATURES in losses else None,
        record=History(lengths.pop(), max(loss.values for loss in series.values())) if series else OneRecord(),
    )
    if not neighbours:
        return made
    return made.with_lists(ListLoss.sum_of(each.list_loss for each in neighbours), waves=len(neighbours))


@lru_cache(maxsize=256)  # exact arithmetic takes milliseconds, and simulations use the same mechanism many times
def _privacy_loss_of(mechanism: Mechanism) -> PrivacyLoss:
    return mechanism.privacy_loss


def show_odds(epsilon: float) -> str:
    """Write exp(epsilon) with three digits, rounded up.

    >>> show_odds(0.5), show_odds(10.0), show_odds(1000.0)
    ('1.65', '22,100', '1.98e+434')
    """
    odds = Decimal(epsilon).exp(Context(prec=28, Emax=MAX_EMAX))
    odds = Context(prec=3, rounding=ROUND_CEILING, Emax=MAX_EMAX).plus(odds)
    return f"{odds:,f}" if odds < 10**6 else f"{odds:.2e}"
