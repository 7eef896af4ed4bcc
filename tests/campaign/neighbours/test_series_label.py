"""The first document of a series about neighbours tells people what follows, and no other document begins one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.browser_module import in_node, needs_node
from tests.support.campaigns import BEFORE, CAMPAIGNS, campaign, classes
from tests.support.forgeries import rewritten
from tests.support.neighbour_series import CLASS, HISTOGRAM, LIST, PEOPLE, TABLE, first_document
from veilgraph.campaign import Campaign
from veilgraph.campaign.neighbours.next_wave import NextWave
from veilgraph.client import verify
from veilgraph.errors import CampaignError
from veilgraph.privacy.mechanisms import NeighbourMechanism

WAVES = first_document()
LISTS = first_document(followed_by="lists")
ORDINARY = campaign(classes(3), epsilon_y=2.0, graph=PEOPLE)
ROUNDS = campaign(classes(3), epsilon_y=2.0, rounds=3)


def after(first: Campaign, answer: NeighbourMechanism) -> Campaign:
    table = None if answer is LIST else TABLE.sha256
    return NextWave(answer=answer, closes=first.notice.closes).after(first, people=PEOPLE, table=table)


def test_what_follows_is_bound_by_the_id() -> None:
    stated = [json.loads(each.to_json())["bound"].get("neighbours") for each in (WAVES, LISTS, ORDINARY)]
    assert stated == ["waves", "lists", None]
    assert len({each.id for each in (WAVES, LISTS)}) == 2


@pytest.mark.parametrize(("answer", "beginnings"), [(HISTOGRAM, [WAVES]), (CLASS, [WAVES]), (LIST, [WAVES, LISTS])])
def test_no_wave_follows_a_document_that_does_not_tell_people_what_is_published(
    answer: NeighbourMechanism, beginnings: list[Campaign]
) -> None:
    """A list publishes less than waves do, so it may follow a document that speaks of waves."""
    for first in (WAVES, LISTS, ORDINARY):
        if first in beginnings:
            assert after(first, answer).asked.documents.earlier == (first.id,)
        else:
            with pytest.raises(CampaignError, match="does not tell people what is published about them"):
                after(first, answer)


ALTERED: dict[str, tuple[Campaign, Any]] = {
    "another word": (WAVES, "tables"),
    "null": (WAVES, None),
    "a list of one word": (WAVES, ["waves"]),
    "an object": (WAVES, {"documents": []}),
    "of rounds": (ROUNDS, "waves"),
    "of features and label": (CAMPAIGNS["binary"], "waves"),
    "of features alone": (CAMPAIGNS["features only"], "lists"),
    "beside columns": (CAMPAIGNS["label only"], "waves"),
}
FORGERIES = {name: rewritten(made, neighbours=value) for name, (made, value) in ALTERED.items()}
GENUINE = [WAVES.to_json(), LISTS.to_json(), *(made.to_json() for made, _ in ALTERED.values())]


def test_what_is_altered_was_readable_before() -> None:
    for text in GENUINE:
        assert Campaign.from_json(text).to_json() == text
        verify(text, max_epsilon=1e6, now=BEFORE)


@pytest.mark.parametrize("forgery", FORGERIES)
def test_other_words_and_other_questions_are_refused(forgery: str) -> None:
    with pytest.raises(CampaignError):
        Campaign.from_json(FORGERIES[forgery])
    with pytest.raises(CampaignError):
        verify(FORGERIES[forgery], max_epsilon=1e6, now=BEFORE)


@needs_node
def test_the_browser_reads_and_refuses_the_same() -> None:
    replies = in_node("verify", [*GENUINE, *FORGERIES.values()])
    assert ["error" in reply for reply in replies] == [False] * len(GENUINE) + [True] * len(FORGERIES)
