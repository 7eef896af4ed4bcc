"""The participant's page of a wave about private neighbours: the list stays here, and only the answer is sent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.client.test_languages import TABLES, prefer
from tests.support.axe import needs_axe, violations
from tests.support.chromium import NEEDS_CHROMIUM, Page
from tests.support.neighbour_series import CAPPED, CLASS, HISTOGRAM, PEOPLE, PEOPLE_FILE, TABLE, waves_of
from tests.support.participant_page import SUBMIT, Collector, ready, serving, shown
from tests.support.running_collector import listening
from veilgraph.campaign import Campaign
from veilgraph.campaign.tokens import new_key, token_for
from veilgraph.collector.app import make_app
from veilgraph.collector.auth import Credentials
from veilgraph.collector.middleware import Limits
from veilgraph.collector.store import ReportStore

pytestmark = NEEDS_CHROMIUM

INVITATION = "#node=u0&token=t0ken"


@contextmanager
def serving_wave(wave: Campaign) -> Iterator[Collector]:
    with serving(wave.to_json()) as collector:
        collector.published = {hashlib.sha256(each).hexdigest(): each for each in (PEOPLE_FILE, TABLE.to_bytes())}
        yield collector


def fill(contacts: str, limit: float | None = None) -> str:
    typed = "" if limit is None else f"document.getElementById('contact-limit').value = '{limit}';"
    area = f"document.getElementById('contacts').value = {json.dumps(contacts)};"
    return area + typed + "document.getElementById('consent').click();" + SUBMIT


def text(page: Page, name: str) -> str:
    return str(page.run(f"document.getElementById('{name}').textContent"))


def levels(page: Page) -> list[str]:
    found: list[str] = page.run("[...document.querySelectorAll('#levels li strong')].map(each => each.textContent)")
    return found


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, True)])
def test_a_person_names_contacts_sees_the_answer_and_sends_it_alone(page: Page, width: int, dark: bool) -> None:
    """One entry costs 1, so 74 in 100; both ends 2, so 89 in 100; whole lists are not protected."""
    wave = waves_of(HISTOGRAM)[1]
    with serving_wave(wave) as collector:
        ready(page, collector.url + INVITATION, width=width, dark=dark)
        assert levels(page) == ["near certainty", "74 in 100", "89 in 100"]
        assert shown(page, "weak")
        assert "Your whole list is not protected" in text(page, "weak")
        assert "2.72 times as likely" in text(page, "exact")  # e^1
        assert "protected by what they send" in text(page, "unprotected")
        assert page.run("document.documentElement.scrollWidth") == width
        page.run(fill("u1\r\n ü \n\nu1\n", limit=1.5))
        page.until("!document.getElementById('review').hidden")
        assert "this round costs 1, and your rounds before: 0" in text(page, "cost")
        assert collector.received == [], "sent before the person agreed"
        assert page.run("document.documentElement.scrollWidth") == width
        assert page.run("document.querySelector('#rows td').textContent") == "2 contacts"
        said = page.run("[...document.querySelectorAll('.set li')].map(item => item.textContent)")
        page.run("document.getElementById('send').click()")
        page.until("!document.getElementById('done').hidden")
        ((node, token, report),) = collector.received
        assert (node, token) == ("u0", "Bearer t0ken")
        assert set(report) == {"answer", "campaign", "node"}
        assert report["campaign"] == wave.id
        assert [line.split(":")[0] for line in said] == ["red", "green", "blue"]
        assert [float(line.split(":")[1]) for line in said] == pytest.approx(
            [count / HISTOGRAM.scale for count in report["answer"]], abs=0.005
        )
        kept = page.run("JSON.stringify(localStorage) + JSON.stringify(sessionStorage)")
        assert "ü" not in kept, "the list was stored"
        assert "u1" not in kept
        assert page.complaints == []


def test_a_class_is_explained_and_needs_no_second_limit(page: Page) -> None:
    with serving_wave(waves_of(CAPPED, CLASS)[2]) as collector:
        ready(page, collector.url + INVITATION)
        assert levels(page) == ["89 in 100", "89 in 100", "99 in 100"]
        assert not shown(page, "weak")
        assert page.run("document.getElementById('contact-limit')") is None
        assert text(page, "meaning").startswith("What is sent names 1 of the 3 possible answers to label.")
        assert "2 in all" in text(page, "rounds")
        assert "Together with the answer to" in text(page, "rounds")
        assert "it cannot be taken back" in text(page, "published")
        assert text(page, "round") == "Round 2, about your contacts."
        page.run(fill(""))
        page.until("!document.getElementById('review').hidden")
        assert page.run("document.querySelector('#rows td').textContent") == "0 contacts"
        page.run("document.getElementById('send').click()")
        page.until("!document.getElementById('done').hidden")
        assert len(collector.received[0][2]["answer"]) == 1
        assert "never draw others for this round" in text(page, "kept")
        assert page.complaints == []


def test_a_kept_answer_is_shown_again_without_the_list(page: Page) -> None:
    with serving_wave(waves_of(CLASS)[1]) as collector:
        ready(page, collector.url + INVITATION)
        page.run(fill("u1\nu2"))
        page.until("!document.getElementById('review').hidden")
        said = text(page, "raw")
        ready(page, collector.url + INVITATION)
        assert not shown(page, "form")
        assert page.run("document.querySelector('#rows td').textContent") == "not kept"
        assert text(page, "raw") == said


PROBLEMS: dict[str, tuple[str, float | None, str]] = {
    "a stranger": ("u1\nu6161", 2.0, "A name on your list does not take part in this survey"),
    "a limit that is too small": ("u1", 0.5, "For a single contact this round costs 1 privacy points"),
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_problem_is_told_without_a_name_and_nothing_is_drawn(page: Page, problem: str) -> None:
    contacts, limit, words = PROBLEMS[problem]
    wave = waves_of(HISTOGRAM)[1]
    with serving_wave(wave) as collector:
        ready(page, collector.url + INVITATION)
        page.run(fill(contacts, limit))
        page.until("!document.getElementById('problem').hidden")
        assert words in text(page, "problem")
        assert "6161" not in text(page, "problem")
        assert page.run(f"localStorage.getItem('veilgraph:{wave.id}')") is None
        assert page.run("document.getElementById('contacts').value") == contacts, "the list was lost"
        page.run("document.getElementById('consent').click()")
        page.run(fill("u1", 2.0))
        page.until("!document.getElementById('review').hidden")


def test_withdrawing_is_about_the_whole_series(page: Page) -> None:
    first, one, two = waves_of(CLASS, CLASS)
    with serving_wave(one) as collector:
        ready(page, collector.url + INVITATION)
        page.run(fill("u1"))
        page.until("!document.getElementById('review').hidden")
        page.run("document.getElementById('send').click()")
        page.until("!document.getElementById('done').hidden")
        page.run("document.getElementById('withdraw').click()")
        page.until("document.getElementById('withdraw-part').hidden")
        assert collector.withdrawn == [("u0", "Bearer t0ken")]
        assert first.id in text(page, "signed-receipt")
        collector.campaign = two.to_json()
        ready(page, collector.url + INVITATION)
        assert not shown(page, "form"), "a person who withdrew is asked again"
        assert "withdrawn" in text(page, "done-heading")


def test_a_table_that_was_exchanged_is_refused(page: Page) -> None:
    with serving_wave(waves_of(CLASS)[1]) as collector:
        collector.published[TABLE.sha256] = TABLE.to_bytes()[:-2] + b"\0\0"
        ready(page, collector.url + INVITATION)
        page.run(fill("u1"))
        page.until("!document.getElementById('problem').hidden")
        assert "was altered or is damaged" in text(page, "problem")


def test_names_are_added_from_a_file(page: Page) -> None:
    with serving_wave(waves_of(CLASS)[1]) as collector:
        ready(page, collector.url + INVITATION)
        page.run(
            "const held = new DataTransfer(); held.items.add(new File(['u2\\nu3\\n'], 'contacts.txt'));"
            "const input = document.getElementById('contacts-file'); document.getElementById('contacts').value = 'u1';"
            "input.files = held.files; input.dispatchEvent(new Event('change'));"
        )
        page.until("document.getElementById('contacts').value.includes('u3')")
        assert page.run("document.getElementById('contacts').value").split() == ["u1", "u2", "u3"]


def test_a_real_collector_stores_and_withdraws_what_the_page_sends(page: Page, tmp_path: Path) -> None:
    first, one = waves_of(HISTOGRAM)
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    store.register(first, now=0.0)
    key = new_key()
    app = make_app(
        campaign=one,
        graph=PEOPLE,
        store=store,
        credentials=Credentials(keys=[key], admin_token="an admin token for tests only"),
        limits=Limits(requests_per_second=0),
        published={hashlib.sha256(each).hexdigest(): each for each in (PEOPLE_FILE, TABLE.to_bytes())},
    )
    with listening(app) as client:
        ready(page, f"{client.base_url}/#node=u0&token={token_for(key, first.id, 'u0')}")
        page.run(fill("u1\nü", limit=1.0))
        page.until("!document.getElementById('review').hidden")
        page.run("document.getElementById('send').click()")
        page.until("!document.getElementById('done').hidden")
        assert text(page, "receipt") == "Your changed answers were stored."
        page.run("document.getElementById('check').click()")
        page.until("document.getElementById('standing').textContent.includes('holds')")
        assert text(page, "standing") == "The server holds exactly these changed answers."
        page.run("document.getElementById('withdraw').click()")
        page.until("document.getElementById('withdraw-part').hidden")
        assert store.withdrawals(first.id) == 1
        assert page.complaints == []


@needs_axe
@pytest.mark.parametrize("tag", TABLES)
def test_everyone_can_use_it_in_every_language(page: Page, tag: str) -> None:
    with serving_wave(waves_of(HISTOGRAM, HISTOGRAM)[2]) as collector:
        prefer(page, tag)
        ready(page, collector.url + INVITATION)
        found: list[Any] = violations(page)
        page.run(fill("u1", 3.0))
        page.until("!document.getElementById('review').hidden")
        assert found + violations(page) == []
