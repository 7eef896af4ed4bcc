"""What reports reveal at most, in figures for people; and for a series about private neighbours, step by step.

A series has one figure for each question and each relation between lists, and their sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from veilgraph.campaign.neighbour_series import NeighbourSeries
from veilgraph.privacy.accounting import show_odds
from veilgraph.privacy.epsilon import (
    ListRelation,
    NeighbourRelation,
    add_epsilons,
    short_epsilon,
    show_certainty,
    state_epsilon,
)
from veilgraph.privacy.plain_text import counted

RELATIONS = {
    ListRelation.ANY_LISTS: "any two lists, of any length",
    ListRelation.ONE_ENTRY: "one entry: two lists, one with a person more",
    ListRelation.ONE_RELATIONSHIP: "one relationship, which both ends report, or neither",
}
"""Relations between lists, in the words of the page."""

WHOLE = "user level (any two records with any two lists)"


@dataclass(frozen=True, kw_only=True)
class Exposure:
    """Upper bound of what a part of a report reveals.

    Attributes:
        part: the part, in words.
        epsilon: text of the epsilon, rounded up.
        relation: neighbour relation of the epsilon, in words.
        odds: how many times as likely a report is with one record as with the other, at most.
        guess: how often in 100 a guess between two records is right at most, if it was right 50 times before.
    """

    part: str
    epsilon: str
    relation: str
    odds: str
    guess: str

    @classmethod
    def of(cls, part: str, epsilon: float, relation: str) -> Exposure:
        """Write an epsilon in all its forms; one that is infinite protects nothing."""
        if math.isinf(epsilon):
            return cls(part=part, epsilon="not private", relation=relation, odds="any", guess=show_certainty(epsilon))
        stated = state_epsilon(epsilon)
        return cls(
            part=part,
            epsilon=short_epsilon(stated),
            relation=relation,
            odds=show_odds(stated),
            guess=show_certainty(stated),
        )


@dataclass(frozen=True, kw_only=True)
class Step:
    """A question of a series.

    Attributes:
        name: the label, or the number of the wave.
        asked: what is asked, in words.
        exposures: what its report reveals at most, under each relation.
    """

    name: str
    asked: str
    exposures: Sequence[Exposure]


def series_steps(series: NeighbourSeries, label: str) -> list[Step]:
    """Return the label and each wave so far, with what each reveals at most.

    Args:
        series: the series, up to its newest wave.
        label: the question about the label, in words.
    """
    user = series.guarantee.label_user_level
    classes = counted(series.label.domain_size, "answer")
    steps = [
        Step(
            name="label",
            asked=f"“{label}”, one of {classes}",
            exposures=[Exposure.of("The label", user, str(NeighbourRelation.USER_LEVEL))],
        )
    ]
    for number, answer in enumerate(series.answers, start=1):
        loss = answer.list_loss
        steps.append(
            Step(
                name=f"wave {number}",
                asked=answer.asked_in_words,
                exposures=[
                    Exposure.of(f"Wave {number}", loss.under(relation), words) for relation, words in RELATIONS.items()
                ],
            )
        )
    return steps


def series_exposures(series: NeighbourSeries) -> list[Exposure]:
    """Return what the label and all waves so far reveal at most: everything, the label, and the list in each relation.

    Args:
        series: the series, up to its newest wave.
    """
    guarantee = series.guarantee
    terms = guarantee.neighbours
    if terms is None:
        return []
    label, lists = guarantee.label_user_level, terms.total
    waves = "The answer of one wave" if series.wave == 1 else f"The answers of {series.wave} waves together"
    if series.turns is not None:
        waves = f"The one answer of a person, in one of {series.turns} waves"
    return [
        Exposure.of("The label and all waves so far", guarantee.total_user_level, WHOLE),
        Exposure.of("The label alone", label, str(NeighbourRelation.USER_LEVEL)),
        *(Exposure.of(waves, lists.under(relation), words) for relation, words in RELATIONS.items()),
        Exposure.of(
            "The label and all waves so far",
            add_epsilons(label, lists.one_entry),
            "two records with any two labels, whose lists differ in one entry",
        ),
    ]
