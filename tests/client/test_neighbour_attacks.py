"""An organiser who chooses every document and file learns nothing from a device but what its answer is made to tell.

Two devices have lists that differ in one person, X. Whatever is published, both refuse in the same words, or both send
an answer of the same form: nothing but the randomized content can depend on X.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.browser_module import in_node, needs_node
from tests.support.forgeries import rewritten
from tests.support.neighbour_series import (
    ANSWERS,
    CLASS,
    CLOSES,
    HISTOGRAM,
    LIST,
    NAMES,
    PEOPLE_FILE,
    TABLE,
    first_document,
    waves_of,
)
from veilgraph.campaign import Campaign
from veilgraph.campaign.neighbours.next_wave import NextWave
from veilgraph.campaign.neighbours.people_file import PeopleFile, people_file
from veilgraph.campaign.neighbours.wave import series_of
from veilgraph.client import Published, answer, answer_neighbours, verify
from veilgraph.errors import CampaignError, VeilgraphError
from veilgraph.graph import Graph
from veilgraph.privacy.belief_table import BeliefTable
from veilgraph.privacy.mechanisms import NeighbourMechanism, RandomizedNeighbourList

X = "u10"
WITHOUT_X = ["u0", "ü"]
WITH_X = ["u0", X, "ü"]
NODE = "u1"
ROW = PeopleFile.of(NAMES).names.index(X)
OTHERS = [name if name != X else "v" for name in NAMES]
MECHANISMS: dict[str, Any] = {**ANSWERS, "list": LIST}


def serve(wave: Campaign, table: bytes | None = TABLE.to_bytes(), people: bytes = PEOPLE_FILE) -> Published:
    """Return a wave with the hashes of these files in its document."""
    text = rewritten(wave, neighbours__people=hashlib.sha256(people).hexdigest())
    if series_of(wave.asked).asks_for_lists:
        return Published(text, people)
    assert table is not None
    named = rewritten(Campaign.from_json(text), neighbours__table=hashlib.sha256(table).hexdigest())
    return Published(named, people, table)


def with_code_of_x(code: int) -> bytes:
    place = len(TABLE.to_bytes()) - 2 * len(NAMES) + 2 * ROW
    return TABLE.to_bytes()[:place] + code.to_bytes(2, "little") + TABLE.to_bytes()[place + 2 :]


def with_fingerprint_of_x(fingerprint: bytes) -> bytes:
    place = len(PEOPLE_FILE) - 3 * len(NAMES) + 3 * ROW
    return PEOPLE_FILE[:place] + fingerprint + PEOPLE_FILE[place + 3 :]


def with_byte_before_the_fingerprints(back: int, value: int) -> bytes:
    place = len(PEOPLE_FILE) - 3 * len(NAMES) - back
    return PEOPLE_FILE[:place] + bytes([value]) + PEOPLE_FILE[place + 1 :]


def of_fewer_people(mechanism: NeighbourMechanism) -> Published:
    """Return the first wave of a series whose people never had X."""
    names = [name for name in NAMES if name != X]
    people = Graph.without_edges(len(names), node_ids=names)
    table = BeliefTable.of(np.full((len(names), 3), 1 / 3))
    asked = RandomizedNeighbourList(len(names), 3.0) if mechanism is LIST else mechanism
    sha256 = None if mechanism is LIST else table.sha256
    wave = NextWave(answer=asked, closes=CLOSES).after(first_document(people), people=people, table=sha256)
    return Published(wave.to_json(), people_file(names), None if mechanism is LIST else table.to_bytes())


def attacks(mechanism: NeighbourMechanism) -> Iterator[tuple[str, list[Published]]]:
    """Yield what an organiser may serve, wave by wave, to find out whether X is in a list."""
    wave = waves_of(mechanism)[1]
    stranger = PEOPLE_FILE[-3 * len(NAMES) :][:3]
    yield "everything in order", [serve(wave)]
    yield "X was never there", [of_fewer_people(mechanism)]
    yield "another person in the place of X", [serve(wave, people=people_file(OTHERS))]
    yield "X is nobody's fingerprint", [serve(wave, people=with_fingerprint_of_x(b"\0\0\0"))]
    yield "X has the row of another person", [serve(wave, people=with_fingerprint_of_x(stranger))]
    yield "the bucket of X is empty", [serve(wave, people=with_byte_before_the_fingerprints(2, 0))]
    yield "the bucket of X has no such part", [serve(wave, people=with_byte_before_the_fingerprints(1, 8))]
    yield "X is cut off", [serve(wave, people=PEOPLE_FILE[:-3])]
    if mechanism is LIST:
        return
    yield "nothing is believed about X", [serve(wave, table=with_code_of_x(0))]
    yield "the last belief about X", [serve(wave, table=with_code_of_x(1891))]  # ways to give 60 units to 3 classes
    yield "no belief has the code of X", [serve(wave, table=with_code_of_x(1892))]
    yield "the row of X is cut off", [serve(wave, table=TABLE.to_bytes()[:-2])]
    one, two = waves_of(mechanism, mechanism)[1:]
    yield "X leaves after the first wave", [serve(one), serve(two, people=people_file(OTHERS))]
    yield "X comes after the first wave", [serve(one, people=people_file(OTHERS)), serve(two)]


CASES = {f"{name}: {attack}": served for name, mechanism in MECHANISMS.items() for attack, served in attacks(mechanism)}


def seen_from(report: Any) -> Any:
    """Return what an answer shows beside its content: its parts, their types, and how many they are."""
    if isinstance(report, dict):
        return {key: seen_from(value) for key, value in report.items()}
    return type(report).__name__


def observed(served: list[Published], neighbours: list[str], store: Path) -> list[Any]:
    """Return what an organiser sees of a device in Python, wave by wave."""
    seen: list[Any] = []
    for published in served:
        try:
            report = answer_neighbours(
                published,
                neighbours,
                node=NODE,
                store=store,
                max_epsilon=1e6,
                max_entry_epsilon=1e6,
            )
            seen.append(seen_from(report))
        except VeilgraphError as error:
            seen.append((type(error).__name__, str(error)))
    return seen


def test_whatever_is_published_the_organiser_sees_the_same_with_and_without_one_neighbour(tmp_path: Path) -> None:
    for name, served in CASES.items():
        with_x, without = (
            observed(served, listed, tmp_path / name / str(len(listed))) for listed in (WITH_X, WITHOUT_X)
        )
        assert with_x == without, name


@needs_node
def test_whatever_is_published_the_same_is_seen_of_a_browser() -> None:
    def request(served: list[Published], listed: list[str]) -> dict[str, Any]:
        asked = {"list": listed, "node": NODE}
        requests = [
            asked
            | {"campaign": document, "people": base64.b64encode(people).decode()}
            | {"table": None if table is None else base64.b64encode(table).decode()}
            for document, people, table in served
        ]
        return {"limit": 1e6, "entryLimit": 1e6, "requests": requests}

    for name, served in CASES.items():
        done = in_node("waveDevice", [request(served, WITH_X), request(served, WITHOUT_X)])
        with_x, without = (
            [
                (seen_from(reply["result"]) if "result" in reply else reply["error"], reply["looks"])
                for reply in each["result"]["replies"]
            ]
            for each in done
        )
        assert with_x == without, name


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_who_is_left_out_of_the_people_adds_nothing_and_only_the_person_is_told_after_the_draw(
    mechanism: NeighbourMechanism, tmp_path: Path
) -> None:
    published = of_fewer_people(mechanism)
    settings: dict[str, Any] = {"node": NODE, "store": tmp_path, "max_epsilon": 1e6, "max_entry_epsilon": 1e6}
    report = answer_neighbours(published, [*WITH_X, X], **settings)
    assert report.unlisted == (X,)
    assert X not in f"{report} {report!r} {report.text}", "it is neither sent nor shown with the report"
    assert X not in "".join(path.read_text() for path in tmp_path.glob("*.json")), "it is written nowhere"
    again = answer_neighbours(published, [X], **settings)
    assert (again, again.unlisted) == (report, ())


def test_an_unknown_neighbour_changes_no_sum_and_no_row() -> None:
    text = waves_of(CLASS)[1].to_json()
    wave = verify(text, max_epsilon=9.0).asked.about_a_list()
    people, sums = wave.open_files(Published(text, PEOPLE_FILE, TABLE.to_bytes()), NODE)
    assert sums([*WITH_X, "stranger"]) == sums(WITH_X)
    assert people.rows([*WITH_X, "stranger"]) == people.rows(WITH_X)


OF_OTHERS = {"people": "neighbours__people", "graph": "graph__sha256"}


@pytest.mark.parametrize(("begins", "place"), [("label", "graph"), ("wave 1", "graph"), ("wave 1", "people")])
def test_a_device_refuses_a_wave_about_other_people_than_the_first_that_it_answered(
    begins: str, place: str, tmp_path: Path
) -> None:
    first, one, two = waves_of(HISTOGRAM, HISTOGRAM)
    settings: dict[str, Any] = {"node": NODE, "store": tmp_path, "max_epsilon": 9.0}
    people = people_file(OTHERS)
    value = hashlib.sha256(people).hexdigest()
    if begins == "label":
        answer(first.to_json(), {"label": "red"}, **settings)
        later = one
    else:
        wave = Published(one.to_json(), PEOPLE_FILE, TABLE.to_bytes())
        answer_neighbours(wave, WITH_X, max_entry_epsilon=9.0, **settings)
        later = two
    with pytest.raises(CampaignError, match="other people, or another graph, than its series"):
        answer_neighbours(
            Published(
                rewritten(later, **{OF_OTHERS[place]: value}),
                people if place == "people" else PEOPLE_FILE,
                TABLE.to_bytes(),
            ),
            WITH_X,
            max_entry_epsilon=9.0,
            **settings,
        )


@needs_node
@pytest.mark.parametrize("place", OF_OTHERS.values(), ids=OF_OTHERS)
def test_a_browser_refuses_a_wave_about_other_people_than_the_first_that_it_answered(place: str) -> None:
    first, one, two = waves_of(HISTOGRAM, HISTOGRAM)
    people = people_file(OTHERS)
    served = {"people": base64.b64encode(PEOPLE_FILE).decode(), "table": base64.b64encode(TABLE.to_bytes()).decode()}
    asked = {"list": WITH_X, "node": NODE} | served
    other = base64.b64encode(people).decode() if "people" in place else served["people"]
    label = {"campaign": first.to_json(), "record": {"label": "red"}, "node": NODE}
    fork = asked | {"campaign": rewritten(two, **{place: hashlib.sha256(people).hexdigest()}), "people": other}
    requests = [label, asked | {"campaign": one.to_json()}, fork]
    if "graph" in place:
        requests.append(asked | {"campaign": rewritten(one, **{place: "0" * 64})})
    request = {"limit": 1e6, "entryLimit": 1e6, "requests": requests}
    now = datetime(2026, 11, 18, tzinfo=UTC)
    (done,) = in_node("waveDevice", [request], now=now)
    replies = done["result"]["replies"]
    assert all("result" in reply for reply in replies[:2])
    assert {reply["error"] for reply in replies[2:]} == {"The people of this series were changed."}
    assert {reply["looks"] for reply in replies[2:]} == {0}
