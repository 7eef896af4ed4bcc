"""What a part of a person's reports reveals at most, in figures for people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from veilgraph.privacy.accounting import show_odds
from veilgraph.privacy.epsilon import short_epsilon, show_certainty, state_epsilon


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
