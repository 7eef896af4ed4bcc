"""The first document of a series about private neighbours: it asks for the label, and says what follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from veilgraph.campaign.neighbours.published_words import published_in_words
from veilgraph.campaign.once import Once, OnceWords
from veilgraph.errors import CampaignError
from veilgraph.privacy.schema import FeatureSchema
from veilgraph.privacy.strict_json import expect_choice

FollowedBy = Literal["waves", "lists"]
"""What people are asked after the label: answers about published beliefs in waves, or their list, randomized."""


@dataclass(frozen=True, kw_only=True)
class SeriesLabel(Once):
    """The label, asked of each person once, before waves about neighbours.

    People are told before they answer what is published about them between the waves.

    Args:
        followed_by: what follows.
    """

    key = "neighbours"
    bound_keys = Once.bound_keys | {"neighbours"}

    followed_by: FollowedBy

    def _check_mechanisms(self) -> None:
        if self.feature_mechanism is not None or self.schema.columns:
            raise CampaignError("a series about private neighbours begins with the label alone, and this has features")
        super()._check_mechanisms()

    @classmethod
    def _mechanisms(cls, bound: Mapping[str, Any], schema: FeatureSchema) -> dict[str, Any]:
        if bound["rounds"] is not None:
            raise CampaignError("a series about private neighbours begins with a label that is asked once")
        follows = expect_choice(bound["neighbours"], {each: each for each in get_args(FollowedBy)}, "neighbours")
        return super()._mechanisms(bound, schema) | {"followed_by": follows}

    @property
    def bound(self) -> dict[str, Any]:
        """Part of the document that reports are bound to, as JSON values."""
        return super().bound | {"neighbours": self.followed_by}

    @property
    def publishes_beliefs(self) -> bool:
        """Whether a belief table is published before the waves that follow."""
        return self.followed_by == "waves"

    @property
    def words(self) -> SeriesLabelWords:
        """What people read about the questions and the guarantee."""
        return SeriesLabelWords(self)


class SeriesLabelWords(OnceWords):
    """Words of the first document of a series about private neighbours."""

    asked: SeriesLabel
    not_protected = "the list of all people"

    @property
    def methods(self) -> list[str]:
        """Sentences that say what is asked, and how a device randomizes it."""
        return [*super().methods, *self.published]

    @property
    def told(self) -> list[tuple[str, Mapping[str, int]]]:
        """Keys and values of the phrases that participants read after the figures."""
        keys = ("follows", "guarantee.published") if self.asked.followed_by == "waves" else ("follows",)
        return [*super().told, *((key, {}) for key in keys)]

    @property
    def published(self) -> list[str]:
        """What is published before people answer."""
        follows = "Questions about the people whom a person knows follow, and everybody can leave them out."
        return [follows, *published_in_words(self.asked.nodes, has_table=self.asked.followed_by == "waves")]
