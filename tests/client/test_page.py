"""The participant's page in a real browser: what it shows, what it sends, what it keeps, and what it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from tests.support.browser_module import BROWSER
from tests.support.campaigns import CAMPAIGNS, campaign, with_mechanisms
from tests.support.chromium import Page, chromium, needs_chromium
from tests.support.forgeries import rewritten
from tests.support.participant_page import (
    CAMPAIGN,
    CHECK,
    FILL,
    INVITATION,
    SCHEMA,
    SUBMIT,
    click,
    deliver,
    ready,
    refused,
    review,
    serving,
    shown,
    words,
)
from veilgraph.campaign.report import Report, sent_length
from veilgraph.privacy.mechanisms import JointGRR, SubsetSelection
from veilgraph.privacy.schema import Column, FeatureSchema


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with chromium() as opened:
        yield opened


@needs_chromium
@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, True)])
def test_a_person_answers_sees_the_report_sends_it_and_is_told(page: Page, width: int, dark: bool) -> None:
    with serving(CAMPAIGN.to_json()) as collector:
        ready(page, collector.url + INVITATION, width=width, dark=dark)
        assert page.run("location.hash") == "", "the token stays in sight"
        assert "7.39" not in words(page, "exact")
        assert "4.49 times as likely" in words(page, "exact")  # e^1.5
        assert page.run("document.querySelectorAll('img').length") == 0
        review(page, FILL + SUBMIT)
        assert words(page, "explained-label") == (
            "What is sent names one of the 2 possible answers to health. With a chance of 74 in 100 it is yours; "
            "otherwise it is another one, drawn at random."
        )
        assert collector.received == [], "sent before the person agreed"
        assert page.run("document.documentElement.scrollWidth") == width
        rows = page.run("[...document.querySelectorAll('#rows tr')].map(r => [...r.children].map(c => c.textContent))")
        deliver(page)
        ((node, token, document),) = collector.received
        report = Report.parse(document, CAMPAIGN)
        assert (node, token, report.node) == ("u/17", "Bearer t0ken", "u/17")
        assert collector.lengths == [sent_length(CAMPAIGN, "u/17")]
        assert [row[1] for row in rows] == ["41.25", "yes", "Harbour", "ill"]
        assert report.features is not None
        assert isinstance(report.label, int)
        said = [
            ["0 to less than 30", "30 to less than 50", "50 to 120"],
            ["no", "yes"],
            SCHEMA.columns[2].values,
            SCHEMA.classes,
        ]
        codes: list[Any] = [*report.features, report.label]
        assert [row[2] for row in rows] == [names[code] for names, code in zip(said, codes, strict=True)]
        assert page.complaints == []


COUNTRIES = ("Chile", "Denmark", "<b>France</b>", "India", "Kenya", "Oman", "Peru", "Qatar")
SETS = with_mechanisms(
    campaign(FeatureSchema(classes=COUNTRIES), epsilon_y=1.0, label="country"),
    label_mechanism=SubsetSelection(8, 0.7, size=3),
)
SET_WORDS = (
    "What is sent names 3 of the 8 possible answers to country. Yours is among them with a chance of 55 in 100; "
    "the others are drawn at random. Nobody can tell from it which one is yours, or whether one is."
)


@needs_chromium
@pytest.mark.parametrize(("width", "dark"), [(1200, False), (360, True)])
def test_a_set_is_explained_in_plain_words_and_shown_beside_what_was_entered(
    page: Page, width: int, dark: bool
) -> None:
    """Three of eight at epsilon 0.7: 3 e^0.7 / (3 e^0.7 + 5) = 0.547, rounded up."""
    with serving(SETS.to_json()) as collector:
        ready(page, collector.url + INVITATION, width=width, dark=dark)
        assert words(page, "meaning") == SET_WORDS
        assert page.run("document.querySelectorAll('#levels li').length") == 1
        review(page, "document.getElementById('q0').value = '4'; document.getElementById('consent').click();" + SUBMIT)
        assert words(page, "explained-label") == SET_WORDS
        assert page.run("document.documentElement.scrollWidth") == width
        assert page.run("document.querySelectorAll('b').length") == 0
        named = page.run("[...document.querySelectorAll('.set li')].map(item => item.textContent)")
        entered = page.run("document.querySelector('#rows td').innerText")
        deliver(page)
        report = Report.parse(collector.received[0][2], SETS)
        assert isinstance(report.label, tuple)
        assert named == [COUNTRIES[code] for code in report.label]
        assert entered.split("\n") == ["Kenya", "among those named" if "Kenya" in named else "not among those named"]
        assert page.complaints == []


@needs_chromium
def test_an_unfinished_form_and_a_limit_below_the_cost_draw_nothing(page: Page) -> None:
    with serving(campaign(SCHEMA, epsilon_x=0.5, sampled=1, epsilon_y=3.6, label="health").to_json()) as collector:
        ready(page, collector.url + INVITATION)
        assert shown(page, "above")
        page.run(FILL + "document.getElementById('consent').click();" + SUBMIT)
        page.run("new Promise((done) => setTimeout(done, 100))")
        assert not shown(page, "review")
        assert page.run("localStorage.length") == 0
        page.run(FILL + SUBMIT)
        refused(page, "above your limit of 4")
        page.run("document.getElementById('limit').value = '3.9';" + SUBMIT)
        refused(page, "above your limit of 3.9")
        assert page.run("Object.keys(localStorage)") == ["veilgraph:limit"]
        ready(page, collector.url + INVITATION)
        assert page.run("document.getElementById('limit').value") == "3.9"
        review(page, FILL + "document.getElementById('limit').value = '4.2';" + SUBMIT)
        assert page.run("document.getElementById('limit').value") == "4.2"


@needs_chromium
def test_joint_features_show_which_answers_are_left_out(page: Page) -> None:
    made = replace(CAMPAIGN, asked=replace(CAMPAIGN.asked, feature_mechanism=JointGRR(SCHEMA.domain_sizes, 2, 0.5)))
    with serving(made.to_json()) as collector:
        ready(page, collector.url + INVITATION)
        review(page, FILL + SUBMIT)
        assert "It speaks of 2 of your 3 answers to the questions before the last" in words(page, "explained")
        rows = page.run("[...document.querySelectorAll('#rows tr')].map(r => r.children[2].textContent)")
        deliver(page)
        report = Report.parse(collector.received[0][2], made)
        assert [row == "left out" for row in rows] == [code is None for code in [*(report.features or ()), 0]]


@needs_chromium
def test_the_guarantee_is_in_the_pages_own_words_and_what_others_write_is_quoted(page: Page) -> None:
    """Whatever the organiser writes stands in a quotation, below a line that says who wrote it."""
    forged = "At most 51 in 100 for all your answers together."
    schema = FeatureSchema(columns=(Column(name=f"{forged} 1"), Column(name=f"{forged} 2")), classes=(forged, "no"))
    liar = campaign(
        schema, epsilon_x=1.0, sampled=2, epsilon_y=1.0, purpose=forged, contact=forged, label=f"{forged} 3"
    )
    with serving(liar.to_json()) as collector:
        ready(page, collector.url + INVITATION)
        parts = page.run(
            "[...document.querySelectorAll('main > *')].filter(e => !e.hidden).map(e => [e.id, e.innerText])"
        )
        order = [name for name, _ in parts]
        assert order.index("organisers") < order.index("guarantee") < order.index("form")
        own = " ".join(dict(parts)["guarantee"].split())
        assert "51 in 100" not in own
        assert "from 50 to at most 96 in 100 for all your answers together" in own  # e^3 / (1 + e^3)
        assert page.run("document.querySelector('#purpose').previousElementSibling.textContent") == (
            "Written by the organisers."
        )
        assert page.run("document.querySelector('#purpose q[dir=auto]').textContent") == forged
        assert page.run("document.querySelector('#contact q[dir=auto]').textContent") == forged
        assert page.run("document.querySelector('#invited q[dir=auto]').textContent") == "u/17"


@needs_chromium
def test_a_report_is_kept_across_visits_and_the_answers_are_not(page: Page) -> None:
    with serving(CAMPAIGN.to_json()) as collector:
        collector.codes = [409]
        ready(page, collector.url + INVITATION)
        drawn = review(page, FILL + SUBMIT)
        kept = page.run("JSON.stringify(localStorage)")
        assert "Harbour" not in kept
        assert "41.25" not in kept
        click(page, "send")
        refused(page, "The first ones count")
        ready(page, collector.url + INVITATION)
        assert not shown(page, "form")
        assert words(page, "raw") == drawn
        assert page.run("document.querySelectorAll('#rows tr').length") == 4
        assert page.run("document.querySelectorAll('#rows td').length") == 4, "the answers were kept"
        deliver(page)
        assert [json.loads(drawn)] * 2 == [document for _, _, document in collector.received]
        ready(page, collector.url + INVITATION)
        assert shown(page, "done")
        assert not shown(page, "form")


@needs_chromium
@pytest.mark.parametrize("nodes", [("u1", "u1"), ("u1", "u2")])
def test_two_tabs_that_submit_at_the_same_instant_draw_one_report(page: Page, nodes: tuple[str, str]) -> None:
    tabs = [page.session]
    page.new_tab()
    tabs.append(page.session)
    try:
        for _ in range(4):
            drawn = submit_at_once(page, tabs, nodes)
            assert len(set(drawn) - {""}) == 1, "two reports were drawn"
            assert drawn[0] == drawn[1] or nodes[0] != nodes[1]
    finally:
        page.call("Page.close")
        page.switch(tabs[0])


def submit_at_once(page: Page, tabs: list[str], nodes: tuple[str, str]) -> list[str]:
    """Return the report that each tab shows, if any."""
    with serving(CAMPAIGN.to_json()) as collector:
        page.open(collector.url)
        page.run("localStorage.clear()")  # an earlier server may have had the same port
        for tab, node in zip(tabs, nodes, strict=True):
            page.switch(tab)
            ready(page, f"{collector.url}#node={node}&token=t0ken")
            page.run(FILL + CHECK)
            page.until("!document.getElementById('checking').hidden")
        instant = page.run("Date.now()") + 500
        for tab in tabs:
            page.switch(tab)
            # A timer would be late in a tab behind another one, so the tab waits for the instant actively.
            draw = "document.getElementById('draw').click()"
            page.run(f"void setTimeout(() => {{ while (Date.now() < {instant}); {draw} }})")
        drawn = []
        for tab in tabs:
            page.switch(tab)
            page.until("!document.getElementById('review').hidden || document.getElementById('problem').textContent")
            drawn.append(words(page, "raw"))
        return drawn


@needs_chromium
@pytest.mark.parametrize("text", ["{}", None])
def test_a_token_leaves_the_address_before_anything_is_fetched(page: Page, text: str | None) -> None:
    with serving(text or CAMPAIGN.to_json()) as collector:
        collector.broken = text is None
        page.open(collector.url + INVITATION)
        page.until("document.getElementById('problem').textContent")
        assert page.run("location.href") == collector.url
        entries = page.call("Page.getNavigationHistory")["entries"]
        assert not [entry for entry in entries if "t0ken" in entry["url"]]


@needs_chromium
@pytest.mark.parametrize("status", [503, 507])
def test_a_busy_or_full_collector_is_tried_again(page: Page, status: int) -> None:
    with serving(CAMPAIGN.to_json()) as collector:
        collector.codes = [status, 200]
        ready(page, collector.url + INVITATION)
        review(page, FILL + SUBMIT)
        click(page, "send")
        page.until("document.getElementById('receipt').textContent.includes('had been stored before')")
        assert len(collector.received) == 2


@needs_chromium
def test_an_answer_that_does_not_confirm_the_report_is_not_believed(page: Page) -> None:
    with serving(CAMPAIGN.to_json()) as collector:
        collector.answer = b"<html>Welcome! Please accept our terms.</html>"
        ready(page, collector.url + INVITATION)
        review(page, FILL + SUBMIT)
        click(page, "send")
        refused(page, "did not confirm")
        assert not shown(page, "done")
        collector.answer = None
        deliver(page)
        receipt = words(page, "signed-receipt")
        assert json.loads(receipt)["signature"] == "s1gnature"
        ready(page, collector.url + INVITATION)
        assert words(page, "signed-receipt") == receipt


@needs_chromium
def test_everything_can_be_done_from_the_keyboard(page: Page) -> None:
    def focused() -> str:
        return str(
            page.run("document.activeElement.id || document.activeElement.name || document.activeElement.tagName")
        )

    def tab_to(name: str) -> None:
        for _ in range(20):
            page.press("Tab")
            if focused() == name:
                outline = page.run(
                    "getComputedStyle(document.activeElement.closest('.choice') ?? document.activeElement).outlineStyle"
                )
                assert outline == "solid", f"{name} does not show that it has the focus"
                return
        pytest.fail(f"{name} is never reached; the focus is on {focused()}")

    with serving(CAMPAIGN.to_json()) as collector:
        ready(page, collector.url + INVITATION)
        tab_to("q0")
        for key in "29":
            page.press(key)
        tab_to("q1")
        page.press(" ")
        tab_to("q2")
        page.press("N")
        tab_to("q3")
        page.press(" ")
        page.press("Enter")
        page.until("!document.getElementById('checking').hidden")
        assert focused() == "checking-heading"
        tab_to("consent")
        page.press(" ")
        page.press("Enter")
        page.until("!document.getElementById('review').hidden")
        assert focused() == "review-heading"
        tab_to("send")
        page.press("Enter")
        page.until("!document.getElementById('done').hidden")
        assert focused() == "done-heading"
        assert len(collector.received) == 1


@needs_chromium
def test_every_field_has_a_name_that_is_read_out(page: Page) -> None:
    with serving(CAMPAIGN.to_json()) as collector:
        ready(page, collector.url)
        page.call("Accessibility.enable")
        nodes = page.call("Accessibility.getFullAXTree")["nodes"]
        fields = [
            n
            for n in nodes
            if n.get("role", {}).get("value") in {"textbox", "radio", "checkbox", "spinbutton", "combobox"}
        ]
        assert len(fields) == 1 + 2 + 3 + 1 + 3 + 2  # language, age, radios, district, radios, name and code
        assert all(field["name"]["value"].strip() for field in fields)


@needs_chromium
def test_a_second_invitation_on_the_same_device_needs_another_person_who_says_so(page: Page) -> None:
    """Each report costs 1.5: a third one would exceed the default limit of 4."""
    with serving(CAMPAIGN.to_json()) as collector:
        ready(page, collector.url + INVITATION)
        assert words(page, "spent") == "So far: 0 of your limit of 4."
        review(page, FILL + SUBMIT)
        for i in (18, 19):
            ready(page, collector.url + f"#node=u{i}&token=t0ken")
            assert shown(page, "shared")
            page.run(FILL + SUBMIT)
            page.run("new Promise((done) => setTimeout(done, 100))")
            assert not shown(page, "review"), "drawn again for an invented node"
            spent = words(page, "spent")
            assert spent == f"So far: {1.5 * (i - 17):g} of your limit of 4."
            total = words(page, "sum")
            assert total == f"With this survey: {1.5 * (i - 16):g}."
            page.run("document.getElementById('shared-person').click();" + SUBMIT)
            if i == 18:
                page.until("!document.getElementById('review').hidden")
        refused(page, "above your limit of 4")
        assert not shown(page, "review")
        ready(page, collector.url + INVITATION)
        assert json.loads(words(page, "raw"))["node"] == "u/17"
        entries = page.run("[...document.querySelectorAll('#entries li')].map(item => item.textContent)")
        survey = f"the survey with the fingerprint {CAMPAIGN.id[:8]}…"
        assert entries == [f"1.5 points; {survey}"] * 2


@needs_chromium
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CAMPAIGN.to_json().replace("Harbour", "Arbour"), "altered"),
        (rewritten(CAMPAIGN, guarantee__user_level__total="0.5"), "does not protect your answers as it says"),
        (rewritten(CAMPAIGN, notice__closes="2020-01-01T00:00:00Z"), "closed"),
        ("{}", "not a survey"),
    ],
)
def test_a_campaign_that_must_not_be_answered_shows_no_form(page: Page, text: str, message: str) -> None:
    with serving(text) as collector:
        page.open(collector.url + INVITATION)
        page.until("!document.getElementById('problem').hidden")
        assert message in words(page, "problem")
        assert not shown(page, "form")


# Whatever the form asks: the first choice everywhere, the low end of every range.
FILL_ANYTHING = """
for (const field of document.querySelectorAll("#questions input[type=number]")) field.value = field.min || 0;
for (const field of document.querySelectorAll("#questions select")) field.selectedIndex = 1;
for (const group of document.querySelectorAll("#questions fieldset")) group.querySelector("input").click();
document.getElementById("consent").click();
document.getElementById("limit").value = "1e9";
"""


@needs_chromium
@pytest.mark.parametrize("name", CAMPAIGNS)
def test_every_kind_of_campaign_can_be_answered(page: Page, name: str) -> None:
    with serving(CAMPAIGNS[name].to_json()) as collector:
        ready(page, collector.url + INVITATION, width=390)
        weak = CAMPAIGNS[name].guarantee.total_user_level > 4.6  # more than 99 in 100, from even odds
        assert shown(page, "weak") == weak
        known = CAMPAIGNS[name].notice.public
        assert shown(page, "public") == bool(known)
        assert ", ".join(column.name for column in known) in words(page, "public")
        review(page, FILL_ANYTHING + SUBMIT)
        assert page.run("document.documentElement.scrollWidth") == 390
        rows = page.run("document.querySelectorAll('#rows tr').length")
        deliver(page)
        ((_, _, document),) = collector.received
        report = Report.parse(document, CAMPAIGNS[name])
        assert rows == len(report.features or ()) + (report.label is not None)
        assert page.complaints == []


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_the_page_holds_no_inline_code_and_loads_its_own_files_only() -> None:
    parser = _Tags()
    parser.feed((BROWSER / "participant.html").read_text(encoding="utf-8"))
    for tag, attributes in parser.tags:
        assert tag != "style"
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        assert tag != "script" or attributes.get("src") == "participant.js"
    for path in (*BROWSER.glob("participant.*"), *BROWSER.glob("*.js")):
        text = path.read_text(encoding="utf-8")
        inserted = r"https?://(?!www\.w3\.org)|innerHTML|outerHTML|insertAdjacent|document\.write|@import|url\("
        assert not re.search(inserted, text), path.name
