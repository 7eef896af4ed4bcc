"""The participant's page and the dashboard of a running collector, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.support.chromium import NEEDS_CHROMIUM, Page, chromium
from tests.support.collection import Collection
from tests.support.running_collector import collecting
from veilgraph.collector.store import ReportStore

pytestmark = NEEDS_CHROMIUM
COLLECTION = Collection.ring(30)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ReportStore:
    return ReportStore.open(f"sqlite:///{tmp_path_factory.mktemp('pages')}/reports.db")


@pytest.fixture(scope="module")
def client(store: ReportStore) -> Iterator[httpx.Client]:
    with collecting(COLLECTION, store) as client:
        yield client


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with chromium() as page:
        yield page


def test_a_participant_answers_checks_the_receipt_and_withdraws_in_the_browser(
    client: httpx.Client, store: ReportStore, page: Page
) -> None:
    page.open(f"{client.base_url}#node=n7&token={COLLECTION.token('n7')}", width=390)
    page.until("!document.querySelector('#form').hidden")
    # Whatever the form asks: first choices, and numbers in range.
    page.run(
        """for (const e of document.querySelectorAll('#questions select')) e.selectedIndex = e.options.length - 1;
        for (const name of new Set([...document.querySelectorAll('#questions input[type=radio]')].map(e => e.name)))
          document.querySelector(`#questions input[name="${CSS.escape(name)}"]`).checked = true;
        for (const e of document.querySelectorAll('#questions input[type=number], #questions input[inputmode=decimal]'))
          e.value = '40';
        document.querySelector('#form').requestSubmit();"""
    )
    page.until("!document.querySelector('#checking').hidden")
    page.run("consent.checked = true; document.querySelector('#checking').requestSubmit()")
    page.until("!document.querySelector('#review').hidden")
    shown = page.run("document.querySelector('#raw').textContent")
    assert store.reports.count(COLLECTION.campaign.id) == 0
    page.run("document.querySelector('#send').click()")
    page.until("!document.querySelector('#done').hidden")
    (report,) = store.reports.iterate(COLLECTION.campaign)
    assert report.to_json() == "".join(shown.split())
    page.run("check.click()")
    page.until("standing.textContent === 'The server holds exactly these changed answers.'")
    page.run("withdraw.click(); document.querySelector('#sure-yes').click()")
    page.until("document.querySelector('#done-heading').textContent === 'You have withdrawn.'")
    assert store.reports.count(COLLECTION.campaign.id) == 0
    page.run("check.click()")
    page.until("standing.textContent.includes('they were withdrawn')")
    assert page.complaints == []


def test_the_dashboard_of_label_sets_fits_a_phone(page: Page, tmp_path: Path) -> None:
    classes = tuple(f"a country with a rather long name, number {i}" for i in range(18))
    collection = Collection.on(COLLECTION.graph, schema=replace(COLLECTION.campaign.schema, classes=classes))
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    store.reports.put([collection.report(f"n{i}", label=tuple(range(i % 13, i % 13 + 6))) for i in range(30)], now=1e9)
    with collecting(collection, store) as client:
        page.open(f"{client.base_url}/dashboard")
        page.complaints.clear()  # the browser reports the 401 of a page that asks to sign in
        page.call("Input.insertText", text=collection.credentials.admin_token)
        page.press("Enter")
        page.until("document.querySelector('.tiles') !== null")
        page.open(f"{client.base_url}/dashboard", width=390)
        assert page.run("document.documentElement.scrollWidth") == 390, "the page scrolls sideways"
        # One row for the only range of degrees, one for each class, and those of a binary and of two other features.
        assert page.run("document.querySelectorAll('svg .track').length") == 1 + 18 + 1 + 3 + 4
        assert "Reports name 6 of 18 classes each" in page.run("document.body.textContent")
        assert page.complaints == []
        page.run("document.querySelector('header button').click()")
        page.until("document.querySelector('#token') !== null")


def test_the_owner_signs_in_with_the_keyboard_and_sees_the_dashboard(
    client: httpx.Client, store: ReportStore, page: Page, tmp_path: Path
) -> None:
    store.reports.put(
        [COLLECTION.report(f"n{i}", features=(i % 3, i % 2, i % 4), label=i % 2) for i in range(8, 28)], now=1e9
    )
    page.open(f"{client.base_url}/dashboard")
    page.complaints.clear()  # the browser reports the 401 of a page that asks to sign in
    assert page.run("document.activeElement.id") == "token"
    page.call("Input.insertText", text=COLLECTION.credentials.admin_token)
    page.press("Enter")
    page.until("document.querySelector('.tiles') !== null")
    for width in (1200, 390):
        for dark in (False, True):
            page.open(f"{client.base_url}/dashboard", width=width, dark=dark)
            assert page.run("document.documentElement.scrollWidth") == width, "the page scrolls sideways"
            background = page.run("getComputedStyle(document.body).backgroundColor")
            assert background == ("rgb(13, 16, 20)" if dark else "rgb(246, 247, 249)"), "the style did not load"
            assert page.run("document.querySelectorAll('svg .mark').length") == 2 + 1 + 3 + 4
            page.screenshot(tmp_path / f"dashboard-{width}-{dark}.png")
    assert page.complaints == [], "something was blocked or failed to load"
    page.run("document.querySelector('header button').click()")
    page.until("document.querySelector('#token') !== null")
