"""The assessment of a collection: a verdict that follows from its interval, and a file that is read strictly."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from veilgraph.campaign.assessment import ENOUGH, Assessment, Verdict, features_in_words, hundred_in_words
from veilgraph.errors import CampaignError
from veilgraph.privacy.estimate import Estimate

FOUND = Assessment(
    campaign="5f7f",
    computed=datetime(2027, 1, 31, 12, tzinfo=UTC),
    method="veil",
    label_reports=900,
    accuracy=Estimate(value=0.7, low=0.66, high=0.74, reports=900),
    control=Estimate(value=0.6, low=0.56, high=0.64, reports=900),
    second_half=Estimate(value=0.01, low=-0.01, high=0.03, reports=900),
    shares={"yes": Estimate(value=0.3, low=0.25, high=0.35, reports=900)},
)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(-0.01, ENOUGH, "enough"), (-0.01, 0.03, "unclear"), (0.001, 0.03, "more helps"), (0.0, 0.03, "unclear")],
)
def test_the_verdict_follows_from_the_interval_of_what_the_second_half_brought(
    low: float, high: float, verdict: Verdict
) -> None:
    found = replace(FOUND, second_half=Estimate(value=(low + high) / 2, low=low, high=high, reports=900))
    assert found.verdict == verdict


def test_what_cannot_be_estimated_is_said() -> None:
    assert "too few label reports" in replace(FOUND, accuracy=None).sentences[0]
    few = replace(FOUND, second_half=None)
    assert (few.verdict, few.sentences[-1]) == (
        "unclear",
        "Whether more reports would help cannot be told from so few.",
    )


def test_reports_that_were_not_randomized_come_first_and_survive_the_file() -> None:
    liars = "About 20% of the label reports look as if they were not randomized; most name 'no'."
    found = replace(FOUND, contamination=liars)
    assert found.sentences == [liars, *FOUND.sentences]
    assert replace(found, accuracy=None).sentences[0] == liars
    assert Assessment.from_json(found.to_json()) == found


def test_a_file_of_another_campaign_or_form_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    assert Assessment.read(path, "5f7f") is None
    path.write_text(FOUND.to_json())
    assert Assessment.read(path, "5f7f") == FOUND
    assert Assessment.read(path, "another") is None
    path.write_text(FOUND.to_json()[:-5])
    assert Assessment.read(path, "5f7f") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("format", 1),
        ("accuracy", {"value": 7, "low": 0, "high": 1, "reports": 9}),
        ("label_reports", -1),
        ("shares", ["yes"]),
        ("shares", {"yes": {"value": 0.5, "low": 0.6, "high": 1, "reports": 9}}),
        ("extra", 1),
        ("method", 3),
        ("contamination", 3),
    ],
)
def test_another_document_is_refused(key: str, value: object) -> None:
    with pytest.raises(CampaignError):
        Assessment.from_json(json.dumps(json.loads(FOUND.to_json()) | {key: value}))


def test_an_estimate_outside_its_own_interval_is_refused() -> None:
    document = json.loads(FOUND.to_json())
    document["accuracy"] |= {"value": 0.8}
    with pytest.raises(CampaignError, match="accuracy is not an estimate"):
        Assessment.from_json(json.dumps(document))


def test_a_model_that_reports_cannot_tell_from_a_perfect_one_is_not_said_to_be_right_for_everyone() -> None:
    """A model that was right for 91 % was said to predict 100.0 % of all people right."""
    found = replace(FOUND, accuracy=Estimate.of(1.094, 0.95, 1.24, reports=372))
    assert found.sentences[0] == (
        "A model on these reports predicts at least 85.6 % (95 % interval 85.6 to 100.0 %) of the people right whose "
        "own report it does not use, as for those who did not answer."
    )


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.001, 0.05, "Features helped"),
        (-0.02, 0.05, "Whether features helped does not show"),
        (0.0, 0.05, "Whether features helped does not show"),
        (-0.05, -0.001, "Features did harm"),
    ],
)
@pytest.mark.parametrize("has_point", [True, False])
def test_the_words_follow_from_the_interval(low: float, high: float, said: str, has_point: bool) -> None:
    value = (low + high) / 2 if has_point else None
    assert features_in_words(Estimate(value=value, low=low, high=high, reports=90)).startswith(said)


def test_what_a_hundred_reports_bring_names_its_interval_and_its_method() -> None:
    said = hundred_in_words(Estimate(value=None, low=-0.001, high=0.009, reports=900))
    assert "between −0.1 and +0.9 points (95 % interval) on average" in said
    assert "random halves" in said
