"""Notices: texts are about the questions, and a date is the whole day."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.support.campaigns import BEFORE, CAMPAIGNS, CLOSES, GRAPH, MIXED, campaign
from tests.support.forgeries import MISLEADING_TEXTS, rewritten
from veilgraph.campaign import Campaign
from veilgraph.campaign.notice import Notice, check_texts, missing_texts, read_time
from veilgraph.campaign.plan import CampaignPlan
from veilgraph.client import verify
from veilgraph.errors import CampaignError
from veilgraph.privacy.mechanisms import GRR
from veilgraph.privacy.public_columns import PublicColumn
from veilgraph.privacy.schema import Column, FeatureSchema


@pytest.mark.parametrize("name", ["age", "label", "age "])
def test_a_column_that_is_asked_cannot_be_public(name: str) -> None:
    text = rewritten(CAMPAIGNS["public columns beside the questions"], notice__public={name: None})
    with pytest.raises(CampaignError):
        Campaign.from_json(text)
    with pytest.raises(CampaignError, match="a column is asked and public, or two look alike"):
        verify(text, max_epsilon=1e6, now=BEFORE)


def test_public_columns_are_stated_without_their_values_and_change_no_guarantee() -> None:
    known = CAMPAIGNS["public columns beside the questions"]
    bare = replace(known, notice=replace(known.notice, public=()))
    assert known.notice.document["public"] == {"born": None, "village": "category"}
    assert "public" not in bare.notice.document
    assert (known.id, known.guarantee) == (bare.id, bare.guarantee)
    assert Campaign.from_json(known.to_json()) == known
    assert known.schema.public == known.notice.public
    assert verify(known.to_json(), max_epsilon=1e6, now=BEFORE).notice.public == {"born": None, "village": "category"}


def test_a_plan_keeps_public_columns() -> None:
    schema = FeatureSchema(classes=("no", "yes"), public=(PublicColumn(name="village"),))
    plan = CampaignPlan.new(schema=schema, graph=GRAPH, label="ill", label_mechanism=GRR(2, 1.0))
    again = CampaignPlan.from_json(plan.to_json())
    again.check(schema=schema)
    made = again.campaign(Notice(purpose="p", contact="c", closes=CLOSES))
    assert made.schema.public == schema.public
    with pytest.raises(CampaignError, match="the plan was made for another schema"):
        again.check(schema=replace(schema, public=()))


@pytest.mark.parametrize("key", ["purpose", "contact", "note"])
def test_translations_refuse_what_could_mislead(key: str) -> None:
    for text in MISLEADING_TEXTS.values():
        with pytest.raises(CampaignError, match=f"texts.de.{key} (holds U|is not valid)"):
            check_texts({"de": {key: text}}, MIXED, "label")


@pytest.mark.parametrize("language", ["de", "pt-BR", "zh-Hant-TW", "ast"])
def test_languages_are_tags(language: str) -> None:
    check_texts({language: {}}, MIXED, "label")


@pytest.mark.parametrize("language", ["", "German", "DE", "de_DE", "d", "de-", "de-x-much-too-many-parts"])
def test_what_is_no_language_tag_is_refused(language: str) -> None:
    with pytest.raises(CampaignError, match="it must be a tag such as 'de'"):
        check_texts({language: {}}, MIXED, "label")


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2027-01-31", "UTC", datetime(2027, 1, 31, 23, 59, 59, tzinfo=UTC)),
        ("2027-01-31", "America/New_York", datetime(2027, 2, 1, 4, 59, 59, tzinfo=UTC)),
        ("2027-07-31", "Europe/Berlin", datetime(2027, 7, 31, 21, 59, 59, tzinfo=UTC)),
        ("2027-01-31T18:00", "Europe/Berlin", datetime(2027, 1, 31, 17, tzinfo=UTC)),
        ("2027-01-31 18:00:00Z", "Europe/Berlin", datetime(2027, 1, 31, 18, tzinfo=UTC)),
        ("2027-01-31T18:00:00-08:00", "UTC", datetime(2027, 2, 1, 2, tzinfo=UTC)),
        ("2027-01-31T00:00", "UTC", datetime(2027, 1, 31, tzinfo=UTC)),
        ("31.01.2027", "UTC", datetime(2027, 1, 31, 23, 59, 59, tzinfo=UTC)),
        (" 1.2.2027 ", "UTC", datetime(2027, 2, 1, 23, 59, 59, tzinfo=UTC)),
        ("31.01.2027 18:00", "Europe/Berlin", datetime(2027, 1, 31, 17, tzinfo=UTC)),
    ],
)
def test_times_are_read_in_their_zone_and_a_date_is_the_whole_day(text: str, zone: str, expected: datetime) -> None:
    assert read_time(text, zone=zone) == expected


@pytest.mark.parametrize("text", ["soon", "", "2027-02-30", "2027", "31.13.2027", "1/31/2027", "9999-12-31"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(CampaignError, match=r"closes is '.*': give a date such as 2027-01-31"):
        read_time(text, zone="America/New_York")


def test_what_is_no_zone_is_refused() -> None:
    for zone in ("Mars/Phobos", "", "../etc/passwd", "/etc/localtime"):
        with pytest.raises(CampaignError, match="give the name of a time zone"):
            read_time("2027-01-31", zone=zone)


def test_a_question_beside_the_purpose_is_refused_with_its_place() -> None:
    with pytest.raises(
        CampaignError, match=r"texts.de has an unknown key 'age'; known are .* and questions, which has"
    ):
        check_texts({"de": {"age": "Wie alt?"}}, MIXED, "label")
    with pytest.raises(CampaignError, match="unknown key 'txt'; known are text, help and answers"):
        check_texts({"de": {"questions": {"label": {"txt": "?"}}}}, MIXED, "label")


def test_the_first_language_of_a_schema_stays_first_whatever_the_alphabet_says() -> None:
    texts = {"en": {"purpose": "To learn"}, "ar": {}, "de": {}}
    made = campaign(FeatureSchema(classes=("no", "yes"), texts=texts), epsilon_y=1.0)
    read = Campaign.from_json(made.to_json())
    assert made.notice.document["language"] == read.notice.document["language"] == "en"
    assert next(iter(read.schema.texts)) == "en"
    revised = read.revise(texts={"ar": {"purpose": "x"}, "aa": {}})
    assert (
        revised.notice.document["language"] == Campaign.from_json(revised.to_json()).notice.document["language"] == "en"
    )
    plan = CampaignPlan.from_json(CampaignPlan(made).to_json())
    assert (
        plan.campaign(Notice(purpose="p", contact="c", closes=made.notice.closes)).notice.document["language"] == "en"
    )
    assert verify(made.to_json(), max_epsilon=9.0).notice.language == "en"


def test_missing_texts_are_named_by_language_and_those_of_0_and_1_are_the_pages_own() -> None:
    schema = FeatureSchema(columns=(Column(name="smoker"), Column(name="age", edges=(0, 30, 99))), classes=("a", "b"))
    whole = {"smoker": {"text": "?"}, "age": {"text": "?"}, "ill": {"text": "?", "answers": {"a": "x", "b": "y"}}}
    texts = {"de": {"purpose": "p", "questions": whole}, "fr": {"questions": {"age": {"text": "?"}}}}
    found = missing_texts(texts, schema, "ill")
    assert list(found) == ["fr"]
    assert found["fr"] == [
        "the purpose",
        "the question 'smoker'",
        "the question 'ill'",
        "the answers 'a' and 'b' to 'ill'",
    ]
    assert missing_texts({"de": {"purpose": "p", "questions": whole}}, schema, None) == {}


def test_a_notice_with_translations_can_be_a_key() -> None:
    """What is read once is kept by its campaign; the texts count for equality and not for the hash."""
    notice = CAMPAIGNS["texts and retention"].notice
    assert {notice: 1}[replace(notice)] == 1
    assert replace(notice, texts={}) != notice
