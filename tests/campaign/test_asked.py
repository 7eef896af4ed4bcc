"""Every kind of campaign answers the same questions, and the registry finds it by its document."""

from __future__ import annotations

import json

import pytest

from tests.support.campaigns import campaign, classes
from tests.support.neighbour_series import CLASS, LIST, first_document, waves_of
from veilgraph.campaign import Campaign
from veilgraph.campaign.asked import Asked, Documents, read_about, turn_of
from veilgraph.campaign.document import ASKED, find_asked
from veilgraph.campaign.neighbours.series_label import SeriesLabel
from veilgraph.campaign.neighbours.wave import NeighbourWave
from veilgraph.campaign.once import Once
from veilgraph.campaign.rounds import Rounds
from veilgraph.errors import CampaignError
from veilgraph.privacy.schema import FeatureSchema

KINDS: dict[str, tuple[Campaign, type[Asked]]] = {
    "once": (campaign(classes(3), epsilon_y=1.0), Once),
    "the first document of a series": (first_document(), SeriesLabel),
    "in rounds": (campaign(classes(3), epsilon_y=1.0, rounds=4), Rounds),
    "in a wave about neighbours": (waves_of(CLASS)[1], NeighbourWave),
    "in a wave of lists": (waves_of(LIST)[1], NeighbourWave),
}
by_kind = pytest.mark.parametrize(("made", "kind"), KINDS.values(), ids=KINDS)


@by_kind
def test_a_document_is_read_as_the_kind_that_wrote_it(made: Campaign, kind: type[Asked]) -> None:
    document = json.loads(made.to_json())
    assert type(made.asked) is kind
    assert find_asked(document["format"], document["bound"]) is kind
    assert type(Campaign.from_json(made.to_json()).asked) is kind
    assert set(document["bound"]) == kind.bound_keys


@by_kind
def test_a_report_has_the_parts_that_its_kind_describes(made: Campaign, kind: type[Asked]) -> None:
    assert set(made.asked.report_parts) == set(made.asked.longest_report) == kind.report_keys


@by_kind
def test_a_campaign_says_its_largest_figure_first(made: Campaign, kind: type[Asked]) -> None:
    """What stands beside known deployments is what all reports of a person reveal, under a relation that is named."""
    (epsilon, unit), *_ = made.asked.words.compared
    assert epsilon == made.guarantee.total_user_level
    assert made.guarantee.user_level_pairs in unit
    assert made.guarantee.user_level_pairs in made.asked.words.exposures("the label")[0].relation


def test_every_registered_kind_is_tested_and_two_ask_for_one_report() -> None:
    assert {kind for _, kind in KINDS.values()} == set(ASKED)
    assert {kind for made, kind in KINDS.values() if made.asked.asks_one_report} == {Once, SeriesLabel}


def test_a_round_that_no_campaign_has_is_refused() -> None:
    rounds = KINDS["in rounds"][0].asked
    assert [rounds.is_round_open(number, 2) for number in (1, 2, 3)] == [True, True, False]
    assert not rounds.is_round_open(1, None)
    assert (rounds.number_now(3), rounds.stored_number) == (3, None)


NAMES = [f"u{number}" for number in range(200)]


def wave(number: int, turns: int | None) -> Documents:
    return Documents(nodes=len(NAMES), earlier=tuple("abcd"[:number]), turns=turns)


def test_a_person_is_asked_in_their_turn_and_in_no_other() -> None:
    for name in NAMES:
        assert [number for number in range(1, 5) if wave(number, 4).is_asked(name)] == [turn_of(name, 4)]


def test_people_are_counted_as_they_are_asked() -> None:
    label, *of_rounds = wave(3, 4).people_asked(NAMES)
    assert label == len(NAMES)
    assert of_rounds == [sum(map(wave(number, 4).is_asked, NAMES)) for number in (1, 2, 3)]
    assert wave(2, None).people_asked(NAMES) == [len(NAMES)] * 3
    assert Documents(nodes=7).people_asked([]) == [7]


def test_an_earlier_document_is_closed_and_any_other_is_not_known() -> None:
    open_wave = wave(2, None)
    assert open_wave.why_closed("a") == "the label of this series is closed, and wave 2 is open: get the campaign again"
    assert str(open_wave.why_closed("b")).startswith("wave 1 of this series is closed")
    assert open_wave.why_closed("c") is open_wave.why_closed(None) is None
    assert (open_wave.described, Documents(nodes=1).described) == ({"wave": 2}, {})


def test_a_whole_number_that_a_browser_would_round_is_refused() -> None:
    schema = FeatureSchema.binary(4, classes=["a", "b"])
    bound = json.loads(campaign(schema, epsilon_x=1.0, sampled=1).to_json())["bound"]
    bound["schema"]["group"] = 2**53 - 1
    assert read_about(bound)["schema"].group == 2**53 - 1
    bound["schema"]["group"] += 1
    with pytest.raises(CampaignError, match=r"schema\.group"):
        read_about(bound)
