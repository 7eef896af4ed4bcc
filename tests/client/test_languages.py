"""The participant's page in five languages: complete, without jargon, chosen by the browser, accessible in each."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.axe import needs_axe, violations
from tests.support.browser_module import BROWSER
from tests.support.chromium import Page, needs_chromium
from tests.support.participant_page import CAMPAIGN, CHECK, FILL, INVITATION, SCHEMA, SUBMIT, ready, serving
from veilgraph.collector.reports import Standing
from veilgraph.graph.links import LINK_WORDS
from veilgraph.privacy.public_columns import LINK, PublicColumn

TABLES: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted((BROWSER / "languages").iterdir())
}
PAGE = (
    "participant.js",
    "about.js",
    "form.js",
    "guarantee.js",
    "review.js",
    "problems.js",
    "contacts.js",
    "names.js",
    "figures.js",
    "delivery.js",
)
# Words of the field, in the five languages.
JARGON = re.compile(
    r"epsilon|épsilon|إبسيلون|إبسلون|ε|\btokens?\b|\bjetons?\b|\bfichas?\b|الرمز المميز|randomi|aleatoriz|aléatoiris"
    r"|التوزيع العشوائي|differenti|diferencial|différenti|تفاضلي|perturb|\bnodes?\b|\bknoten\b|\bnodos?\b|\bnœuds?\b"
    r"|schema|mechanism|collector|campaign|\bbudget\b|presupuesto|likelihood|\blabels?\b|\bfeatures?\b",
    flags=re.IGNORECASE,
)


def forms(entry: str | dict[str, str]) -> dict[str, str]:
    """Return the plural forms of a phrase, or its only form."""
    return {"other": entry} if isinstance(entry, str) else entry


def placeholders(words: str) -> list[str]:
    return sorted(re.findall(r"\{(\w+)\}", words))


def test_the_page_speaks_five_languages() -> None:
    assert set(TABLES) == {"ar", "de", "en", "es", "fr"}
    offered = re.search(r"LANGUAGES = \{(.*?)\};", (BROWSER / "wording.js").read_text(encoding="utf-8"))
    assert offered is not None
    assert set(re.findall(r"(\w+):", offered[1])) == set(TABLES)


@pytest.mark.parametrize("tag", TABLES)
def test_every_language_has_every_phrase_with_the_same_placeholders(tag: str) -> None:
    assert list(TABLES[tag]) == list(TABLES["en"])
    for key, entry in TABLES[tag].items():
        expected = placeholders(forms(TABLES["en"][key])["other"])
        for words in forms(entry).values():
            assert placeholders(words) == expected, key
            assert words == words.strip() != "", key


# The categories of CLDR for whole numbers below a million.
PLURALS = {
    "ar": {"zero", "one", "two", "few", "many", "other"},
    "de": {"one", "other"},
    "en": {"one", "other"},
    "es": {"one", "many", "other"},
    "fr": {"one", "many", "other"},
}


def test_a_document_names_what_is_known_about_links_as_the_page_does() -> None:
    assert {TABLES["en"][f"links.{name}"] for name in LINK_WORDS} == set(LINK_WORDS.values())


@needs_chromium
def test_what_is_known_about_links_is_said_in_the_language_of_the_page(page: Page) -> None:
    links = tuple(PublicColumn(name=each, kind=LINK) for each in LINK_WORDS.values())
    known = replace(CAMPAIGN, notice=replace(CAMPAIGN.notice, public=(*links, PublicColumn(name="village"))))
    with serving(known.to_json()) as collector:
        prefer(page, "de")
        ready(page, collector.url)
        said = page.run("document.getElementById('public').textContent")
        assert all(TABLES["de"][f"links.{name}"] in said for name in LINK_WORDS)
        assert "village" in said
        assert not any(each in said for each in LINK_WORDS.values())


@pytest.mark.parametrize("tag", TABLES)
def test_every_plural_has_the_forms_of_its_language(tag: str) -> None:
    for key, entry in TABLES[tag].items():
        assert isinstance(entry, str) or set(entry) == PLURALS[tag], key


@pytest.mark.parametrize("tag", TABLES)
def test_no_phrase_has_jargon(tag: str) -> None:
    for key, entry in TABLES[tag].items():
        for words in forms(entry).values():
            assert not (found := JARGON.search(words)), (key, found)


@pytest.mark.parametrize("tag", sorted(set(TABLES) - {"en"}))
def test_every_phrase_is_translated(tag: str) -> None:
    """Few short words are the same in two languages."""
    same = {key for key, entry in TABLES[tag].items() if entry == TABLES["en"][key] and len(str(entry)) > 20}
    assert not same


def test_every_phrase_is_used_and_every_used_phrase_exists() -> None:
    used = set(re.findall(r'data-text="([^"]+)"', (BROWSER / "participant.html").read_text(encoding="utf-8")))
    source = "".join((BROWSER / name).read_text(encoding="utf-8") for name in PAGE)
    named = set(re.findall(r'"([a-z]+(?:\.[a-z]+)*)"', source))
    assert used <= set(TABLES["en"])
    assert {key for key in named if key.split(".")[0] in {"problem", "review", "done", "level"} and "." in key} <= set(
        TABLES["en"]
    )
    composed = {
        "review.some.before",
        "review.chosen.before",
        "review.any",
        "review.none",
        "organisers.retention",
        "organisers.broken",
    } | {f"standing.{word.value}" for word in Standing}
    assert set(TABLES["en"]) - used - named <= composed


def test_the_page_has_words_for_every_error_of_the_modules() -> None:
    """An error that the page does not know is one about an answer, whose words cannot be in another language."""
    told = (BROWSER / "problems.js").read_text(encoding="utf-8")
    for name in ("veilgraph.js", "device.js", "neighbours.js"):
        source = (BROWSER / name).read_text(encoding="utf-8")
        sentences = set(re.findall(r'"([A-Z][^"`]{8,}\.)"', source))
        about_answers = {
            "The record cannot be used.",
            "The record is empty.",
            "Your limit must be above 0.",
            "The list of neighbours cannot be used.",
            "The list of neighbours holds something that is not a name.",
        }
        missing = {sentence for sentence in sentences - about_answers if f'"{sentence}"' not in told}
        assert not missing, name


def test_the_page_without_its_script_speaks_every_language() -> None:
    page = (BROWSER / "participant.html").read_text(encoding="utf-8")
    without = page[page.index('id="incomplete"') : page.index('id="top-problem"')]
    assert set(re.findall(r'lang="(\w+)"', without)) == set(TABLES)
    assert f'<h1 id="title">{TABLES["en"]["title"]}</h1>' in page


def prefer(page: Page, *tags: str) -> None:
    """Make a browser that asks for languages, the dearest first."""
    page.call("Emulation.setUserAgentOverride", userAgent="a test", acceptLanguage=",".join(tags))


def words(page: Page, name: str) -> str:
    return str(page.run(f"document.getElementById('{name}').textContent"))


def switch(page: Page, tag: str) -> None:
    page.run(f"language.value = '{tag}'; language.dispatchEvent(new Event('change'))")
    page.until(f"document.documentElement.lang === '{tag}' && title.textContent === {json.dumps(TABLES[tag]['title'])}")


@needs_chromium
@pytest.mark.parametrize(
    ("tags", "spoken"),
    [(["de-AT", "en"], "de"), (["it", "pt-BR", "fr-CA", "en"], "fr"), (["ja", "zh"], "en"), (["ar-EG"], "ar")],
)
def test_the_browser_chooses_the_language(page: Page, tags: list[str], spoken: str) -> None:
    with serving(CAMPAIGN.to_json()) as collector:
        prefer(page, *tags)
        ready(page, collector.url)
        assert page.run("[document.documentElement.lang, document.documentElement.dir, language.value]") == [
            spoken,
            "rtl" if spoken == "ar" else "ltr",
            spoken,
        ]
        assert words(page, "title") == TABLES[spoken]["title"]
        assert page.complaints == []


@needs_chromium
def test_the_person_switches_the_language_and_the_page_remembers_it_and_the_answers(page: Page) -> None:
    with serving(CAMPAIGN.to_json()) as collector:
        prefer(page, "en")
        ready(page, collector.url + INVITATION)
        page.run(FILL)
        switch(page, "es")
        assert page.run("[q0.value, q2.value, document.querySelector('input[name=q3]:checked').value]") == [
            "41.25",
            "4",
            "1",
        ]
        page.run(SUBMIT)
        page.until("!review.hidden")
        assert "41,25" not in page.run("raw.textContent")
        switch(page, "ar")
        assert page.run("document.querySelector('#review thead').textContent.includes('السؤال')")
        ready(page, collector.url + INVITATION)
        assert page.run("document.documentElement.lang") == "ar"


@needs_chromium
def test_numbers_and_times_are_written_as_the_locale_does(page: Page) -> None:
    with serving(CAMPAIGN.to_json()) as collector:
        prefer(page, "de-DE")
        page.call("Emulation.setTimezoneOverride", timezoneId="Europe/Berlin")
        ready(page, collector.url)
        assert "4,49-mal so wahrscheinlich" in words(page, "exact")
        assert words(page, "cost") == "Kosten dieser Umfrage: 1,5."
        assert words(page, "open") == "Offen bis 1. Januar 2100 um 01:00 MEZ."
        prefer(page, "ar-EG")
        ready(page, collector.url)
        assert "٨٢ من ١٠٠" in words(page, "levels")


ASKED = {
    "de": {
        "purpose": "Um zu lernen",
        "contact": "datenschutz@example.org",
        "questions": {
            "age": {"text": "Wie alt sind Sie?", "help": "In Jahren."},
            "district": {"answers": {"Harbour": "Hafen", "North": "Norden"}},
            "health": {"text": "Wie geht es Ihnen?", "help": "Heute.", "answers": {"well": "gut", "ill": "schlecht"}},
        },
    },
    "ar": {"questions": {"health": {"text": "كيف حالك؟", "answers": {"well": "بخير", "ill": "مريض"}}}},
}


@needs_chromium
def test_people_whose_language_has_no_texts_see_the_first_language_of_the_campaign(page: Page) -> None:
    texts = {"en": {"questions": {"health": {"text": "How are you?"}}}, "ar": ASKED["ar"]}
    made = replace(CAMPAIGN, notice=replace(CAMPAIGN.notice, texts=texts))
    with serving(made.to_json()) as collector:
        for tags, shown in ((["de"], "How are you?"), (["de", "ar"], "كيف حالك؟"), (["ar-EG"], "كيف حالك؟")):
            prefer(page, *tags)
            ready(page, collector.url)
            assert shown in words(page, "meaning"), tags


@needs_chromium
def test_the_servers_clock_decides_whether_the_survey_is_open_and_the_page_says_so(page: Page) -> None:
    ended = CAMPAIGN.revise(closes=datetime(2020, 1, 1, tzinfo=UTC)).to_json()
    with serving(ended) as collector:
        prefer(page, "en")
        page.call("Emulation.setTimezoneOverride", timezoneId="UTC")
        collector.date = "Tue, 31 Dec 2019 10:00:00 GMT"
        ready(page, collector.url + INVITATION)
        assert "This page goes by the server's: December 31, 2019" in words(page, "clock")
        assert page.run("[clock.hidden, form.hidden]") == [False, False]
        page.run(FILL + SUBMIT)
        page.until("!review.hidden")
        collector.date = None
        ready(page, collector.url + INVITATION)
        assert page.run("[clock.hidden, form.hidden]") == [True, True]
        assert words(page, "title") == TABLES["en"]["title.closed"]


@needs_chromium
def test_questions_help_and_answers_are_in_the_words_of_the_notice(page: Page) -> None:
    retention = datetime(2101, 1, 31, 22, 59, 59, tzinfo=UTC)
    made = replace(CAMPAIGN, notice=replace(CAMPAIGN.notice, texts=ASKED, retention=retention))
    with serving(made.to_json()) as collector:
        prefer(page, "de")
        page.call("Emulation.setTimezoneOverride", timezoneId="Europe/Berlin")
        ready(page, collector.url + INVITATION, width=390)
        assert words(page, "purpose") == "Um zu lernen"
        assert "datenschutz@example.org" in words(page, "contact")
        promised = "Sie versprechen: Das Gesendete wird nach diesem Zeitpunkt gelöscht: 31. Januar 2101 um 23:59 MEZ."
        assert words(page, "retention") == promised
        assert page.run("document.querySelector('label[for=q0] bdi').textContent") == "Wie alt sind Sie?"
        assert page.run("document.querySelector('label[for=q2]').textContent") == "district"
        assert page.run("[...q2.options].map(option => option.textContent)") == [
            "bitte wählen",
            "Norden",
            *SCHEMA.columns[2].values[1:4],
            "Hafen",
            *SCHEMA.columns[2].values[5:],
            "keine Angabe",
        ]
        described = "document.getElementById(q0.getAttribute('aria-describedby')).textContent"
        assert page.run(described) == "In Jahren."
        assert "Wie geht es Ihnen?" in words(page, "meaning")
        page.run(FILL + SUBMIT)
        page.until("!review.hidden")
        rows = page.run("[...document.querySelectorAll('#rows tr')].map(r => [...r.children].map(c => c.textContent))")
        assert [row[:2] for row in rows][2:] == [["district", "Hafen"], ["Wie geht es Ihnen?", "schlecht"]]
        assert rows[3][2] in {"gut", "schlecht"}
        drawn = json.loads(page.run("raw.textContent"))
        switch(page, "ar")
        assert "كيف حالك؟" in page.run("rows.textContent")
        assert words(page, "purpose") == "To learn", "a language without a purpose has the campaign's own"
        assert json.loads(page.run("raw.textContent")) == drawn
        switch(page, "fr")
        assert "كيف حالك؟" not in page.run("rows.textContent")
        assert "Wie geht es Ihnen?" in page.run("rows.textContent"), "the language that the browser prefers"
        assert page.complaints == []


@needs_chromium
@needs_axe
def test_axe_finds_a_barrier_where_there_is_one(page: Page) -> None:
    with serving(CAMPAIGN.to_json()) as collector:
        ready(page, collector.url)
        page.run("document.querySelector('label[for=node]').remove()")
        assert [finding.split(":")[0] for finding in violations(page)] == ["label"]


@needs_chromium
@needs_axe
@pytest.mark.parametrize("tag", TABLES)
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_no_barrier_in_any_language_on_a_phone_or_on_paper(page: Page, tag: str, dark: bool) -> None:

    def check(state: str) -> None:
        assert page.run("document.documentElement.scrollWidth") == 390, f"{state} scrolls sideways"
        page.run("for (const closed of document.querySelectorAll('details')) closed.open = true")
        assert violations(page) == [], state
        assert page.run("document.documentElement.scrollWidth") == 390, f"{state} scrolls sideways"
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.call("Emulation.setEmulatedMedia", media="print", features=[scheme])
        assert violations(page) == [], f"{state} on paper"
        page.call("Emulation.setEmulatedMedia", media="", features=[scheme])

    with serving(CAMPAIGN.to_json()) as collector:
        collector.codes = [401]
        prefer(page, tag)
        ready(page, collector.url, width=390, dark=dark)
        check("the form")
        page.run("node.value = 'u1'; code.value = 'wrong';" + FILL + CHECK)
        page.until("!checking.hidden")
        check("the check")
        page.run("document.getElementById('draw').click()")
        page.until("!review.hidden")
        check("the review")
        page.run("send.click()")
        page.until("problem.textContent")
        check("a refusal")
        page.run("code.value = 'right'; send.click()")
        page.until("!done.hidden")
        check("the end")
        ready(page, collector.url + "#node=u1&token=right", width=390, dark=dark)
        check("a later visit")
        page.run("document.querySelector('#done .someone').click()")
        check("a second person")
