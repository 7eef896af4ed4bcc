"""What people read about the questions of a campaign: in the terminal, on the printed page, and in its two drafts."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from veilgraph.privacy.accounting import Guarantee, show_odds
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
        told: key of the phrase that names the part to participants, in `client/browser/languages/` or in
            `pages/summary_words.json`.
    """

    part: str
    epsilon: str
    relation: str
    odds: str
    guess: str
    told: str = ""

    @classmethod
    def of(cls, part: str, epsilon: float, relation: str, told: str = "") -> Exposure:
        """Write an epsilon in all its forms; one that is infinite protects nothing."""
        is_private = not math.isinf(epsilon)
        stated = state_epsilon(epsilon) if is_private else epsilon
        return cls(
            part=part,
            epsilon=short_epsilon(stated) if is_private else "not private",
            relation=relation,
            odds=show_odds(stated) if is_private else "any",
            guess=show_certainty(stated),
            told=told,
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


class Words(ABC):
    """Words of what a campaign asks; each kind of campaign has its own.

    The defaults hold for a campaign that has one document.
    """

    title: ClassVar[str] = "This campaign"
    """Name beside known deployments."""
    not_protected: ClassVar[str] = "the graph, as far as it is public"
    """What everybody knows of the people."""
    sure: str = "guarantee.limit"
    """Key of the phrase by which the participants' page introduces the figures."""

    @property
    @abstractmethod
    def whole(self) -> Guarantee:
        """The guarantee that the words are about."""

    @property
    @abstractmethod
    def methods(self) -> list[str]:
        """Sentences that say what is asked, and how a device randomizes it."""

    @property
    @abstractmethod
    def questions(self) -> list[str]:
        """Each question with its answers, in the words of the schema."""

    @abstractmethod
    def page_methods(self, label: str) -> list[str]:
        """Return sentences of the page that say how a device randomizes; `label` is the label's question in words."""

    @abstractmethod
    def exposures(self, label: str) -> list[Exposure]:
        """Return upper bounds of what a person reveals: by all reports, by their parts, and by one answer."""

    @property
    def guarantee(self) -> list[str]:
        """Sentences about the guarantee."""
        return self.whole.in_words(theorem_1=False)

    @property
    def guarantee_in_brief(self) -> list[str]:
        """Those sentences about the guarantee that are said when a collection begins."""
        return self.guarantee[:2]

    def open_round(self, number: int | None) -> list[str]:
        """Say which round is open; nothing without rounds."""
        return []

    @property
    def compared(self) -> list[tuple[float, str]]:
        """Epsilons to compare with the epsilons of known deployments, each with what it protects."""
        return [(self.whole.total_user_level, f"all that one person reports: {self.whole.user_level_pairs}")]

    @property
    def published(self) -> list[str]:
        """What is published before people answer; empty if nothing is."""
        return []

    @property
    def told(self) -> list[tuple[str, Mapping[str, int]]]:
        """Keys and values of the phrases that participants read after the figures."""
        return [("guarantee.others", {}), ("details.unprotected", {})]

    def steps(self, label: str) -> list[Step]:
        """Return each document of the collection with what it reveals at most; empty if there is one document."""
        return []
