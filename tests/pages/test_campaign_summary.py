"""The page for the person who signs a campaign, and its drafts: true figures, safe texts, one sheet of paper."""

from __future__ import annotations

import math
import re
import subprocess
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from tests.support.blocked_imports import run_without
from tests.support.campaigns import campaign
from tests.support.chromium import CHROMIUM, needs_chromium
from tests.support.collection import SCHEMA, Collection
from tests.support.neighbour_series import CAPPED, CLASS, HISTOGRAM, LIST, first_document, waves_of
from veilgraph.campaign import Campaign
from veilgraph.campaign.asked_words import Exposure
from veilgraph.campaign.information_duties import DUTIES
from veilgraph.campaign.neighbours.wave import RELATIONS, series_of
from veilgraph.graph.links import LINK_WORDS
from veilgraph.pages.campaign_summary import (
    DEPLOYMENTS,
    TEMPLATES,
    Template,
    comparison,
    questions,
    render_summary,
)
from veilgraph.pages.spoken import LANGUAGES, Spoken
from veilgraph.privacy.epsilon import HistoryRelation
from veilgraph.privacy.public_columns import LINK, PublicColumn
from veilgraph.privacy.schema import FeatureSchema


def exposures_of(campaign: Campaign) -> list[Exposure]:
    return campaign.asked.words.exposures(campaign.label_name)


CAMPAIGN = Collection.ring(20).campaign
LABEL_ALONE = Collection.ring(5, schema=FeatureSchema(classes=tuple(f"c{i}" for i in range(18)))).campaign
MANY = Collection.ring(5, schema=FeatureSchema.binary(40, classes=("no", "yes"), prefix="question ")).campaign


def test_no_figure_is_below_what_the_mechanisms_reveal() -> None:
    """The guess is the posterior of a judge with even odds before: e^epsilon / (1 + e^epsilon)."""
    whole, label, features, one = exposures_of(CAMPAIGN)
    guarantee = CAMPAIGN.guarantee
    for shown, epsilon in (
        (whole, guarantee.total_user_level),
        (label, guarantee.label_user_level),
        (features, guarantee.features_user_level),
    ):
        assert shown.relation == "user level (any two records)"
        assert epsilon <= float(shown.epsilon) <= epsilon + 1.1e-4
        assert 0 <= float(shown.guess) - 100 / (1 + math.exp(-epsilon)) < 1
        assert math.exp(epsilon) <= float(shown.odds) <= 1.01 * math.exp(epsilon)
    assert one.relation == "attribute level (two records that differ in one feature)"
    assert float(one.epsilon) >= max(guarantee.attribute_levels)


def test_the_date_of_deletion_or_its_want_is_stated() -> None:
    assert "states no date on which reports are deleted" in render_summary(CAMPAIGN)
    page = render_summary(replace(CAMPAIGN, notice=replace(CAMPAIGN.notice, retention=CAMPAIGN.notice.closes)))
    assert "All reports are deleted after 2999-01-01 00:00:00 UTC" in page


def test_a_series_of_labels_says_what_all_its_rounds_reveal_together() -> None:
    schema = FeatureSchema(classes=("well", "ill"))
    series = campaign(schema, epsilon_y=1.0, rounds=6)
    whole, unchanged = exposures_of(series)
    assert (whole.part, whole.relation) == ("All 6 reports together", "user level (any two histories)")
    assert float(whole.epsilon) >= series.guarantee.total_user_level >= float(unchanged.epsilon) - 1.1e-4
    assert unchanged.relation == "two values that never change"
    assert "one report in each of 6 rounds" in render_summary(series)
    assert "once in each of 6 rounds" in render_summary(series, template="consent")


def test_a_label_alone_has_one_figure_and_names_the_size_of_its_sets() -> None:
    assert [each.part for each in exposures_of(LABEL_ALONE)] == ["The whole report"]
    (sentence,) = LABEL_ALONE.asked.words.page_methods("health")
    assert sentence.startswith("A report names 6 of 18 answers to “health”, the true one among them with a chance of")


def words_of(document: str) -> str:
    """Return the words of a page or a draft, without tags, entities and signs of Markdown."""
    return " ".join(unescape(re.sub(r"<style.*?</style>|<[^>]+>|\\\\", " ", document, flags=re.DOTALL)).split())


SERIES = campaign(
    FeatureSchema.binary(5, classes=("no", "yes")), epsilon_x=0.5, sampled=2, epsilon_y=1.0, rounds=12, values=2
)


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_series_of_features_says_what_all_its_rounds_reveal(template: Template) -> None:
    assert float(exposures_of(SERIES)[0].epsilon) >= SERIES.guarantee.total_user_level
    assert float(exposures_of(SERIES)[-1].epsilon) >= SERIES.guarantee.epsilon(HistoryRelation.UNCHANGED)
    assert [each.relation for each in exposures_of(SERIES)][-2:] == [
        "attribute level (two histories that differ in one feature)",
        "two records that never change",
    ]
    said = words_of(render_summary(SERIES, template=template))
    assert "All answers of all rounds, if none of them ever changes" in said
    if template == "page":
        assert "the same ones in every round" in said
        assert "What the reports of one person reveal at most" in said
        assert "any two records" not in said
        assert "may leave out any question, and nobody can tell, except for “label”, where it shows" in said


FIRST, ONE_ENTRY, BOTH = waves_of(HISTOGRAM, CLASS)
LISTS, CAPPED_LISTS, RANDOMIZED = waves_of(CLASS)[1], waves_of(CAPPED)[1], waves_of(LIST)[1]


@pytest.mark.parametrize(
    "wave",
    [ONE_ENTRY, BOTH, LISTS, CAPPED_LISTS, RANDOMIZED],
    ids=["entry", "both", "class", "capped", "randomized list"],
)
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_series_about_neighbours_states_every_wave_every_relation_and_the_sum(
    wave: Campaign, template: Template
) -> None:
    """No figure is below what the integers give, and a whole list that is not protected is never passed over."""
    said, asked = words_of(render_summary(wave, template=template)), series_of(wave.asked)
    terms = wave.guarantee.lists
    assert terms is not None
    everything, label, *lists, with_label = exposures_of(wave)
    assert [each.relation for each in lists] == list(RELATIONS.values())
    sums = [terms.any_lists, terms.one_entry, terms.one_relationship]
    stated = [wave.guarantee.total_user_level, wave.guarantee.label_user_level, *sums]
    for shown, epsilon in zip([everything, label, *lists], stated, strict=True):
        if math.isinf(epsilon):
            assert (shown.epsilon, shown.guess) == ("not private", "100")
        else:
            assert epsilon <= float(shown.epsilon) <= epsilon + 1.1e-4
    assert float(with_label.epsilon) >= wave.guarantee.label_user_level + terms.one_entry - 1e-12
    for each in exposures_of(wave):
        assert each.guess in said
        assert each.relation in said or (each == everything and template == "consent")
    for step, answer in zip(wave.asked.words.steps("label")[1:], asked.answers, strict=True):
        assert step.asked in said
        for each, relation in zip(step.exposures, RELATIONS, strict=True):
            assert each.epsilon == Exposure.of("", answer.list_loss.under(relation), "").epsilon
            assert template == "consent" or each.epsilon in said
    is_open = math.isinf(terms.any_lists)
    assert is_open == ("not protected" in said and "whole list" in said.lower())
    assert "cannot be taken back" in said
    assert "6 people" in said
    assert "public network" not in said
    assert not re.search(r"\brounds?\b", said)


@pytest.mark.parametrize("template", TEMPLATES)
def test_randomized_lists_claim_no_published_belief_and_no_sum(template: Template) -> None:
    said = words_of(render_summary(RANDOMIZED, template=template))
    assert "Nothing else about them is published" in said
    for claimed in ("make likely", "adds it up", "table between waves", "no later table"):
        assert claimed not in said
        assert claimed in "".join(words_of(render_summary(ONE_ENTRY, template=each)) for each in TEMPLATES)


@pytest.mark.parametrize("template", TEMPLATES)
def test_in_turns_a_person_answers_one_wave_and_the_figures_are_those_of_one(template: Template) -> None:
    *_, wave = waves_of(CLASS, CLASS, turns=4)
    said = words_of(render_summary(wave, template=template))
    assert re.search("one of 4 waves", said)
    assert "once in each wave" not in said
    assert "answers each wave once" not in said
    lists = [each for each in exposures_of(wave) if each.relation in RELATIONS.values()]
    assert [each.epsilon for each in lists] == ["2", "2", "4"]


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("asked", [CAMPAIGN, LABEL_ALONE, BOTH, RANDOMIZED], ids=["both", "label", "waves", "list"])
def test_what_contacts_answer_is_said_to_be_outside_of_every_figure(asked: Campaign, template: Template) -> None:
    """A person who had withdrawn was predicted by name with 0.9993, from what contacts had answered."""
    said = words_of(render_summary(asked, template=template))
    assert "for every person by name, also for those who do not take part or have withdrawn" in said
    assert re.search("own (reports|results) add", said)
    # The first document of a series about private neighbours asks for a label: nobody holds a network then.
    assert (asked is not LABEL_ALONE) or ("public network" not in said and "public" in said)


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_published_table_is_said_to_show_who_took_part_and_a_list_publishes_people_alone(template: Template) -> None:
    """The largest class of a row was the report itself for 269 of 269 people."""
    said = words_of(render_summary(BOTH, template=template))
    assert "sees by name who has taken part, and what was reported for them" in said
    assert "sees who withdrew in between" in said
    assert "sees by name who has taken part, and what was reported for them" in words_of(
        render_summary(FIRST, template=template)
    ), "who answers the first document is told, too"
    said = words_of(render_summary(first_document(followed_by="lists"), template=template))
    assert "Nothing else about them is published" in said
    assert "what was reported for" not in said


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_known_about_links_is_said_in_the_language_of_the_text(language: str) -> None:
    """A document names it in English; columns of the organiser are in the organiser's words."""
    links = [PublicColumn(name=each, kind=LINK) for each in LINK_WORDS.values()]
    public = (*links, PublicColumn(name="kinds of links, too"))
    known = replace(CAMPAIGN, notice=replace(CAMPAIGN.notice, public=public))
    for template in ("page", "consent"):
        said = unescape(render_summary(known, template=template, language=language))
        assert all(Spoken(known, language).say(f"links.{name}") in said for name in LINK_WORDS)
        assert [said.count(each) for each in LINK_WORDS.values()] == [0, 0, 1]


def test_questions_are_shown_as_people_see_them() -> None:
    first, *others = questions(replace(CAMPAIGN, asked=replace(CAMPAIGN.asked, schema=SCHEMA)))
    assert (first.kind, first.text, first.answers) == ("label", "health", ("well", "ill"))
    assert [each.answers for each in others][:2] == [("0 to below 30", "30 to below 50", "50 to 120"), ("no", "yes")]
    assert all(each.answers == ("no", "yes") for each in questions(MANY))


def test_the_campaigns_own_texts_are_used_in_the_language_that_is_asked_for() -> None:
    words = {"purpose": "Wissen, wem zu helfen ist", "questions": {"health": {"text": "Geht es Ihnen gut?"}}}
    answers = {"questions": {"health": {"answers": {"well": "fine"}}}}
    campaign = CAMPAIGN.revise(texts={"de": words, "en": answers})
    german, english = (render_summary(campaign, language=tag) for tag in ("de", "en"))
    assert "Wissen, wem zu helfen ist" in german
    assert "Geht es Ihnen gut?" in german
    assert CAMPAIGN.notice.purpose in english
    assert "fine, ill" in english


def test_the_campaign_stands_among_the_deployments_by_its_epsilon() -> None:
    rows = comparison(CAMPAIGN)
    assert [row["value"] for row in rows] == sorted(row["value"] for row in rows)
    assert [row["name"] for row in rows if row["own"]] == ["This campaign"]
    assert len(rows) == len(DEPLOYMENTS) + 1
    assert all(each.unit and each.source for each in DEPLOYMENTS)
    own = [row for row in comparison(BOTH) if row["own"]]
    assert [row["epsilon"] for row in own] == ["5", "not private"]
    assert ["one entry" in row["unit"] for row in own] == [True, False]


@pytest.mark.parametrize("campaign", [CAMPAIGN, LABEL_ALONE, MANY], ids=["both", "label", "many"])
@pytest.mark.parametrize("template", TEMPLATES)
def test_every_document_names_purpose_contact_questions_and_the_campaign(
    template: Template, campaign: Campaign
) -> None:
    text = render_summary(campaign, template=template)
    for part in (campaign.notice.purpose, campaign.notice.contact, campaign.id, exposures_of(campaign)[0].guess):
        assert part in text
    assert all(question.text in text for question in questions(campaign))


def test_texts_of_a_campaign_are_shown_and_never_obeyed() -> None:
    hostile = CAMPAIGN.revise(purpose="<script>alert(1)</script> [link](http://x) **bold** | cell")
    page = render_summary(hostile)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    for template in TEMPLATES[1:]:
        draft = render_summary(hostile, template=template)
        assert r"\<script\>" in draft
        assert "[link](" not in draft
        assert r"\*\*bold\*\* \| cell" in draft


def test_the_summary_needs_neither_torch_nor_matplotlib(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(CAMPAIGN.to_json())
    code = "from veilgraph.cli import main\nsys.exit(main(sys.argv[1:]))"
    words = ["review", str(tmp_path / "c.json"), "--out", str(tmp_path / "signed")]
    result = run_without({"torch", "matplotlib", "sklearn"}, code, *words)
    assert result.returncode == 0, result.stderr
    (page,) = (tmp_path / "signed").glob("notice-*/summary.en.html")
    assert page.read_text(encoding="utf-8") == render_summary(CAMPAIGN)


@needs_chromium
@pytest.mark.parametrize(
    ("campaign", "pages"),
    [(CAMPAIGN, 1), (LABEL_ALONE, 1), (MANY, 3), (BOTH, 2)],
    ids=["both", "label", "many", "neighbours"],
)
def test_the_summary_fits_on_one_sheet_of_a4_and_many_questions_follow_it(
    campaign: Campaign, pages: int, tmp_path: Path
) -> None:
    (tmp_path / "c.html").write_text(render_summary(campaign), encoding="utf-8")
    assert CHROMIUM is not None
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"]
    printed = [f"--print-to-pdf={tmp_path}/c.pdf", (tmp_path / "c.html").as_uri()]
    subprocess.run([CHROMIUM, *options, *printed], check=True, capture_output=True, timeout=60)
    pdf = (tmp_path / "c.pdf").read_bytes()
    assert len(re.findall(rb"/Type /Page\b(?!s)", pdf)) <= pages
    # A4 is 210 x 297 mm: 595 x 842 points.
    width, height = map(float, re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", pdf)[0])
    assert (width, height) == pytest.approx((595, 842), abs=1.5)


def test_both_drafts_say_what_the_notice_tells_and_leave_blanks_for_the_rest() -> None:
    told = {key: f"said of {key.replace('_', ' ')}" for key in DUTIES}
    for template in TEMPLATES[1:]:
        whole = words_of(render_summary(CAMPAIGN.revise(texts={"en": told}), template=template))
        assert [text for text in told.values() if text not in whole] == []
        empty = words_of(render_summary(CAMPAIGN, template=template))
        assert empty.count("[") > whole.count("[")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("campaign", [CAMPAIGN, LABEL_ALONE], ids=["both", "label"])
def test_a_consent_text_says_the_same_in_the_language_of_the_people(campaign: Campaign, language: str) -> None:
    english = render_summary(campaign, template="consent")
    text = render_summary(campaign, template="consent", language=language)
    assert text != english
    assert re.findall(r"^## ", text, re.MULTILINE) == re.findall(r"^## ", english, re.MULTILINE)
    (guess,) = set(re.findall(r"right in (\d+) of 100 at most", english))
    assert re.search(rf"(?<!\d){guess}\D+100", text)
    assert campaign.id in text
    assert not re.search(r"{[{%]", text)
    told = {duty: f"told {duty}" for duty in DUTIES}
    assert len(re.findall(r"^- ", text, re.MULTILINE)) == len(re.findall(r"^- ", english, re.MULTILINE)) - len(
        campaign.asked.words.exposures("")[1:]
    )
    said = replace(campaign, notice=replace(campaign.notice, texts={language: told}))
    shown = render_summary(said, template="consent", language=language)
    assert all(words.replace("_", r"\_") in shown for words in told.values())


IN_TURNS = waves_of(CLASS, CLASS, turns=4)[-1]
KINDS = {
    "both": CAMPAIGN,
    "label": LABEL_ALONE,
    "features": campaign(FeatureSchema.binary(3, classes=("no", "yes")), epsilon_x=0.5, sampled=1),
    "rounds": SERIES,
    "first": FIRST,
    "entry": ONE_ENTRY,
    "waves": BOTH,
    "list": RANDOMIZED,
    "turns": IN_TURNS,
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_summary_and_consent_say_every_figure_in_the_language_of_the_people(kind: str, language: str) -> None:
    """A part or a relation that has no words in a language fails; none is said in English."""
    asked = KINDS[kind]
    said, exposures = Spoken(asked, language), exposures_of(asked)
    page, consent = (words_of(render_summary(asked, template=each, language=language)) for each in ("page", "consent"))
    for each in exposures:
        assert said.relation(each) in page
        assert said.part(each) in page
        assert said.epsilon(each) in page
        assert each.part not in page
        assert each.relation not in page
    first = (
        exposures[0].guess if kind in ("both", "label", "features", "rounds", "first") else said.chance(exposures[0])
    )
    assert first in consent
    for words in said.follows:
        assert words_of(words) in page
        assert words_of(words) in consent, "what is published is told before people answer"
    assert not re.search(r"[{}]", page + consent)


def test_a_consent_text_about_waves_names_what_is_not_protected_in_every_language() -> None:
    for language in LANGUAGES:
        said = Spoken(ONE_ENTRY, language)
        consent = words_of(render_summary(ONE_ENTRY, template="consent", language=language))
        for key in ("weak.contacts", "guarantee.others", "details.unprotected.contacts", "guarantee.published"):
            assert words_of(said.say(key)) in consent, (language, key)
        assert said.say("rounds.turns", count=4) in words_of(
            render_summary(IN_TURNS, template="consent", language=language)
        )
