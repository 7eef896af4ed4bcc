"""What people read about the questions of a campaign: in the terminal, on the printed page, and in its two drafts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from veilgraph.campaign.exposure import Exposure, Step
from veilgraph.privacy.accounting import Guarantee
from veilgraph.privacy.epsilon import NeighbourRelation, describe_epsilon, state_epsilon


class Words(ABC):
    """Words of what a campaign asks; each kind of campaign has its own.

    The defaults are those of a campaign that has one document.
    """

    title: ClassVar[str] = "This campaign"
    """Name beside known deployments."""
    not_protected: ClassVar[str] = "the graph, as far as it is public"
    """What everybody knows of the people."""

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
        """Return what all reports of a person, their parts and one answer reveal at most; all reports come first."""

    @property
    def guarantee(self) -> list[str]:
        """Sentences about the guarantee."""
        return self.whole.in_words(theorem_1=False)

    @property
    def guarantee_in_brief(self) -> list[str]:
        """Those sentences about the guarantee that a check of the document prints."""
        return self.guarantee[:1]

    @property
    def guarantee_when_made(self) -> list[str]:
        """Those sentences about the guarantee that are said when the campaign is made."""
        epsilon = state_epsilon(self.whole.total_user_level)
        return [f"{describe_epsilon(NeighbourRelation.USER_LEVEL, epsilon)} in total."]

    def open_round(self, number: int | None) -> list[str]:
        """Say which round is open; nothing without rounds."""
        return []

    @property
    def compared(self) -> list[tuple[float, str]]:
        """Epsilons that stand beside those of known deployments, each with what it protects."""
        return [(self.whole.total_user_level, f"all that one person reports: {self.whole.user_level_pairs}")]

    @property
    def published(self) -> list[str]:
        """What is published before people answer; empty if nothing is."""
        return []

    def steps(self, label: str) -> list[Step]:
        """Return each document of the collection with what it reveals at most; empty if there is one document."""
        return []
