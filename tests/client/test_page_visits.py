"""The participant's page on a second visit, after a mistake, and in a browser that refuses something."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from math import ceil, exp
from pathlib import Path

import pytest

from tests.support.campaigns import campaign
from tests.support.chromium import NEEDS_CHROMIUM, Page
from tests.support.forgeries import rewritten
from tests.support.participant_page import (
    CAMPAIGN,
    CHECK,
    FILL,
    INVITATION,
    SUBMIT,
    Collector,
    click,
    deliver,
    is_visible,
    ready,
    refused,
    review,
    serving,
    shown,
    words,
)
from veilgraph.campaign import Report
from veilgraph.privacy.schema import Column, FeatureSchema

pytestmark = NEEDS_CHROMIUM

TYPE = """
document.getElementById("node").value = "{node}";
document.getElementById("code").value = "{code}";
for (const name of ["node", "code"]) document.getElementById(name).dispatchEvent(new Event("change"));
"""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with serving(CAMPAIGN.to_json()) as running:
        yield running


def draw(page: Page) -> str:
    return review(page, FILL + SUBMIT)


def withdraw(page: Page) -> None:
    click(page, "withdraw")
    page.until("document.getElementById('sure').open")
    click(page, "sure-yes")


@contextmanager
def injected(page: Page, script: str) -> Iterator[None]:
    """Run a script before every document's own."""
    added = page.call("Page.addScriptToEvaluateOnNewDocument", source=script)["identifier"]
    yield
    page.call("Page.removeScriptToEvaluateOnNewDocument", identifier=added)


def test_a_wrong_code_can_be_corrected_after_the_refusal(page: Page, collector: Collector) -> None:
    collector.codes = [401, 201]
    ready(page, collector.url)
    page.run(TYPE.format(node="u1", code="wrong"))
    drawn = draw(page)
    assert not is_visible(page, "code")
    click(page, "send")
    refused(page, "do not belong together")
    assert is_visible(page, "code")
    assert page.run("document.activeElement.id") == "code"
    page.run("document.getElementById('code').value = 'right'")
    deliver(page)
    assert [token for _, token, _ in collector.received] == ["Bearer wrong", "Bearer right"]
    assert words(page, "raw") == drawn
    assert not shown(page, "problem")


def test_a_mistyped_name_is_found_before_anything_is_drawn(page: Page, collector: Collector) -> None:
    collector.standing = (404, b'{"error": "unknown_node"}')
    ready(page, collector.url)
    page.run(TYPE.format(node="u11", code="t0ken") + FILL + SUBMIT)
    refused(page, "do not belong together")
    assert shown(page, "checking")
    collector.standing = (200, b'{"status": "missing", "rounds": []}')
    page.run("document.getElementById('node').value = ' u1 '; document.getElementById('code').value = 't0ken'")
    review(page, SUBMIT)
    deliver(page)
    assert [node for node, _, _ in collector.received] == ["u1"]
    assert "u11" not in page.run("JSON.stringify(localStorage)")


def test_the_form_stays_until_the_code_is_typed_too(page: Page, collector: Collector) -> None:
    ready(page, collector.url)
    page.run(TYPE.format(node="u1", code="t0ken"))
    drawn = draw(page)
    ready(page, collector.url)
    page.run("document.querySelector('#review .someone').click()")
    page.run(TYPE.format(node="u1", code=""))
    assert shown(page, "form")
    assert is_visible(page, "code")
    page.run(TYPE.format(node="u1", code="t0ken"))
    assert not shown(page, "form")
    assert words(page, "raw") == drawn


@pytest.mark.parametrize("is_answered", [False, True])
def test_an_invitation_opened_in_a_tab_that_shows_the_page_is_taken_up(
    page: Page, collector: Collector, is_answered: bool
) -> None:
    ready(page, collector.url + INVITATION)
    if is_answered:
        draw(page)
    page.call("Page.navigate", url=f"{collector.url}#node=u2&token=secret")  # within the same document
    page.until("document.getElementById('invited').textContent.includes('u2')")
    assert page.run("location.href") == collector.url
    entries = page.call("Page.getNavigationHistory")["entries"]
    assert not [entry for entry in entries if "secret" in entry["url"]]
    assert shown(page, "form")
    assert shown(page, "shared") == is_answered
    click(page, "shared-person")
    draw(page)
    deliver(page)
    ((node, token, _),) = collector.received
    assert (node, token) == ("u2", "Bearer secret")


def test_a_page_that_is_loaded_again_shows_where_the_person_stands(page: Page, collector: Collector) -> None:
    ready(page, collector.url + INVITATION)
    page.call("Page.reload")
    page.until("document.getElementById('invited')?.textContent.includes('u/17')")
    drawn = draw(page)
    page.open("data:text/html,<p>Elsewhere")
    page.go_back(collector.url)
    page.until("document.getElementById('review')?.hidden === false")
    assert words(page, "raw") == drawn
    deliver(page)
    page.call("Page.reload")
    page.until("document.getElementById('receipt')?.textContent.includes('has sent your changed answers before')")
    assert not shown(page, "form")
    assert page.run("sessionStorage.length") == 1


def test_another_tab_shows_nobodys_report_before_name_and_code(page: Page, collector: Collector) -> None:
    """On a shared phone, the second person does not learn who was the first."""
    ready(page, collector.url + INVITATION)
    drawn = draw(page)
    page.new_tab()
    ready(page, collector.url)
    assert shown(page, "form")
    assert shown(page, "known")
    assert "u/17" not in page.run("document.documentElement.textContent")
    page.run(TYPE.format(node="u/17", code=""))
    assert not shown(page, "review")
    review(page, TYPE.format(node="u/17", code="t0ken"))
    assert words(page, "raw") == drawn
    deliver(page)
    page.run("document.querySelector('#done .someone').click()")
    assert shown(page, "form")
    assert shown(page, "shared")


def test_a_second_person_on_a_phone_sees_no_name_of_the_first(page: Page, collector: Collector) -> None:
    ready(page, collector.url + INVITATION)
    draw(page)
    deliver(page)
    ready(page, collector.url + "#node=u2&token=secret")
    page.run(FILL + CHECK)
    page.until("!document.getElementById('checking').hidden")
    assert shown(page, "shared")
    assert "u/17" not in page.run("document.documentElement.textContent")
    assert "u/17" not in page.run("[...document.querySelectorAll('input')].map((field) => field.value).join()")


def test_a_typed_name_is_stored_when_the_collector_knows_its_code_and_not_before(
    page: Page, collector: Collector
) -> None:
    collector.standing = (401, b'{"error": "wrong_token"}')
    ready(page, collector.url)
    page.run(TYPE.format(node="anna-maria", code="wrong") + FILL + SUBMIT)
    refused(page, "do not belong together")
    assert "anna-maria" not in page.run("JSON.stringify(localStorage) + JSON.stringify(sessionStorage)")


def test_what_was_sent_stays_visible_with_the_day_on_later_visits(page: Page, collector: Collector) -> None:
    page.call("Emulation.setTimezoneOverride", timezoneId="Pacific/Kiritimati")  # where it is the next day already
    ready(page, collector.url + INVITATION)
    draw(page)
    deliver(page)
    said = page.run("[...document.querySelectorAll('#rows tr')].map(row => row.lastChild.textContent)")
    assert words(page, "done-heading") == "Received. Thank you."
    ready(page, collector.url + INVITATION)
    assert words(page, "done-heading") == "You answered this on February 1, 2027. Nothing more to do."
    assert is_visible(page, "rows")
    assert page.run("[...document.querySelectorAll('#rows tr')].map(row => row.lastChild.textContent)") == said
    assert page.run("document.querySelectorAll('#rows td').length") == len(said), "the true answers were kept"
    page.call("Emulation.setTimezoneOverride", timezoneId="")


def test_a_closed_campaign_shows_its_purpose_and_contact(page: Page) -> None:
    with serving(rewritten(CAMPAIGN, notice__closes="2020-01-01T00:00:00Z")) as collector:
        ready(page, collector.url + INVITATION)
        assert "closed" in words(page, "problem")
        assert words(page, "title") == "This survey is closed"
        assert words(page, "purpose") == "To learn"
        assert "privacy@example.org" in words(page, "contact")
        assert not shown(page, "form")
        assert not is_visible(page, "send")


def test_the_deadline_has_a_time_and_the_devices_zone(page: Page, collector: Collector) -> None:
    page.call("Emulation.setTimezoneOverride", timezoneId="Asia/Kolkata")
    page.call("Emulation.setUserAgentOverride", userAgent="a test", acceptLanguage="en-GB")
    ready(page, collector.url)
    assert words(page, "open") == "Open until 1 January 2100 at 05:30 GMT+5:30."


def test_without_javascript_the_page_says_so_and_does_not_wait(page: Page, collector: Collector) -> None:
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    page.open(collector.url)
    # What fails to load is given 4 seconds; a browser that runs no script may know at once.
    page.until("getComputedStyle(document.getElementById('incomplete')).visibility === 'visible'")
    seen = page.run("document.body.innerText")
    assert "It needs JavaScript" in seen
    assert "Sie braucht JavaScript" in seen
    assert "Loading" not in seen


@pytest.mark.parametrize("blocked", ["localStorage", "sessionStorage"])
def test_a_browser_that_keeps_nothing_is_told_what_to_do(page: Page, collector: Collector, blocked: str) -> None:
    deny = f"Object.defineProperty(window, '{blocked}', {{ get() {{ throw new DOMException('', 'SecurityError') }} }})"
    with injected(page, deny):
        page.open(collector.url + INVITATION)
        refused(page, "Allow site data")
    assert page.run("location.hash") == ""
    assert not shown(page, "form")


def test_a_full_storage_is_told_and_nothing_is_drawn_for_the_collector(page: Page, collector: Collector) -> None:
    full = (
        "Storage.prototype.setItem = function (key) {"
        "if (/^veilgraph:[0-9a-f]{64}/.test(key)) throw new DOMException('', 'QuotaExceededError') }"
    )
    with injected(page, full):
        ready(page, collector.url + INVITATION)
        page.run(TYPE.format(node="u1", code="t0ken") + FILL + SUBMIT)
        refused(page, "no room left")
    assert not shown(page, "review")


def test_words_that_do_not_load_are_told_in_the_pages_own(page: Page, collector: Collector) -> None:
    missing = (
        "const load = fetch; fetch = (url, ...rest) => /languages/.test(url) ? Promise.reject() : load(url, ...rest)"
    )
    with injected(page, missing):
        page.open(collector.url + INVITATION)
        page.until("getComputedStyle(document.getElementById('incomplete')).visibility === 'visible'", timeout=3)
        assert "Nothing was sent" in words(page, "incomplete")
    assert not collector.received


def test_odds_of_one_answer_name_the_answer_that_they_are_about(page: Page, collector: Collector) -> None:
    """Features cost 0.5 and the label 1: e^1.5 / (1 + e^1.5), e / (1 + e), and less for one of three features."""
    feature = max(map(float, CAMPAIGN.document["bound"]["guarantee"]["attribute_level"]))
    odds = ceil(100 / (1 + exp(-feature)))
    ready(page, collector.url)
    assert page.run("[...document.querySelectorAll('#levels li')].map(item => item.textContent)") == [
        "82 in 100 for all your answers together, whatever they are",
        "74 in 100 for your answer to the last question, even by someone who knows all the others",
        f"{odds} in 100 for any one of your other answers, even by someone who knows all the rest",
    ]


def test_answers_are_withdrawn_once_it_is_confirmed_and_stay_withdrawn(page: Page, collector: Collector) -> None:
    """The report stays on the device, which never draws another one; its cost stays spent."""
    ready(page, collector.url + INVITATION)
    drawn = draw(page)
    deliver(page)
    withdraw(page)
    page.until("document.getElementById('done-heading').textContent === 'You have withdrawn.'")
    assert page.run("document.activeElement.id") == "done-heading"
    assert collector.withdrawn == [("u/17", "Bearer t0ken")]
    receipt = json.loads(words(page, "signed-receipt"))
    assert receipt["withdrawn"] == "2027-01-31T18:00:00Z"
    ready(page, collector.url + INVITATION)
    assert words(page, "done-heading") == "You have withdrawn."
    assert not shown(page, "form")
    assert not is_visible(page, "again")
    assert not is_visible(page, "withdraw")
    saved = page.run("Object.entries(localStorage).filter(([key]) => /^veilgraph:[0-9a-f]{64}/.test(key))")
    ((_, kept),) = saved
    assert json.loads(drawn).items() <= json.loads(kept).items()


def test_a_withdrawal_with_a_wrong_code_or_without_an_answer_is_not_believed(page: Page, collector: Collector) -> None:
    ready(page, collector.url + INVITATION)
    draw(page)
    deliver(page)
    collector.codes = [401]
    withdraw(page)
    refused(page, "do not belong together")
    assert is_visible(page, "code")
    page.run("document.getElementById('code').value = 'right'")
    collector.answer = b"<html>Welcome! Please accept our terms.</html>"
    withdraw(page)
    refused(page, "did not confirm")
    assert words(page, "done-heading") == "Received. Thank you."


def test_the_receipt_can_be_saved_as_a_file(page: Page, collector: Collector, tmp_path: Path) -> None:
    ready(page, collector.url + INVITATION)
    draw(page)
    deliver(page)
    page.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.run("document.querySelector('#signed').open = true; save.click()")
    end = time.monotonic() + 10
    while not (saved := tmp_path / "receipt.json").exists():
        assert time.monotonic() < end, list(tmp_path.iterdir())
        time.sleep(0.05)
    assert saved.read_text(encoding="utf-8") == words(page, "signed-receipt")
    assert json.loads(words(page, "signed-receipt"))["signature"] == "s1gnature"
    assert page.complaints == []


def test_the_receipt_can_be_checked_by_asking_the_collector(page: Page, collector: Collector) -> None:
    ready(page, collector.url + INVITATION)
    draw(page)
    deliver(page)
    click(page, "check")
    page.until("document.getElementById('standing').textContent.includes('Please send them again')")
    assert collector.checked == [json.loads(words(page, "signed-receipt"))]
    click(page, "again")
    page.until("document.getElementById('standing').textContent === ''")
    assert len(collector.received) == 2


SERIES = campaign(
    FeatureSchema(classes=("well", "ill", "unsure")), epsilon_y=2.0, rounds=3, round_epsilon=1.0, label="health"
)
PICK = "document.querySelectorAll('input[name=q0]')[{}].click(); document.getElementById('consent').click();"


def test_a_series_is_answered_once_in_each_round_and_counted_once(page: Page) -> None:
    cost = ceil(100 * SERIES.guarantee.total_user_level - 1e-5) / 100
    with serving(SERIES.to_json()) as collector:
        for number in (1, 2):
            collector.campaign = (SERIES if number == 1 else SERIES.revise(open_round=2)).to_json()
            ready(page, collector.url + INVITATION, width=390)
            assert words(page, "round") == f"Round {number} of 3."
            assert words(page, "cost") == f"All rounds of this survey together cost {cost:g}."
            assert shown(page, "form")
            assert not shown(page, "shared"), "the same person in another round"
            assert words(page, "sum") == (
                f"With this survey: {cost:g}." if number == 1 else "They are counted already."
            )
            review(page, PICK.format(1) + SUBMIT)
            assert page.run("document.documentElement.scrollWidth") == 390
            deliver(page)
            assert Report.parse(collector.received[-1][2], SERIES).number == number
            assert words(page, "spent") == f"So far: {cost:g} of your limit of 4."
            ready(page, collector.url + INVITATION)
            assert shown(page, "done")
        withdraw(page)
        page.until("document.getElementById('done-heading').textContent === 'You have withdrawn.'")
        collector.campaign = SERIES.revise(open_round=3).to_json()
        ready(page, collector.url + INVITATION)
        assert words(page, "done-heading") == "You have withdrawn."
        assert not shown(page, "form")
        assert page.complaints == []


FEATURES_IN_ROUNDS = campaign(
    FeatureSchema(
        columns=(
            Column(name="smokes", values=("no", "yes")),
            Column(name="colour", values=("red", "green", "blue")),
            Column(name="age", edges=(0.0, 30.0, 120.0)),
        ),
        classes=("well", "ill"),
    ),
    epsilon_x=0.4,
    sampled=2,
    epsilon_y=0.5,
    rounds=3,
    label="health",
)
ANSWERS = """for (const name of ['q0', 'q1', 'q3']) document.querySelectorAll(`input[name=${name}]`)[1].click();
document.querySelector('input[name=q2-skip]').click(); document.getElementById('consent').click();"""


def test_features_of_a_series_are_the_same_ones_in_every_round(page: Page) -> None:
    with serving(FEATURES_IN_ROUNDS.to_json()) as collector:
        for number in (1, 2):
            ready(page, collector.url + INVITATION, width=390)
            assert "2 are chosen at random in your first round, and stay the same" in words(page, "rounds")
            assert "if none of your answers changes from round to round" in words(page, "levels")
            assert "for any one of your other answers, even by someone who knows all the rest" in words(page, "levels")
            assert "nobody can see that you left it out" in words(page, "questions")
            review(page, ANSWERS + SUBMIT)
            assert "It speaks of 2 of your 3 answers" in words(page, "explained")
            assert page.run("document.documentElement.scrollWidth") == 390
            deliver(page)
            collector.campaign = FEATURES_IN_ROUNDS.revise(open_round=number + 1).to_json()
        first, second = (Report.parse(document, FEATURES_IN_ROUNDS) for _, _, document in collector.received)
        assert first.features is not None
        assert second.features is not None
        assert [code is None for code in first.features] == [code is None for code in second.features]
        assert (first.number, second.number) == (1, 2)
        assert page.complaints == []


def test_a_limit_that_cannot_be_read_stops_every_draw_until_the_person_sets_one(page: Page) -> None:
    with serving(SERIES.to_json()) as collector:
        ready(page, collector.url + INVITATION)
        assert "leave this page and send nothing" in words(page, "questions")
        page.run("localStorage.setItem('veilgraph:limit', 'dam4ged')")
        ready(page, collector.url + INVITATION)
        assert "cannot read the limit" in words(page, "problem")
        assert page.run("document.getElementById('limit-part').open")
        assert words(page, "spent") == "So far: 0."
        page.run(PICK.format(1) + SUBMIT)
        refused(page, "cannot read the limit")
        assert page.run("Object.entries(localStorage)") == [["veilgraph:limit", "dam4ged"]]
        page.run(
            "limit.value = '9'; limit.dispatchEvent(new Event('change'))".replace(
                "limit.", "document.getElementById('limit')."
            )
        )
        assert not shown(page, "problem")
        assert words(page, "spent") == "So far: 0 of your limit of 9."
        review(page, SUBMIT)
        assert page.complaints == []


def test_another_person_on_a_device_that_answers_a_series_must_say_so(page: Page) -> None:
    with serving(SERIES.to_json()) as collector:
        ready(page, collector.url + INVITATION)
        review(page, PICK.format(0) + SUBMIT)
        collector.campaign = SERIES.revise(open_round=2).to_json()
        ready(page, collector.url + "#node=u2&token=t0ken")
        assert shown(page, "shared")
        assert page.run("document.getElementById('shared-person').required")
        ready(page, collector.url + INVITATION)
        assert not shown(page, "shared")


def test_a_series_says_how_likely_a_report_is_true_and_that_the_device_remembers(page: Page) -> None:
    """A report keeps the permanent answer or changes it: p1 p2 + (1 - p1) (1 - p2) / 2 with three answers."""
    p1, p2 = (exp(epsilon) / (exp(epsilon) + 2) for epsilon in (2.0, 1.0))
    chance = ceil(100 * (p1 * p2 + (1 - p1) * (1 - p2) / 2))
    with serving(SERIES.to_json()) as collector:
        ready(page, collector.url)
        assert f"With a chance of {chance} in 100 it is yours" in words(page, "meaning")
        assert "this device remembers them for the next rounds" in words(page, "stay")
        assert page.run("document.querySelectorAll('#levels li').length") == 2
        with serving(rewritten(SERIES, notice__round=None)) as paused:
            ready(page, paused.url)
            assert "No round of this survey is open now" in words(page, "problem")
            assert not shown(page, "form")


def test_every_question_can_be_left_out_and_what_is_visible_is_said(page: Page, collector: Collector) -> None:
    ready(page, collector.url + INVITATION, width=390)
    explained = words(page, "questions")
    assert "chance alone decides what is sent for it, and nobody can see that you left it out" in explained
    assert "Only for the last question the organisers can see that you left it out" in explained
    page.run(
        """document.querySelector('input[name=q0-skip]').click();
        document.querySelector('input[name=q1][value=skip]').click();
        document.getElementById('q2').value = 'skip';
        document.querySelector('input[name=q3][value=skip]').click();
        document.getElementById('consent').click();"""
    )
    page.run("language.value = 'de'; language.dispatchEvent(new Event('change'))")
    page.until("document.documentElement.lang === 'de'")
    assert page.run("[q0.disabled, q2.value]") == [True, "skip"]
    review(page, SUBMIT)
    rows = page.run("[...document.querySelectorAll('#rows tr')].map(r => [...r.children].map(c => c.textContent))")
    assert [row[1] for row in rows] == ["keine Angabe"] * 4
    assert rows[3][2] == "ausgelassen"
    deliver(page)
    report = Report.parse(collector.received[0][2], CAMPAIGN)
    assert report.label is None
    assert report.features is not None
    assert None not in report.features
    assert page.complaints == []


def test_a_promise_to_delete_that_was_changed_and_an_older_notice_are_told(page: Page) -> None:
    made = replace(CAMPAIGN, notice=replace(CAMPAIGN.notice, retention=datetime(2101, 1, 31, 23, 59, 59, tzinfo=UTC)))
    revised = rewritten(made, notice__retention=None, notice__version=2)
    with serving(made.to_json()) as collector:
        ready(page, collector.url + INVITATION)
        draw(page)
        assert not shown(page, "broken")
        collector.campaign = revised
        ready(page, collector.url + INVITATION)
        assert "That promise was changed" in words(page, "broken")
    with serving(revised) as collector:
        ready(page, collector.url + INVITATION)
        draw(page)
        collector.campaign = made.to_json()
        ready(page, collector.url + "#node=u2&token=t0ken")
        page.run("document.getElementById('shared-person').click();" + FILL + SUBMIT)
        refused(page, "has seen a newer version")
        assert not shown(page, "review")
