"""The participant's page of a wave about private neighbours: the list stays here, and only the answer is sent."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.client.test_languages import TABLES, prefer
from tests.support.axe import needs_axe, violations
from tests.support.chromium import NEEDS_CHROMIUM, Page
from tests.support.neighbour_lists import rows_in
from tests.support.neighbour_series import (
    CAPPED,
    CLASS,
    CLOSES,
    HISTOGRAM,
    LIST,
    PEOPLE,
    PEOPLE_FILE,
    TABLE,
    first_document,
    waves_of,
)
from tests.support.participant_page import (
    CHECK,
    SUBMIT,
    Collector,
    click,
    deliver,
    ready,
    review,
    serving,
    shown,
    words,
)
from tests.support.running_collector import collector_of, listening
from veilgraph.campaign import Campaign
from veilgraph.campaign.neighbours.next_wave import NextWave
from veilgraph.campaign.neighbours.people_file import people_file
from veilgraph.campaign.neighbours.series_label import FollowedBy
from veilgraph.campaign.neighbours.wave import series_of
from veilgraph.campaign.tokens import new_key, token_for
from veilgraph.collector.auth import Credentials, Role, new_role_token
from veilgraph.collector.middleware import Limits
from veilgraph.collector.store import ReportStore
from veilgraph.graph import Graph
from veilgraph.privacy.mechanisms import RandomizedNeighbourList

pytestmark = NEEDS_CHROMIUM

INVITATION = "#node=u0&token=t0ken"
LIMIT_OF_2 = "document.getElementById('contact-limit').value = '2';"


@contextmanager
def serving_wave(wave: Campaign) -> Iterator[Collector]:
    with serving(wave.to_json()) as collector:
        collector.published = {hashlib.sha256(each).hexdigest(): each for each in (PEOPLE_FILE, TABLE.to_bytes())}
        yield collector


def fill(contacts: str, limit: float | None = None) -> str:
    typed = "" if limit is None else f"document.getElementById('contact-limit').value = '{limit}';"
    area = f"document.getElementById('contacts').value = {json.dumps(contacts)};"
    return area + typed + "document.getElementById('consent').click();" + SUBMIT


def levels(page: Page) -> list[str]:
    found: list[str] = page.run("[...document.querySelectorAll('#levels li strong')].map(each => each.textContent)")
    return found


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, True)])
def test_a_person_names_contacts_sees_the_answer_and_sends_it_alone(page: Page, width: int, dark: bool) -> None:
    """One entry costs 1, so 74 in 100; both ends 2, so 89 in 100; whole lists are not protected."""
    wave = waves_of(HISTOGRAM)[1]
    with serving_wave(wave) as collector:
        ready(page, collector.url + INVITATION, width=width, dark=dark)
        assert levels(page) == ["almost certain", "74 in 100", "89 in 100"]
        assert shown(page, "weak")
        assert "Your whole list is not protected" in words(page, "weak")
        assert "2.72 times as likely" in words(page, "exact")  # e^1
        assert "protected by what they send" in words(page, "unprotected")
        assert page.run("document.documentElement.scrollWidth") == width
        review(page, fill("u1\r\n ü \n\nu1\n", limit=1.5))
        assert "this round costs 1, and your rounds before: 0" in words(page, "cost")
        assert collector.received == [], "sent before the person agreed"
        assert page.run("document.documentElement.scrollWidth") == width
        assert page.run("document.querySelector('#rows td').textContent") == "2 contacts"
        said = page.run("[...document.querySelectorAll('#rows .set li')].map(item => item.textContent)")
        deliver(page)
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
        assert words(page, "meaning").startswith("What is sent names 1 of the 3 possible answers to label.")
        assert "2 in all" in words(page, "rounds")
        assert "Together with the answer to" in words(page, "rounds")
        assert "it cannot be taken back" in words(page, "published")
        assert words(page, "round") == "Round 2, about your contacts."
        review(page, fill(""))
        assert page.run("document.querySelector('#rows td').textContent") == "0 contacts"
        deliver(page)
        assert len(collector.received[0][2]["answer"]) == 1
        assert "never draw others for this round" in words(page, "kept")
        assert page.complaints == []


# --- Names to choose from --------------------------------------------------------------------------------------------

CONTACT_NAMES = {"u0": "Anna Weber", "u1": "Zoë Núñez", "u2": "Мария Петрова", "u3": "فاطمة حسن", "ü": "Anna Weber"}


def search(page: Page, typed: str) -> list[str]:
    """Type into the field that finds contacts; return who is offered."""
    page.run(
        f"(() => {{ const field = document.getElementById('contact-search'); field.value = {json.dumps(typed)};"
        "field.dispatchEvent(new Event('input')); })()"
    )
    page.until("document.getElementById('contact-status').textContent")
    offered: list[str] = page.run("[...document.querySelectorAll('#contact-found li')].map(each => each.textContent)")
    return offered


def choose(page: Page) -> None:
    page.run("document.querySelector('#contact-found button').click()")


def chosen(page: Page) -> list[str]:
    found: list[str] = page.run("[...document.querySelectorAll('#contact-chosen li')].map(each => each.textContent)")
    return found


@needs_axe
@pytest.mark.parametrize("tag", ["en", "ar"])
def test_contacts_are_chosen_by_name_and_the_server_learns_no_name(page: Page, tag: str) -> None:
    """Case and accents do not matter, people of one name differ by number, and the draw takes the numbers."""
    with serving_wave(waves_of(CLASS)[1]) as collector:
        collector.contact_names = CONTACT_NAMES
        prefer(page, tag)
        ready(page, collector.url + INVITATION, width=390)
        assert search(page, "nunez") == ["Zoë Núñez (u1)"]
        choose(page)
        assert search(page, "МАРИЯ") == ["Мария Петрова (u2)"]
        assert search(page, "anna") == ["Anna Weber (u0)", "Anna Weber (ü)"]
        assert search(page, "فاطمة") == ["فاطمة حسن (u3)"]
        assert search(page, "nobody") == []
        assert search(page, "U3") == ["فاطمة حسن (u3)"]
        choose(page)
        assert [each.removesuffix(" ×") for each in chosen(page)] == ["Zoë Núñez (u1)", "فاطمة حسن (u3)"]
        assert violations(page) == []
        assert page.run("document.documentElement.scrollWidth") == 390
        page.run("document.querySelector('#contact-chosen button').click()")
        page.run(CHECK)
        page.until("!document.getElementById('checking').hidden")
        assert "فاطمة حسن (u3)" in words(page, "entered")
        assert "Zoë" not in words(page, "entered")
        assert not shown(page, "unlisted")
        review(page, "document.getElementById('consent').click();" + SUBMIT)
        # Once that there are names, once all of them, for the person who answers: the contacts are in no request.
        assert collector.names_asked == [("/v1/contact-names", None), ("/v1/contact-names/u0", "Bearer t0ken")]
        kept = page.run("JSON.stringify(localStorage) + JSON.stringify(sessionStorage)")
        assert not any(name in kept for name in CONTACT_NAMES.values())
        assert page.complaints == []


def test_who_has_no_contacts_asks_for_the_names_as_everybody_does(page: Page) -> None:
    """Else the collector would see, by name, whose list is empty."""
    with serving_wave(waves_of(CLASS)[1]) as collector:
        collector.contact_names = CONTACT_NAMES
        asked = [("/v1/contact-names", None), ("/v1/contact-names/u0", "Bearer t0ken")]
        ready(page, collector.url + INVITATION)
        page.run("fetch('v1/campaign').then(() => { window.later = true; })")
        page.until("window.later")
        assert collector.names_asked == asked, "before a search, so that the time of the request tells nothing"
        review(page, fill(""))
        assert collector.names_asked == asked
        # The same where the code is typed.
        page.run("document.querySelector('#review .someone').click()")
        collector.names_asked.clear()
        for field, typed in {"node": "u2", "code": "c0de"}.items():
            page.run(f"document.getElementById('{field}').value = '{typed}';")
            page.run(f"document.getElementById('{field}').dispatchEvent(new Event('change'))")
        page.run("window.later = false; setTimeout(() => { window.later = true; }, 300)")
        page.until("window.later")
        assert collector.names_asked == [("/v1/contact-names/u2", "Bearer c0de")]
        assert page.complaints == []


def test_the_names_are_asked_for_with_a_code_and_forgotten_with_the_person(page: Page) -> None:
    with serving_wave(waves_of(CLASS)[1]) as collector:
        collector.contact_names = CONTACT_NAMES
        ready(page, collector.url)
        assert collector.names_asked == [("/v1/contact-names", None)], "who only reads the page is not known by name"
        page.run(
            "(() => { const field = document.getElementById('contact-search'); field.value = 'anna';"
            "field.dispatchEvent(new Event('input')); })()"
        )
        page.until("!document.getElementById('problem').hidden")
        assert "enter the code" in words(page, "problem")
        ready(page, collector.url + INVITATION)
        search(page, "anna")
        choose(page)
        review(page, fill("u1"))
        page.run("document.querySelector('#review .someone').click()")
        page.until("!document.getElementById('form').hidden")
        assert chosen(page) == []
        assert "Weber" not in page.run("document.body.textContent")


# --- The list itself -------------------------------------------------------------------------------------------------


@contextmanager
def serving_list(people: int, epsilon: float) -> Iterator[tuple[Collector, Campaign]]:
    """Serve a wave that asks for the list itself among u0, u1, ..., and the only file that is published for it."""
    names = [f"u{i}" for i in range(people)]
    graph, file = Graph.without_edges(people, node_ids=names), people_file(names)
    answer = RandomizedNeighbourList(people, epsilon)
    wave = NextWave(answer=answer, closes=CLOSES).after(first_document(graph), people=graph, table=None)
    with serving(wave.to_json()) as collector:
        collector.published = {hashlib.sha256(file).hexdigest(): file}
        yield collector, wave


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, True)])
def test_a_person_sees_how_many_people_a_changed_list_names_and_sends_it(page: Page, width: int, dark: bool) -> None:
    """One entry costs 2, so 89 in 100; both ends 4, so 99 in 100. Of 3000 people 3000 / (1 + e^2) = 357.6 are named."""
    with serving_list(3000, 2.0) as (collector, wave):
        ready(page, collector.url + INVITATION, width=width, dark=dark)
        assert levels(page) == ["almost certain", "89 in 100", "99 in 100"]
        assert "who your contacts are, taken together" in words(page, "weak")
        assert "7.39 times as likely" in words(page, "exact")  # e^2
        review(page, fill("u1\nu2\n u1 ", limit=2.5))
        assert collector.received == [], "sent before the person agreed"
        assert words(page, "explained-label") == (
            "Of all 3000 participants, what is sent names some. Each of your contacts is named with a chance of 89 in "
            "100. Every other participant can be named by chance, too; on average this happens to 358 of them. So "
            "someone who is named need not be a contact of yours."
        )
        entered, said = page.run("[...document.querySelectorAll('#rows td')].map(cell => cell.textContent)")
        assert entered == "2 contacts"
        assert page.run("document.documentElement.scrollWidth") == width
        assert "under “Exactly what is sent”" in words(page, "explained")
        shown_in_full = json.loads(words(page, "raw"))
        deliver(page)
        ((_, _, report),) = collector.received
        assert report == shown_in_full
        assert (report["campaign"], report["node"]) == (wave.id, "u0")
        named = rows_in(report["answer"])
        assert said == f"{len(named)} participants are named"
        assert 200 < len(named) < 520, "nine standard deviations"
        kept = page.run("JSON.stringify(localStorage) + JSON.stringify(sessionStorage)")
        assert "u1" not in kept, "the list was stored"
        ready(page, collector.url + INVITATION)
        assert shown(page, "done"), "a kept list is read again"
        assert page.complaints == []


def test_the_page_claims_of_a_list_nothing_that_is_true_of_beliefs_alone(page: Page) -> None:
    """No beliefs are published, none are added up, and an empty list is told from a long one."""
    with serving_wave(waves_of(LIST)[1]) as collector:
        del collector.published[TABLE.sha256]
        ready(page, collector.url + INVITATION)
        assert not shown(page, "published")
        everything = page.run(
            "['guarantee', 'points', 'form'].map(id => document.getElementById(id).textContent).join()"
        )
        for untrue in (
            "publish",
            "adds up what",
            "names stay here",
            "complete table",
            "nobody can tell",
            "possible answers",
        ):
            assert untrue not in everything, untrue
        assert "Only the changed list is sent" in words(page, "how-sure")
        assert "chance alone decides who is named" in words(page, "contacts-help")
        assert "a list that chance has changed" in words(page, "stay")
        assert "with a chance of 96 in 100" in words(page, "meaning")  # e^3 / (1 + e^3), rounded up
        assert "this happens to 0.28 of them. So someone" in words(page, "meaning")  # 6 / (1 + e^3)


def test_where_hardly_anybody_is_named_by_chance_the_page_promises_no_doubt(page: Page) -> None:
    with serving_list(100, 20.0) as (collector, wave):
        ready(page, collector.url + INVITATION)
        assert words(page, "meaning").endswith("this happens to 0 of them.")
        review(page, fill("", limit=21))
        assert page.run("document.querySelector('#rows td:last-child').textContent") == "0 participants are named"
        deliver(page)
        nobody = base64.urlsafe_b64encode(bytes(-(-100 // 8))).decode().rstrip("=")
        assert collector.received[0][2] == {"answer": nobody, "campaign": wave.id, "node": "u0"}


NAMED = {
    "ar": "يُذكر مشاركان (2)",
    "de": "2 Personen werden genannt",
    "en": "2 participants are named",
    "es": "se nombra a 2 participantes",
    "fr": "2 participants sont nommés",
}


@pytest.mark.parametrize("tag", TABLES)
def test_a_list_is_explained_and_reviewed_in_every_language(page: Page, tag: str) -> None:
    with serving_list(100, 20.0) as (collector, _):
        prefer(page, tag)
        ready(page, collector.url + INVITATION, width=390)
        spoken = TABLES[tag]
        assert words(page, "how-sure") == spoken["guarantee.list"].replace("50", page.run("(50).toLocaleString()"))
        assert words(page, "weak") == spoken["weak.list"]
        assert words(page, "stay") == spoken["contacts.list.stay"]
        assert words(page, "contacts-help") == spoken["contacts.list.help"]
        assert page.run("document.documentElement.scrollWidth") == 390
        review(page, fill("u7\nu8", limit=21))
        assert page.run("document.querySelector('#rows td:last-child').textContent") == NAMED[tag]
        assert spoken["review.exact"] in words(page, "explained")
        assert page.run("document.documentElement.scrollWidth") == 390
        assert "{" not in page.run("document.getElementById('review').innerText"), "a value is missing"
        assert page.complaints == []


# --- In turns --------------------------------------------------------------------------------------------------------

# Of 3 turns u0 and u3 have the first, u1 the second and ü the third.
IN_TURNS = waves_of(CLASS, CAPPED, CLASS, turns=3)


def asked_as(node: str) -> str:
    return f"#node={node}&token=t0ken"


def not_asked(page: Page, url: str, **window: Any) -> str:
    """Open the page as a person whom the round does not ask, so that it shows no guarantee; return what it says."""
    page.complaints.clear()
    page.open(url, **window)
    page.until("!document.getElementById('turn').hidden")
    return words(page, "turn")


@pytest.mark.parametrize("width", [1200, 390])
def test_a_person_whose_turn_it_is_not_is_told_so_and_asked_nothing(page: Page, width: int) -> None:
    with serving_wave(IN_TURNS[2]) as collector:
        assert not_asked(page, collector.url + asked_as("u0"), width=width) == (
            "This round asks other participants; yours was round 1 of 3, which is over, and there is nothing left for "
            "you to do."
        )
        for part in ("form", "guarantee", "points", "own-words", "review", "done", "problem"):
            assert not shown(page, part), part
        assert shown(page, "organisers")
        assert page.run("document.documentElement.scrollWidth") == width
        page.run("document.getElementById('form').requestSubmit()")
        assert not_asked(page, collector.url + asked_as("ü"), width=width) == (
            "This round asks other participants; yours is round 3 of 3, and until it opens there is nothing for you to "
            "do."
        )
        assert not shown(page, "form")
        assert collector.received == []
        assert page.run("Object.keys(localStorage).filter(key => /[0-9a-f]{64}/.test(key))") == []
        assert page.complaints == []


def test_in_turns_the_page_says_what_one_round_costs_and_counts_no_other(page: Page) -> None:
    """One entry costs 0.1, so 53 in 100, and whole lists 0.6, so 65. With the label, which costs 2: 90 and 94.

    The other end may have answered the round before, which costs 2 for one entry: 4 bounds what both send.
    """
    with serving_wave(IN_TURNS[2]) as collector:
        ready(page, collector.url + asked_as("u1"))
        assert not shown(page, "turn")
        assert levels(page) == ["65 in 100", "53 in 100", "99 in 100"]
        assert "in this round or answered in one before" in words(page, "levels")
        said = words(page, "rounds")
        assert said.startswith("There are 3 rounds about contacts. Each participant answers one of them")
        assert "Together with the rounds before" not in said
        assert said.endswith(
            "for that answer and your whole list, 94 in 100; for that answer and any one contact, 90 in 100."
        )
        assert "not change them." in words(page, "once")
        review(page, fill("u0\nu3"))
        deliver(page)
        ((node, _, report),) = collector.received
        assert (node, report["campaign"]) == ("u1", IN_TURNS[2].id)
        assert "never draw others for this survey" in words(page, "kept")
        assert page.complaints == []


def test_a_name_that_is_typed_decides_whose_turn_it_is_and_can_be_corrected(page: Page) -> None:
    typed = "const field = document.getElementById('node'); field.focus(); field.value = '{}';"
    change = "field.dispatchEvent(new Event('change', {bubbles: true}));"
    with serving_wave(IN_TURNS[2]) as collector:
        ready(page, collector.url)
        assert shown(page, "asking")
        assert not shown(page, "turn")
        page.run(f"document.getElementById('contacts').value = 'u3'; {{{typed.format('u0')}{change}}}")
        page.until("!document.getElementById('turn').hidden")
        assert "yours was round 1 of 3" in words(page, "turn")
        for part in ("asking", "checking", "guarantee", "points"):
            assert not shown(page, part), part
        for part in ("name-field", "code-field"):
            assert shown(page, part), "a person can withdraw in the turn of others, too"
        assert page.run("document.activeElement.id") == "node", "the focus was lost"
        page.run(f"{{{typed.format('u1')}{change}}}")
        page.until("document.getElementById('turn').hidden")
        assert page.run("document.activeElement.id") == "node", "the focus was lost"
        assert page.run("document.getElementById('contacts').value") == "u3", "the list was lost"
        page.run("document.getElementById('code').value = 't0ken';")
        page.run("document.getElementById('node').value = 'u0';" + fill("u3"))  # no event: the name is read again
        page.until("!document.getElementById('turn').hidden")
        assert not shown(page, "review")
        assert page.run("Object.keys(localStorage).filter(key => /[0-9a-f]{64}/.test(key))") == []
        assert page.complaints == []


def test_a_closed_round_of_other_people_is_not_the_end_of_the_survey(page: Page) -> None:
    closed = waves_of(CLASS, turns=3)[1].revise(closes=datetime(2020, 1, 1, tzinfo=UTC))
    with serving_wave(closed) as collector:
        assert "yours is round 2 of 3" in not_asked(page, collector.url + asked_as("u1"))
        assert not shown(page, "problem")
        assert words(page, "title") == "Answer privately"
        ready(page, collector.url + asked_as("u0"))
        assert "The survey is closed" in words(page, "problem")
        assert not shown(page, "turn")


def test_what_was_sent_in_turn_can_be_withdrawn_in_the_rounds_of_others(page: Page) -> None:
    with serving_wave(IN_TURNS[1]) as collector:
        ready(page, collector.url + asked_as("u0"))
        review(page, fill("u1"))
        collector.campaign = IN_TURNS[2].to_json()
        not_asked(page, collector.url + asked_as("u0"))
        assert not shown(page, "review"), "a round that is over stores nothing"
        collector.campaign = IN_TURNS[1].to_json()
        ready(page, collector.url + asked_as("u0"))
        deliver(page)
        collector.campaign = IN_TURNS[2].to_json()
        assert "yours was round 1 of 3" in not_asked(page, collector.url + asked_as("u0"))
        assert shown(page, "done")
        assert not shown(page, "again-part")
        page.run("document.getElementById('withdraw').click(); document.getElementById('sure-yes').click()")
        page.until("document.getElementById('withdraw-part').hidden")
        assert collector.withdrawn == [("u0", "Bearer t0ken")]
        assert IN_TURNS[0].id in words(page, "signed-receipt")
        assert not shown(page, "turn")
        ready(page, collector.url + asked_as("u0"))
        assert "withdrawn" in words(page, "done-heading")
        assert page.complaints == []


def test_a_shared_device_adds_up_what_it_answered_in_all_rounds(page: Page) -> None:
    with serving_wave(IN_TURNS[1]) as collector:
        ready(page, collector.url + asked_as("u0"))
        review(page, fill("u1"))
        collector.campaign = IN_TURNS[2].to_json()
        ready(page, collector.url + asked_as("u1"))
        assert shown(page, "shared")
        assert "2.6 privacy points together" in words(page, "shared-cost")
        review(page, "document.getElementById('shared-person').click();" + fill("u0"))


@pytest.mark.parametrize("tag", TABLES)
def test_whose_turn_it_is_is_said_in_every_language(page: Page, tag: str) -> None:
    with serving_wave(IN_TURNS[2]) as collector:
        prefer(page, tag)
        for node, key, own in (("u0", "turn.over", 1), ("ü", "turn.later", 3)):
            said = not_asked(page, collector.url + asked_as(node), width=390)
            written = [page.run(f"({number}).toLocaleString(document.documentElement.lang)") for number in (own, 3)]
            expected = TABLES[tag][key].replace("{round}", written[0]).replace("{count}", written[1])
            assert said == expected
            assert page.run("document.documentElement.scrollWidth") == 390
        ready(page, collector.url + asked_as("u1"), width=390)
        three = page.run("(3).toLocaleString(document.documentElement.lang)")
        assert words(page, "rounds").startswith(TABLES[tag]["rounds.turns"].replace("{count}", three))
        assert words(page, "levels").endswith(TABLES[tag]["level.both.turns"])
        assert page.run("document.documentElement.scrollWidth") == 390
        assert page.complaints == []


# --- Problems, withdrawing, a real collector -------------------------------------------------------------------------


def test_a_limit_that_is_too_small_is_told_and_nothing_is_drawn(page: Page) -> None:
    wave = waves_of(HISTOGRAM)[1]
    with serving_wave(wave) as collector:
        ready(page, collector.url + INVITATION)
        page.run(fill("u1", 0.5))
        page.until("!document.getElementById('problem').hidden")
        assert "For a single contact this round costs 1 privacy points" in words(page, "problem")
        assert page.run(f"localStorage.getItem('veilgraph:{wave.id}')") is None
        assert page.run("document.getElementById('contacts').value") == "u1", "the list was lost"
        click(page, "consent")
        review(page, fill("u1", 2.0))


@pytest.mark.parametrize("width", [390, 1280])
def test_a_contact_who_is_not_in_the_survey_is_named_before_the_draw_to_the_person_alone(
    page: Page, width: int
) -> None:
    wave = waves_of(HISTOGRAM)[1]
    with serving_wave(wave) as collector:
        ready(page, collector.url + INVITATION, width=width)
        page.run("document.getElementById('contacts').value = 'u1';" + LIMIT_OF_2 + CHECK)
        page.until("!document.getElementById('checking').hidden")
        assert not shown(page, "unlisted")
        asked = collector.asked_from.copy()
        click(page, "change")
        page.run("document.getElementById('contacts').value = 'u1\\nu6161';" + CHECK)
        page.until("!document.getElementById('checking').hidden")
        assert shown(page, "unlisted")
        assert "count for nothing in your answer" in words(page, "unlisted")
        assert words(page, "unlisted-names") == "u6161"
        assert collector.asked_from == asked, "the collector learns of it"
        assert page.run(f"localStorage.getItem('veilgraph:{wave.id}')") is None, "drawn before the person agreed"
        review(page, "document.getElementById('consent').click(); document.getElementById('draw').click()")
        assert "6161" not in page.run("JSON.stringify(localStorage) + JSON.stringify(sessionStorage)")
        assert page.run("document.documentElement.scrollWidth") == width
        deliver(page)
        assert "6161" not in json.dumps(collector.received)
        assert page.complaints == []


def test_a_mistyped_name_is_told_before_anything_is_drawn(page: Page) -> None:
    wave = waves_of(HISTOGRAM)[1]
    with serving_wave(wave) as collector:
        ready(page, collector.url + asked_as("nobody"))
        page.run(fill("u1", 2.0))
        page.until("!document.getElementById('problem').hidden")
        assert "Your participant name is not among those who take part" in words(page, "problem")
        assert page.run(f"localStorage.getItem('veilgraph:{wave.id}')") is None
        assert page.complaints == []


def test_a_list_that_is_not_protected_is_not_counted_as_nothing(page: Page) -> None:
    """The histogram costs 1 for one contact, and does not count. The class costs 2 for any two lists, and counts."""
    _, one, two = waves_of(HISTOGRAM, CLASS)
    with serving_wave(one) as collector:
        ready(page, collector.url + INVITATION)
        review(page, fill("u1", 4.0))
        assert "1 points for any one contact, and the whole list is not protected; the survey" in words(page, "entries")
        collector.campaign = two.to_json()
        ready(page, collector.url + INVITATION)
        assert words(page, "spent").endswith(
            "This does not count your whole list of contacts, which not all of these answers protect."
        )
        ready(page, collector.url + asked_as("u1"))
        assert "3 privacy points together about any one contact, and the whole list is not" in words(
            page, "shared-cost"
        )
        assert page.complaints == []


def test_withdrawing_is_about_the_whole_series(page: Page) -> None:
    first, one, two = waves_of(CLASS, CLASS)
    with serving_wave(one) as collector:
        ready(page, collector.url + INVITATION)
        review(page, fill("u1"))
        deliver(page)
        page.run("document.getElementById('withdraw').click(); document.getElementById('sure-yes').click()")
        page.until("document.getElementById('withdraw-part').hidden")
        assert collector.withdrawn == [("u0", "Bearer t0ken")]
        assert first.id in words(page, "signed-receipt")
        collector.campaign = two.to_json()
        ready(page, collector.url + INVITATION)
        assert not shown(page, "form"), "a person who withdrew is asked again"
        assert "withdrawn" in words(page, "done-heading")


def test_a_table_that_was_exchanged_is_refused(page: Page) -> None:
    with serving_wave(waves_of(CLASS)[1]) as collector:
        collector.published[TABLE.sha256] = TABLE.to_bytes()[:-2] + b"\0\0"
        ready(page, collector.url + INVITATION)
        page.run(fill("u1"))
        page.until("!document.getElementById('problem').hidden")
        assert "was altered or is damaged" in words(page, "problem")


def test_a_published_file_that_breaks_off_is_gone_on_with(page: Page) -> None:
    with serving_wave(waves_of(CLASS)[1]) as collector:
        collector.part = len(TABLE.to_bytes()) - 1
        ready(page, collector.url + INVITATION)
        page.run(fill("u1"))
        page.until("!document.getElementById('review').hidden", timeout=30)
        assert {asked for asked in collector.asked_from if asked} >= {f"bytes={collector.part}-"}


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


@pytest.mark.parametrize("answer", [HISTOGRAM, LIST], ids=["counts", "list"])
def test_a_real_collector_stores_and_withdraws_what_the_page_sends(page: Page, tmp_path: Path, answer: Any) -> None:
    first, one = waves_of(answer)
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    store.documents.register(first, now=0.0)
    key = new_key()
    app = collector_of(
        campaign=one,
        graph=PEOPLE,
        store=store,
        credentials=Credentials(keys=[key], admin_token=new_role_token(Role.OWNER)),
        limits=Limits(requests_per_second=0),
        published={
            digest: each
            for each in (PEOPLE_FILE, TABLE.to_bytes())
            if (digest := hashlib.sha256(each).hexdigest()) in series_of(one.asked).published
        },
    )
    with listening(app) as client:
        ready(page, f"{client.base_url}/#node=u0&token={token_for(key, first.id, 'u0')}")
        review(page, fill("u1\nü", limit=3.0))
        deliver(page)
        assert words(page, "receipt") == "Your changed answers were stored."
        click(page, "check")
        page.until("document.getElementById('standing').textContent.includes('holds')")
        assert words(page, "standing") == "The server holds exactly these changed answers."
        page.run("document.getElementById('withdraw').click(); document.getElementById('sure-yes').click()")
        page.until("document.getElementById('withdraw-part').hidden")
        assert store.withdrawals.count(first.id) == 1
        assert page.complaints == []


@needs_axe
@pytest.mark.parametrize("tag", TABLES)
def test_everyone_can_read_whose_turn_it_is_in_every_language(page: Page, tag: str) -> None:
    with serving_wave(IN_TURNS[2]) as collector:
        prefer(page, tag)
        not_asked(page, collector.url + asked_as("u0"))
        invited: list[Any] = violations(page)
        page.run("sessionStorage.clear()")
        ready(page, collector.url)
        page.run("node.value = 'u0'; node.dispatchEvent(new Event('change'))")
        page.until("!document.getElementById('turn').hidden")
        assert invited + violations(page) == []


@needs_axe
@pytest.mark.parametrize("tag", TABLES)
@pytest.mark.parametrize("answers", [[HISTOGRAM, HISTOGRAM], [LIST]], ids=["counts", "list"])
def test_everyone_can_use_it_in_every_language(page: Page, tag: str, answers: list[Any]) -> None:
    with serving_wave(waves_of(*answers)[-1]) as collector:
        prefer(page, tag)
        ready(page, collector.url + INVITATION)
        found: list[Any] = violations(page)
        limit = "const field = document.getElementById('contact-limit'); if (field) field.value = '3';"
        page.run(f"{{{limit}}} document.getElementById('contacts').value = 'nobody';" + CHECK)
        page.until("!document.getElementById('checking').hidden")
        found += violations(page)
        click(page, "change")
        review(page, fill("u1", 3.0))
        assert found + violations(page) == []


@pytest.mark.parametrize(("followed_by", "is_published"), [("waves", True), ("lists", False)])
def test_who_reports_the_label_is_told_before_the_draw_what_follows_and_what_is_published(
    page: Page, followed_by: FollowedBy, is_published: bool
) -> None:
    with serving(first_document(followed_by=followed_by).to_json()) as collector:
        ready(page, collector.url + INVITATION)
        page.run("document.querySelector('#questions input').click();" + CHECK)
        page.until("!document.getElementById('checking').hidden")
        assert shown(page, "published")
        said = words(page, "published")
        assert "Rounds about your contacts follow" in said
        assert ("which answer was sent for you" in said) is is_published
        assert ("cannot be taken back" in said) is is_published
