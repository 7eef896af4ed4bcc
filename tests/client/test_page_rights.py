"""The page draws nothing for who has answered elsewhere, keeps the memory of a series, and lets everybody withdraw."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.support.campaigns import campaign
from tests.support.chromium import NEEDS_CHROMIUM, Page
from tests.support.collection import Collection
from tests.support.forgeries import rewritten
from tests.support.participant_page import (
    CAMPAIGN,
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
from tests.support.running_collector import collecting
from veilgraph.campaign import Report
from veilgraph.collector.reminders import nodes_to_remind
from veilgraph.collector.store import ReportStore
from veilgraph.privacy.mechanisms import LongitudinalGRR
from veilgraph.privacy.schema import FeatureSchema
from veilgraph.privacy.strict_json import canonical_json

pytestmark = NEEDS_CHROMIUM

SERIES = campaign(
    FeatureSchema(classes=("well", "ill", "unsure")), epsilon_y=2.0, rounds=3, round_epsilon=1.0, label="health"
)
assert isinstance(SERIES.label_mechanism, LongitudinalGRR)
CHANNEL = SERIES.label_mechanism.channel
PICK = "document.querySelectorAll('input[name=q0]')[{}].click(); document.getElementById('consent').click();"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with serving(CAMPAIGN.to_json()) as running:
        yield running


def says(status: str, *rounds: int) -> tuple[int, bytes]:
    return 200, json.dumps({"status": status, "rounds": rounds}).encode()


def drawn(page: Page) -> list[str]:
    return list(page.run("Object.keys(localStorage).filter((key) => /^veilgraph(-memory)?:[0-9a-f]{64}/.test(key))"))


# --- Before anything is drawn ----------------------------------------------------------------------------------------


def test_the_collector_is_asked_when_the_person_draws_and_not_before(page: Page, collector: Collector) -> None:
    ready(page, collector.url + INVITATION)
    assert collector.asked == []
    review(page, FILL + SUBMIT)
    assert collector.asked == [("u/17", "Bearer t0ken")]
    assert words(page, "status") == ""


@pytest.mark.parametrize(
    ("standing", "said"),
    [
        (says("stored"), "holds answers of yours to this survey already"),
        (says("purged"), "have deleted all answers"),
        (says("another"), "does not say whether you have answered"),
        ((200, b"<html>Welcome! Please accept our terms."), "does not say whether you have answered"),
        ((401, b'{"error": "wrong_token"}'), "Please check your invitation. Nothing was drawn"),
    ],
)
def test_who_may_have_answered_draws_nothing(
    page: Page, collector: Collector, standing: tuple[int, bytes], said: str
) -> None:
    collector.standing = standing
    ready(page, collector.url + INVITATION)
    page.run(FILL + SUBMIT)
    refused(page, said)
    assert shown(page, "checking")
    assert drawn(page) == []
    assert collector.received == []
    assert is_visible(page, "code") == (standing[0] == 401)
    assert not page.run("document.getElementById('draw').disabled")


def test_without_an_answer_of_the_collector_nothing_is_drawn(page: Page, collector: Collector) -> None:
    ready(page, collector.url + INVITATION)
    page.run("window.setTimeout = (work) => queueMicrotask(work); window.fetch = () => Promise.reject(new Error())")
    page.run(FILL + SUBMIT)
    refused(page, "does not say whether you have answered before")
    assert drawn(page) == []


def test_who_withdrew_elsewhere_is_told_so_before_the_draw(page: Page, collector: Collector) -> None:
    collector.standing = says("withdrawn")
    ready(page, collector.url + INVITATION)
    page.run(FILL + SUBMIT)
    refused(page, "were withdrawn before")
    assert words(page, "done-heading") == "You have withdrawn."
    assert drawn(page) == []


# --- Withdrawing -----------------------------------------------------------------------------------------------------


def withdraw(page: Page) -> None:
    click(page, "withdraw")
    page.until("document.getElementById('sure').open")
    click(page, "sure-yes")
    page.until("document.getElementById('done-heading').textContent === 'You have withdrawn.'")


CLOSED = rewritten(CAMPAIGN, notice__closes="2020-01-01T00:00:00Z")


@pytest.mark.parametrize("text", [CAMPAIGN.to_json(), CLOSED, rewritten(SERIES, notice__round=None), SERIES.to_json()])
@pytest.mark.parametrize("invited", [True, False])
def test_name_and_code_are_enough_to_withdraw_on_a_new_phone(page: Page, text: str, invited: bool) -> None:
    with serving(text) as collector:
        ready(page, collector.url + INVITATION * invited, width=390)
        assert words(page, "withdraw") == (
            "I do not want to take part" if shown(page, "form") else "Withdraw my answers"
        )
        if not invited:
            assert is_visible(page, "node")
            assert is_visible(page, "code")
            page.run("document.getElementById('node').value = 'u/17'; document.getElementById('code').value = 't0ken'")
        withdraw(page)
        assert collector.withdrawn == [("u/17", "Bearer t0ken")]
        assert (collector.received, collector.asked, drawn(page)) == ([], [], [])
        assert words(page, "spent").startswith("So far: 0 of")
        assert not is_visible(page, "withdraw")
        assert not shown(page, "form")
        ready(page, collector.url + INVITATION)
        assert words(page, "done-heading") == "You have withdrawn."
        assert page.complaints == []


@pytest.mark.parametrize("leave", ["document.getElementById('sure-no').click()", None])
def test_a_withdrawal_that_is_not_confirmed_is_none(page: Page, collector: Collector, leave: str | None) -> None:
    ready(page, collector.url + INVITATION)
    click(page, "withdraw")
    assert page.run("document.activeElement.id") == "sure-no", "the harmless button has the focus"
    assert "This cannot be undone" in page.run("document.getElementById('sure').innerText")
    if leave is None:
        page.call("Input.dispatchKeyEvent", type="keyDown", key="Escape", windowsVirtualKeyCode=27)
    else:
        page.run(leave)
    page.until("!document.getElementById('sure').open")
    click(page, "withdraw")
    click(page, "sure-no")
    assert collector.withdrawn == []
    assert shown(page, "form")


def test_a_withdrawal_without_name_and_code_says_what_it_needs_where_the_person_acted(
    page: Page, collector: Collector
) -> None:
    ready(page, collector.url)
    click(page, "withdraw")
    refused(page, "Please enter the code")
    assert page.run("document.getElementById('problem').parentNode.id") == "withdraw-problem"
    assert not page.run("document.getElementById('sure').open")


def test_an_answer_that_was_drawn_and_not_sent_can_be_withdrawn(page: Page, collector: Collector) -> None:
    """The report stays on the device, which never draws another one; its cost stays spent."""
    ready(page, collector.url + INVITATION)
    review(page, FILL + SUBMIT)
    withdraw(page)
    assert len(drawn(page)) == 1
    assert words(page, "spent") == "So far: 1.5 of your limit of 4."


def test_an_objection_reaches_a_real_collector_and_ends_reminders(page: Page, tmp_path: Path) -> None:
    collection, store = Collection.ring(5), ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    with collecting(collection, store) as client:
        ready(page, f"{client.base_url}#node=n3&token={collection.token('n3')}", width=390)
        withdraw(page)
    assert nodes_to_remind(["n2", "n3"], store, collection.campaign) == ["n2"]
    assert store.reports.count(collection.campaign.id) == 0
    assert [entry.action for entry in store.audit_log.entries(collection.campaign.id)].count("object") == 1


# --- The memory of a series ------------------------------------------------------------------------------------------


def answer_round(page: Page, value: int) -> None:
    review(page, PICK.format(value) + SUBMIT)
    deliver(page)


def kept(page: Page) -> dict[str, str]:
    return dict(page.run("Object.entries(localStorage).filter(([key]) => /:[0-9a-f]{64}/.test(key))"))


def load(page: Page, text: str) -> None:
    """Choose a file, as a person does."""
    page.run(
        f"""{{ const files = new DataTransfer();
        files.items.add(new File([{json.dumps(text)}], "survey-memory.json"));
        document.getElementById("memory-file").files = files.files;
        document.getElementById("memory-file").dispatchEvent(new Event("change")); }}"""
    )


def saved(page: Page) -> str:
    href = str(page.run("document.getElementById('memory-save').href"))
    return unquote(href.removeprefix("data:application/json;charset=utf-8,"))


def after_a_cleared_memory(page: Page, collector: Collector) -> tuple[str, dict[str, str]]:
    """Answer the first round, lose the device's memory, and open the second; return the file and what was there."""
    ready(page, collector.url + INVITATION, width=390)
    answer_round(page, 1)
    text, before = saved(page), kept(page)
    page.run("localStorage.clear()")
    collector.campaign, collector.standing = SERIES.revise(open_round=2).to_json(), says("earlier", 1)
    ready(page, collector.url + INVITATION, width=390)
    return text, {key: value for key, value in before.items() if ":sent:" not in key}


@pytest.mark.parametrize("elsewhere", [False, True])
def test_who_has_withdrawn_leaves_no_true_answer_and_no_code_on_the_device(page: Page, elsewhere: bool) -> None:
    """What was drawn stays and its cost counts; no later round is answered, and others on this phone still can."""
    with serving(SERIES.to_json()) as collector:
        ready(page, collector.url + INVITATION)
        answer_round(page, 1)
        before = kept(page)
        assert '"current":1' in json.dumps(before).replace("\\", "")
        (counted,) = (key for key in before if re.fullmatch("veilgraph:[0-9a-f]{64}", key))
        spent = words(page, "spent")
        if elsewhere:
            collector.codes, collector.answer = [410], b'{"error": "withdrawn", "detail": "withdrawn"}'
            click(page, "again")
            refused(page, "were withdrawn before")
            collector.answer = None
        else:
            withdraw(page)
        for _ in range(2):
            assert words(page, "done-heading") == "You have withdrawn."
            assert not [key for key in kept(page) if "-memory:" in key]
            assert "current" not in page.run("document.documentElement.outerHTML")
            assert page.run("sessionStorage.length") == 0
            assert page.run("document.querySelectorAll('#form :checked').length") == 0
            assert kept(page)[counted] == before[counted]
            assert words(page, "spent") == spent
            collector.campaign = SERIES.revise(open_round=2).to_json()
            ready(page, collector.url + INVITATION)  # in the next round, from the link
        ready(page, collector.url + "#node=u2&token=secret")
        page.run(
            "document.getElementById('limit').value = '9'; document.getElementById('shared-person').click();"
            "document.getElementById('limit').dispatchEvent(new Event('change'));" + PICK.format(2) + SUBMIT
        )
        page.until("!document.getElementById('review').hidden")


@pytest.mark.parametrize(("text", "asked"), [(SERIES.to_json(), 1), (CAMPAIGN.to_json(), 0)])
def test_the_browser_is_asked_to_keep_the_memory_of_a_series(page: Page, text: str, asked: int) -> None:
    with serving(text) as collector:
        ready(page, collector.url + INVITATION)
        page.run("window.kept = 0; navigator.storage.persist = async () => { window.kept += 1; return false; }")
        assert page.run("window.kept") == 0
        review(page, (FILL if text == CAMPAIGN.to_json() else PICK.format(1)) + SUBMIT)
        assert page.run("window.kept") == asked


def test_a_series_warns_before_a_second_permanent_answer_and_draws_none(page: Page) -> None:
    with serving(SERIES.to_json()) as collector:
        after_a_cleared_memory(page, collector)
        page.run(PICK.format(1) + SUBMIT)
        refused(page, "read the note about the earlier round")
        assert is_visible(page, "forgotten")
        assert is_visible(page, "memory-file")
        assert drawn(page) == []
        page.run(SUBMIT)  # the box is not ticked
        page.run("new Promise((done) => setTimeout(done, 700))")
        assert drawn(page) == []
        assert len(collector.asked) == 2
        assert page.run("document.documentElement.scrollWidth") == 390


def test_a_memory_that_was_kept_as_a_file_continues_the_series(page: Page) -> None:
    with serving(SERIES.to_json()) as collector:
        text, before = after_a_cleared_memory(page, collector)
        for other in ("", "{}", text.replace("u/17", "u2"), text.replace('"current":1', '"current":7')):
            load(page, other)
            refused(page, "does not hold what a device remembered")
            assert drawn(page) == []
        load(page, text)
        page.until("document.getElementById('memory-load').hidden")
        assert kept(page) == before
        assert not shown(page, "problem")
        answer_round(page, 1)
        reports = [Report.parse(document, SERIES) for _, _, document in collector.received]
        assert [report.number for report in reports] == [1, 2]
        permanent = [json.loads(each)["answers"] for key, each in kept(page).items() if "-memory:" in key]
        assert permanent == [json.loads(before[key])["answers"] for key in before if "-memory:" in key]
        assert page.complaints == []


def test_a_file_from_before_the_last_round_draws_no_second_permanent_answer(page: Page) -> None:
    """The second round was answered with another value, whose permanent answer the file of the first does not have."""
    with serving(SERIES.to_json()) as collector:
        ready(page, collector.url + INVITATION)
        answer_round(page, 1)
        text = saved(page)
        collector.campaign, collector.standing = SERIES.revise(open_round=2).to_json(), says("earlier", 1)
        ready(page, collector.url + INVITATION)
        answer_round(page, 2)
        page.run("localStorage.clear()")
        collector.campaign, collector.standing = (
            SERIES.revise(open_round=2).revise(open_round=3).to_json(),
            says("earlier", 1, 2),
        )
        ready(page, collector.url + INVITATION)
        load(page, text)
        page.until("document.getElementById('memory-load').hidden")
        before = kept(page)
        page.run(PICK.format(2) + SUBMIT)
        refused(page, "of which this device does not know what chance drew")
        assert kept(page) == before
        assert len(collector.received) == 2


def test_a_file_that_counts_less_than_the_series_costs_is_refused(page: Page) -> None:
    with serving(SERIES.to_json()) as collector:
        text, _ = after_a_cleared_memory(page, collector)
        document = json.loads(text)
        document["counted"]["epsilon"] = "0.001"
        load(page, canonical_json(document))
        refused(page, "does not hold what a device remembered")
        assert drawn(page) == []


def test_who_cannot_load_the_memory_may_answer_and_what_was_drawn_before_counts(page: Page) -> None:
    with serving(SERIES.to_json()) as collector:
        after_a_cleared_memory(page, collector)
        page.run(
            "document.getElementById('limit').value = '9';"
            "document.getElementById('limit').dispatchEvent(new Event('change'));" + PICK.format(1) + SUBMIT
        )
        refused(page, "read the note about the earlier round")
        click(page, "forgotten-accept")
        review(page, SUBMIT)
        (cost,) = (float(json.loads(each)["epsilon"]) for key, each in kept(page).items() if "-memory:" not in key)
        first = math.log(CHANNEL.keep / CHANNEL.other)
        assert cost == pytest.approx(SERIES.guarantee.total_user_level + first, rel=1e-8)
        collector.campaign, collector.standing = (
            SERIES.revise(open_round=2).revise(open_round=3).to_json(),
            says("earlier", 1, 2),
        )
        ready(page, collector.url + INVITATION)
        answer_round(page, 1)
        entries = [
            json.loads(each) for key, each in kept(page).items() if "-memory:" not in key and ":sent:" not in key
        ]
        assert [float(entry["epsilon"]) for entry in entries] == [cost], "the loss of the first round is counted once"
        assert page.complaints == []
