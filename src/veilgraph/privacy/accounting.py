"""The guarantee of a whole report: features by one mechanism, the label by another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, ROUND_CEILING, Context, Decimal
from functools import lru_cache

from veilgraph.errors import BudgetError
from veilgraph.privacy.epsilon import (
    HistoryRelation,
    ListLoss,
    ListRelation,
    NeighbourRelation,
    PrivacyLoss,
    SeriesLoss,
    add_epsilons,
    describe_epsilon,
    json_epsilon,
    show_epsilon,
    state_epsilon,
)
from veilgraph.privacy.mechanisms import GRRFS, LongitudinalFeatures, LongitudinalGRR, Mechanism, NeighbourMechanism
from veilgraph.privacy.notebook_table import html_table
from veilgraph.privacy.plain_text import counted


@dataclass(frozen=True, kw_only=True)
class SeriesTerms:
    """Waves of a series and what all of them together reveal at most.

    Attributes:
        waves: number of waves.
        values: number of different values of each question that are answered.
        features: privacy loss of the features under each relation between histories; None if none are collected.
        label: privacy loss of the label under each relation between histories; None if none is collected.
    """

    waves: int
    values: int
    features: SeriesLoss | None = None
    label: SeriesLoss | None = None

    @property
    def total(self) -> SeriesLoss:
        """Privacy loss of the whole record: features and label compose by addition under each relation."""
        parts = [part for part in (self.features, self.label) if part is not None]
        sums = {each.key: add_epsilons(*(part.under(each) for part in parts)) for each in HistoryRelation}
        return SeriesLoss(**sums)

    def as_dict(self) -> dict[str, object]:
        """Return a dictionary for JSON, with every epsilon under the key of its relation."""
        losses = {"features": self.features, "label": self.label, "total": self.total}
        epsilons = {
            part: {each.key: json_epsilon(state_epsilon(loss.under(each))) for each in HistoryRelation}
            for part, loss in losses.items()
            if loss is not None
        }
        relations = {each.key: each.value for each in HistoryRelation}
        return {"waves": self.waves, "values": self.values, **epsilons, "relations": relations}

    def in_words(self) -> list[str]:
        """Return a sentence for each relation but the last, which the guarantee itself states."""
        loss = self.total
        unchanged, same = (show_epsilon(state_epsilon(e)) for e in (loss.unchanged, loss.same_pattern))
        value = "value" if self.features is None else "value of each question"
        never = "two values" if self.features is None else "two records"
        told = f"{never.capitalize()} that never change: epsilon = {unchanged} for all {self.waves} waves together."
        if self.values == 1:
            return [told, f"A device answers for the {value} of its first wave in every wave."]
        repeats = HistoryRelation.SAME_PATTERN.value.capitalize()
        of_each = "" if self.features is None else " of each question"
        return [
            told,
            f"{repeats}, {self.values} different values{of_each} at most: "
            f"epsilon = {same}. Whether and when a value changed is protected by the first figure alone.",
            f"After {self.values} different values{of_each} a device answers as if the value did not change any more.",
        ]


@dataclass(frozen=True, kw_only=True)
class NeighbourTerms:
    """Waves of answers about a neighbour list, and what all of them together reveal about the list at most.

    Attributes:
        waves: privacy loss of each wave's answer.
    """

    waves: tuple[ListLoss, ...]

    @property
    def total(self) -> ListLoss:
        """Privacy loss of all waves together: they compose by addition, rounded up."""
        return ListLoss.sum_of(self.waves)

    def as_dict(self, rest: float) -> dict[str, object]:
        """Return a dictionary for JSON; every relation has the list alone, and with any two values of the `rest`."""
        return {
            "waves": len(self.waves),
            "lists": {each.key: json_epsilon(state_epsilon(self.total.under(each))) for each in ListRelation},
            "lists_and_record": {
                each.key: json_epsilon(state_epsilon(add_epsilons(rest, self.total.under(each))))
                for each in (ListRelation.ANY_LISTS, ListRelation.ONE_ENTRY)
            },
            "relations": {each.key: each.value for each in ListRelation},
        }

    def in_words(self, rest: float) -> list[str]:
        """Return a sentence for each relation; `rest` is the user-level epsilon of features and label."""
        waves = counted(len(self.waves), "wave") + (" together" if len(self.waves) > 1 else "")
        sentences = []
        for relation in (ListRelation.ANY_LISTS, ListRelation.ONE_ENTRY):
            alone = self.total.under(relation)
            if math.isinf(alone):
                sentences.append(f"{relation.value.capitalize()}: not private. Whole lists are not protected.")
                continue
            both = show_epsilon(state_epsilon(add_epsilons(rest, alone)))
            also = f"; {both} if the rest of the record differs as well" if rest else ""
            sentences.append(f"{describe_epsilon(relation, state_epsilon(alone))} for {waves}{also}.")
        relationship = state_epsilon(self.total.one_relationship)
        sentences.append(f"{describe_epsilon(ListRelation.ONE_RELATIONSHIP, relationship)}, twice that of one entry.")
        sentences.append("That others list a person is protected by their answers, not by this person's.")
        return sentences


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """Upper bound on what a whole report reveals, features and label together.

    Attributes:
        features: privacy loss of the feature mechanism, or None where no features are collected.
        label: privacy loss of the label mechanism, or None where no label is collected.
        unsound_theorem_1: the figure that the paper's Theorem 1 states for the features. It is *not* a
            guarantee: enumeration refutes it (see docs/explanation/privacy.md). It labels reproduced tables.
        series: waves of a series, or None for a single report. The record is then a history, and the user level is
            that of any two histories.
        neighbours: answers about the person's neighbour list, or None if the graph is public. The record then holds the
            list as well, and the user level is that of any two records with any two lists.
    """

    features: PrivacyLoss | None
    label: PrivacyLoss | None
    unsound_theorem_1: float | None = None
    series: SeriesTerms | None = None
    neighbours: NeighbourTerms | None = None

    @property
    def features_user_level(self) -> float:
        """User-level epsilon of the features; 0 where none are collected."""
        return self.features.user_level if self.features else 0.0

    @property
    def label_user_level(self) -> float:
        """User-level epsilon of the label; 0 where none is collected."""
        return self.label.user_level if self.label else 0.0

    @property
    def total_user_level(self) -> float:
        """User-level epsilon of the whole report: features, label and lists compose by addition, rounded up."""
        return add_epsilons(self.features_user_level, self.label_user_level, self.lists_user_level)

    @property
    def user_level_pairs(self) -> str:
        """Pairs that the user level protects from each other, in words."""
        pairs = NeighbourRelation.USER_LEVEL if self.series is None else HistoryRelation.ANY_HISTORIES
        return pairs.value if self.neighbours is None else f"{pairs.value} with any two lists"

    @property
    def attribute_level_pairs(self) -> str:
        """Pairs that the attribute level protects from each other, in words."""
        pairs = NeighbourRelation.ATTRIBUTE_LEVEL.value
        return pairs if self.series is None else pairs.replace("records", "histories")

    @property
    def lists_user_level(self) -> float:
        """Epsilon of the neighbour list for any two lists; 0 where none is asked about."""
        return self.neighbours.total.any_lists if self.neighbours else 0.0

    @property
    def _record_without_list(self) -> float:
        return add_epsilons(self.features_user_level, self.label_user_level)

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
                "features": json_epsilon(state_epsilon(self.features_user_level)),
                "label": json_epsilon(state_epsilon(self.label_user_level)),
                "total": json_epsilon(state_epsilon(self.total_user_level)),
            },
            NeighbourRelation.ATTRIBUTE_LEVEL.key: {
                "features": [json_epsilon(state_epsilon(e)) for e in self.features.attribute_level]
                if self.features
                else [],
                "label": json_epsilon(state_epsilon(self.label_user_level)),
            },
            "theorem_1": None if self.unsound_theorem_1 is None else json_epsilon(self.unsound_theorem_1),
            "theorem_1_is_a_guarantee": False,
            "relations": {relation.key: relation.value for relation in NeighbourRelation},
            **({} if self.series is None else {"series": self.series.as_dict()}),
            **({} if self.neighbours is None else {"neighbours": self.neighbours.as_dict(self._record_without_list)}),
        }

    def in_words(self, *, theorem_1: bool = True) -> list[str]:
        """Return plain sentences, for a person who has to approve the collection.

        Args:
            theorem_1: say what the paper's Theorem 1 states, and that it is not used.

        >>> label_only = Guarantee(features=None, label=PrivacyLoss(user_level=1.0, attribute_level=(1.0,)))
        >>> print(label_only.in_words()[0])
        User level, any two records: epsilon = 1.0000 in total (the label alone).
        """
        if self.features is None and self.label is None and self.neighbours is not None:
            return self.neighbours.in_words(0.0)
        features, label = map(state_epsilon, (self.features_user_level, self.label_user_level))
        parts = f"features {show_epsilon(features)}, label {show_epsilon(label)}"
        if self.features is None or self.label is None:
            parts = "the label alone" if self.features is None else "the features alone"
        without_list = self._record_without_list
        total = describe_epsilon(NeighbourRelation.USER_LEVEL, state_epsilon(without_list))
        record, reports, would, other = "record", "no report is", "it would be", ""
        if self.neighbours is not None:
            total = total.replace(NeighbourRelation.USER_LEVEL.value, "any two records with the same neighbour list")
            other = " and the same neighbour list"
        if self.series is not None:
            total = total.replace(NeighbourRelation.USER_LEVEL.value, HistoryRelation.ANY_HISTORIES.value)
            record, reports, would = "history", f"no reports of {self.series.waves} waves are", "they would be"
        sentences = [f"{total} in total ({parts})."]
        if math.isinf(without_list):
            sentences.append("This is not private: a report can give its record away completely.")
        else:
            sentences.append(
                f"Whatever a person's {record} is, {reports} more than {show_odds(without_list)} times as "
                f"likely as {would} with any other {record}{other}."
            )
        if self.series is not None:
            sentences.extend(self.series.in_words())
        if self.neighbours is not None:
            sentences.extend(self.neighbours.in_words(without_list))
        if self.features:
            level = describe_epsilon(
                NeighbourRelation.ATTRIBUTE_LEVEL, *map(state_epsilon, self.features.attribute_level)
            )
            sentences.append(f"{level if self.series is None else level.replace('records', 'histories')}.")
        if theorem_1 and self.unsound_theorem_1 is not None:
            sentences.append(
                f"The paper's Theorem 1 would say {show_epsilon(self.unsound_theorem_1)} for the features. "
                "That figure is not a guarantee and is not used."
            )
        return sentences


def guarantee_of(
    features: Mechanism | None, label: Mechanism | None, neighbours: Sequence[NeighbourMechanism] = ()
) -> Guarantee:
    """Compose the mechanisms of one report; None where nothing is collected.

    Args:
        features: mechanism of the features.
        label: mechanism of the label.
        neighbours: mechanism of each wave of answers about the neighbour list; none if the graph is public.

    They randomize independently, so their epsilons add up.

    >>> from veilgraph.privacy.mechanisms import GRR
    >>> features = GRRFS(domain_sizes=(2,) * 53, sampled=10, epsilon=1.0)
    >>> round(guarantee_of(features, GRR(6, 3.0)).total_user_level, 9)
    13.0
    """
    theorem_1 = (
        theorem_1_figure(features.epsilon, features.sampled, features.num_features)
        if isinstance(features, GRRFS)
        else None
    )
    return Guarantee(
        features=_privacy_loss_of(features) if features else None,
        label=_privacy_loss_of(label) if label else None,
        unsound_theorem_1=theorem_1,
        series=_series_terms(features, label),
        neighbours=NeighbourTerms(waves=tuple(each.list_loss for each in neighbours)) if neighbours else None,
    )


def _series_terms(features: Mechanism | None, label: Mechanism | None) -> SeriesTerms | None:
    asked = features if isinstance(features, LongitudinalFeatures) else None
    answered = label if isinstance(label, LongitudinalGRR) else None
    series = asked or answered
    if series is None:
        return None
    parts = [part for part in (features, label) if part is not None]
    if any(getattr(part, "waves", None) != series.waves for part in parts):
        raise BudgetError("a series asks for features and label in the same waves: give both, or neither, as waves")
    return SeriesTerms(
        waves=series.waves,
        values=max(each.values for each in (asked, answered) if each is not None),
        features=None if asked is None else asked.series_loss,
        label=None if answered is None else answered.series_loss,
    )


@lru_cache(maxsize=256)  # exact arithmetic takes milliseconds, and simulations use the same mechanism many times
def _privacy_loss_of(mechanism: Mechanism) -> PrivacyLoss:
    return mechanism.privacy_loss


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


def show_odds(epsilon: float) -> str:
    """Write exp(epsilon) with three digits, rounded up.

    >>> show_odds(0.5), show_odds(10.0), show_odds(1000.0)
    ('1.65', '22,100', '1.98e+434')
    """
    odds = Decimal(epsilon).exp(Context(prec=28, Emax=MAX_EMAX))
    odds = Context(prec=3, rounding=ROUND_CEILING, Emax=MAX_EMAX).plus(odds)
    return f"{odds:,f}" if odds < 10**6 else f"{odds:.2e}"
