"""A campaign in the language of the people who are asked, in the words of the participants' page.

What people read on paper before they decide is what they read on the page. So both have one translation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from veilgraph.campaign import Campaign
from veilgraph.campaign.asked_words import Exposure
from veilgraph.graph.links import LINK_WORDS
from veilgraph.privacy.public_columns import LINK, PublicColumn

LANGUAGES = ("ar", "de", "es", "fr")
"""Languages beside English."""
_RIGHT_TO_LEFT = ("ar",)
_LINKS = {told: f"links.{name}" for name, told in LINK_WORDS.items()}
_FOLLOWS = ("follows", "guarantee.published")


@dataclass(frozen=True)
class Spoken:
    """The words about a campaign in a language.

    Args:
        campaign: the campaign.
        language: one of `LANGUAGES`.
    """

    campaign: Campaign
    language: str

    @property
    def direction(self) -> str:
        """Direction of the script: "rtl" or "ltr"."""
        return "rtl" if self.language in _RIGHT_TO_LEFT else "ltr"

    def say(self, key: str, **values: object) -> str:
        """Return a phrase of the page, or of paper alone, with its values."""
        return str(_phrases(self.language)[key]).format(**values)

    def apart(self, text: str) -> str:
        """Return a text such as a date in a direction of its own, for a page."""
        return f"\u2068{text}\u2069" if self.direction == "rtl" else text

    def chance(self, exposure: Exposure) -> str:
        """Return how often a guess is right at most."""
        return self.say("chance.certain") if exposure.guess == "100" else self.say("chance", n=exposure.guess)

    def part(self, exposure: Exposure) -> str:
        """Return what an exposure is about."""
        return self.say(exposure.told, count=self.campaign.guarantee.rounds)

    def epsilon(self, exposure: Exposure) -> str:
        """Return the epsilon of an exposure."""
        return self.say("open") if exposure.epsilon == "not private" else exposure.epsilon

    def relation(self, exposure: Exposure) -> str:
        """Return the neighbour relation of an exposure."""
        return str(_phrases(self.language)["relations"][exposure.relation])

    def known(self, column: PublicColumn) -> str:
        """Return the name of what is known without asking: the organiser's, or our own of what is known about links."""
        return self.say(_LINKS[column.name]) if column.kind == LINK and column.name in _LINKS else column.name

    @property
    def sure(self) -> str:
        """What leaves the device; the figures end the sentence."""
        return self.say(self.campaign.asked.words.sure)

    @property
    def told(self) -> Iterator[str]:
        """What people read after the figures."""
        for key, values in self.campaign.asked.words.told:
            yield self.say(key, **values)

    @property
    def follows(self) -> Iterator[str]:
        """What people read about later waves, and about what is published for them."""
        for key, values in self.campaign.asked.words.told:
            if key in _FOLLOWS:
                yield self.say(key, **values)


def spoken(campaign: Campaign, language: str) -> Spoken | None:
    """Return the words of a language, such as "de" or "de-AT"; None where the page speaks English."""
    base = language.partition("-")[0]
    return Spoken(campaign, base) if base in LANGUAGES else None


@cache
def _phrases(language: str) -> Mapping[str, Any]:
    package = resources.files("veilgraph")
    page = json.loads((package / f"client/browser/languages/{language}.json").read_text(encoding="utf-8"))
    paper = json.loads((package / "pages/summary_words.json").read_text(encoding="utf-8"))
    return {**page, **paper[language]}
