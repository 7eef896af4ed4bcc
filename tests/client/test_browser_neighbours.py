"""Private neighbours in the browser: the same table, sums, answers and epsilons as in the package."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import random
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from tests.support import make_neighbour_vectors
from tests.support.browser_module import BROWSER, in_node, needs_node
from tests.support.campaigns import ScriptedWords
from tests.support.make_neighbour_vectors import (
    MECHANISMS,
    NUM_PEOPLE,
    Answer,
    answer_of,
    document,
    names_of,
    published,
    table_of,
)
from tests.support.neighbour_lists import rows_in, text_of
from veilgraph.campaign.neighbours.people_file import people_file
from veilgraph.client.lists import ListClass, ListHistogram, RandomizedList
from veilgraph.client.mechanisms import SetTable, Table
from veilgraph.privacy.belief_table import BeliefTable, finest_scale
from veilgraph.privacy.mechanisms import NeighbourhoodClass, NeighbourhoodHistogram, RandomizedNeighbourList

VECTORS: list[dict[str, Any]] = json.loads(make_neighbour_vectors.PATH.read_text(encoding="utf-8"))
TURNS: list[dict[str, Any]] = json.loads(make_neighbour_vectors.TURNS_PATH.read_text(encoding="utf-8"))


def request(table: BeliefTable, **more: Any) -> dict[str, Any]:
    return published(len(table), table.num_classes, table) | {"mechanism": None} | more


def looked_up(case: dict[str, Any]) -> dict[str, Any]:
    """Return what a device finds of a list in what is published: sums of beliefs, or rows of people."""
    return {key: case[key] for key in ("sums", "rows") if key in case}


def column_sums(case: dict[str, Any]) -> list[int]:
    """Return what a mechanism of the package takes of a case: a sum for each class, or 0 or 1 for each person."""
    return case["sums"] if "sums" in case else [int(row in case["rows"]) for row in range(NUM_PEOPLE)]


def test_the_module_draws_from_the_systems_randomness_alone() -> None:
    source = (BROWSER / "neighbours.js").read_text(encoding="utf-8")
    assert re.findall(r'from "(.*?)"', source) == ["./epsilons.js", "./veilgraph.js"]
    assert not any(word in source for word in ("Math.random", "import(", "eval(", "Function("))


def test_the_vectors_are_what_the_script_writes() -> None:
    assert make_neighbour_vectors.make() == make_neighbour_vectors.PATH.read_text(encoding="utf-8")
    assert make_neighbour_vectors.make_turns() == make_neighbour_vectors.TURNS_PATH.read_text(encoding="utf-8")


@needs_node
def test_a_stranger_adds_nothing_and_an_entry_that_is_no_name_is_refused_and_not_named() -> None:
    for table in (TABLE, None):
        files = published(3, 3, table) | {"mechanism": None}
        cases = [{"list": ["a0"]}, *({"list": ["a0", other]} for other in ("a6161", "", "a0\n", "a", "\ud800"))]
        (reply,) = in_node("neighbours", [files | {"cases": cases}])
        assert reply["result"] == reply["result"][:1] * 6
        for reply in in_node("neighbours", [files | {"cases": [{"list": ["a0", no]}]} for no in (0, None, ["a0"])]):
            assert reply["error"] == "The list of neighbours holds something that is not a name."


@needs_node
def test_any_person_has_the_turn_that_the_last_two_bytes_of_their_hash_give() -> None:
    assert {len(character.encode()) for each in TURNS for character in each["id"]} == {1, 2, 3, 4}
    for turns in (2, 3, 4):
        assert {each["wave"] for each in TURNS if each["turns"] == turns} == set(range(1, turns + 1))
    assert in_node("turnOf", TURNS) == [{"result": each["wave"]} for each in TURNS]
    names = names_of(2_000)
    found = [reply["result"] for reply in in_node("turnOf", [{"id": name, "turns": 4} for name in names])]
    rows = [int.from_bytes(hashlib.sha256(name.encode()).digest()[30:], "big") for name in names]
    assert found == [1 + row % 4 for row in rows]
    assert chisquare(np.bincount(found)[1:]).pvalue > 1e-9, "waves are not of one size"


def test_the_vectors_cover_every_kind_of_list_and_both_ends_of_a_count() -> None:
    cases = [case for vector in VECTORS for case in vector["cases"]]
    assert {len(set(case["list"])) for case in cases} >= {0, 1, 30}
    cut = next(vector for vector in VECTORS if vector["name"] == "histogram that is cut")
    assert {70} <= {count for case in cut["cases"] for count in case["answer"]}
    tied = [case for case in cases if "sums" in case and case["sums"].count(max(case["sums"])) > 1]
    assert len(tied) > len(VECTORS)


def test_the_vectors_of_lists_cover_contacts_and_strangers_who_are_named_and_who_are_not() -> None:
    lists = [vector for vector in VECTORS if "list" in vector["mechanism"]]
    assert len(lists) == 3
    for vector in lists:
        assert (vector["table"], vector["hashes"][1]) == (None, None)
        cases = [(case["rows"], rows_in(case["answer"])) for case in vector["cases"]]
        kinds = {(row in rows, row in named) for rows, named in cases for row in range(NUM_PEOPLE)}
        assert len(kinds) == 4
        turn = vector["mechanism"]["list"]["yes"]
        assert {turn - 1, turn} <= {word for case in vector["cases"] for word in case["words"]}


@needs_node
def test_the_browser_makes_the_same_sums_rows_and_answers() -> None:
    for vector, reply in zip(VECTORS, in_node("neighbours", VECTORS), strict=True):
        expected = [
            looked_up(case) | {"answer": case["answer"], "consumed": len(case["words"])} for case in vector["cases"]
        ]
        assert reply == {"result": expected}, vector["name"]


def by_the_client(
    mechanism: Answer,
) -> ListClass | ListHistogram | RandomizedList:
    """Return the mechanism of the Python client with the same integers."""
    if isinstance(mechanism, NeighbourhoodClass):
        table = mechanism.sets.table
        return ListClass(SetTable(table.domain_size, table.size, table.inside, table.outside))
    if isinstance(mechanism, RandomizedNeighbourList):
        bit = mechanism.bit.table
        return RandomizedList(mechanism.num_people, Table(bit.domain_size, bit.true, bit.other))
    return ListHistogram(mechanism.num_classes, mechanism.scale, mechanism.cap, mechanism.largest, mechanism.noise.more)


def test_the_python_client_makes_the_same_answers_and_epsilons() -> None:
    for vector, mechanism in zip(VECTORS, MECHANISMS.values(), strict=True):
        device = by_the_client(mechanism)
        for case in vector["cases"]:
            left = iter(case["words"])
            (found,) = looked_up(case).values()
            said = device.report(tuple(found), left.__next__)
            assert (said if isinstance(said, str) else list(said)) == case["answer"], vector["name"]
            assert list(left) == []
        assert float(device.cost.one_entry) == pytest.approx(vector["loss"]["one_entry"], rel=1e-12)


def test_a_changed_word_changes_answers() -> None:
    """The comparison above can fail: shifting every word by one turns some decision of every mechanism."""
    for vector, mechanism in zip(VECTORS, MECHANISMS.values(), strict=True):
        changed = 0
        for case in vector["cases"]:
            words = ScriptedWords([(word + 1) % 2**53 for word in case["words"]] + [2**53 - 1, 5] * 2000)
            changed += answer_of(mechanism, column_sums(case), words) != case["answer"]
        assert changed, vector["name"]


@needs_node
@pytest.mark.parametrize("classes", [2, 3, 4, 7, 18, 300, 65_535])
def test_the_browser_reads_every_code_as_the_package_does(classes: int) -> None:
    """All beliefs of few classes; of many, some, whose units are compared where there are any."""
    possible = math.comb(finest_scale(classes) + classes - 1, classes - 1)
    codes = np.arange(possible + 1, dtype=np.uint16) if classes < 4 else np.linspace(0, possible, 40).astype(np.uint16)
    table = BeliefTable(classes, codes)
    cases = [{"list": [name]} for name in names_of(len(codes))]
    (reply,) = in_node("neighbours", [request(table, cases=cases)])
    assert [case["sums"] for case in reply["result"]] == table.units().tolist()


@needs_node
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    classes=st.integers(2, 40),
    people=st.integers(2, 50),
    epsilon=st.floats(0.1, 60.0),
    cap=st.none() | st.integers(1, 9),
    seed=st.integers(0, 2**32),
    is_class=st.booleans(),
)
def test_any_list_and_any_words_give_what_the_package_gives(
    classes: int, people: int, epsilon: float, cap: int | None, seed: int, is_class: bool
) -> None:
    rng = random.Random(seed)
    table = table_of(classes, people, rng)
    mechanism: Answer = (
        NeighbourhoodClass(classes, epsilon)
        if is_class
        else NeighbourhoodHistogram(classes, epsilon, table.scale, cap=cap)
    )
    rows = [rng.randrange(people) for _ in range(rng.randrange(2 * people))]
    words = make_neighbour_vectors.RecordedWords(rng, make_neighbour_vectors.turning_words(mechanism))
    sums = table.sums([rows])[0].tolist()
    expected = answer_of(mechanism, sums, words)
    case = {"list": [names_of(people)[row] for row in rows], "words": words.drawn}
    (reply,) = in_node("neighbours", [request(table, mechanism=document(mechanism), cases=[case])])
    assert reply["result"] == [{"sums": sums, "answer": expected, "consumed": len(words.drawn)}]


@needs_node
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(people=st.integers(2, 200), epsilon=st.floats(0.1, 60.0), seed=st.integers(0, 2**32))
def test_any_list_of_any_people_is_randomized_as_the_package_does(people: int, epsilon: float, seed: int) -> None:
    rng, mechanism, names = random.Random(seed), RandomizedNeighbourList(people, epsilon), names_of(people)
    rows = [rng.randrange(people) for _ in range(rng.randrange(2 * people))]
    words = make_neighbour_vectors.RecordedWords(rng, make_neighbour_vectors.turning_words(mechanism))
    expected = mechanism.decode(mechanism.randomize(np.bincount(rows, minlength=people)[None], rng=words))[0]
    case = {"list": [names[row] for row in rows], "words": words.drawn}
    asked = published(people, 3, None) | {"mechanism": document(mechanism), "cases": [case]}
    (reply,) = in_node("neighbours", [asked])
    assert reply["result"] == [{"rows": sorted(set(rows)), "answer": expected, "consumed": people}]


@needs_node
def test_the_browser_computes_the_same_epsilon_under_each_relation() -> None:
    for vector, reply in zip(VECTORS, in_node("listLoss", [each["mechanism"] for each in VECTORS]), strict=True):
        for relation, epsilon in vector["loss"].items():
            if epsilon is None:
                assert reply["result"][relation] is None, (vector["name"], relation)
            else:
                assert reply["result"][relation] == pytest.approx(epsilon, rel=1e-12), (vector["name"], relation)


@needs_node
@pytest.mark.parametrize(
    ("mechanism", "sums"),
    [
        (NeighbourhoodClass(4, 1.0, size=2), (60, 0, 30, 60)),
        (NeighbourhoodHistogram(2, 3.0, 2, cap=2, largest=6), (5, 1)),
        (RandomizedNeighbourList(5, 1.0), (0, 1, 1, 0, 0)),
    ],
    ids=["class", "histogram", "list"],
)
def test_answers_of_the_systems_randomness_follow_the_exact_probabilities(
    mechanism: Answer, sums: tuple[int, ...]
) -> None:
    """40,000 answers against the probabilities of all answers; a true one fails once in a billion runs."""
    is_list = isinstance(mechanism, RandomizedNeighbourList)
    looked_up = {"rows": [row for row, count in enumerate(sums) if count]} if is_list else {"sums": sums}
    (reply,) = in_node("draws", [{"mechanism": document(mechanism), "times": 40_000} | looked_up])
    read = rows_in if is_list else lambda answer: tuple(map(int, filter(None, answer.split(","))))
    seen = {read(answer): count for answer, count in reply["result"].items()}
    expected = {answer: 40_000 * float(mechanism.probability(answer, sums)) for answer in mechanism.reports()}
    assert set(seen) <= set(expected)
    rare = [answer for answer, count in expected.items() if count < 10]
    usual = [answer for answer in expected if answer not in rare]
    found = [seen.get(answer, 0) for answer in usual] + [sum(seen.get(answer, 0) for answer in rare)]
    likely = [expected[answer] for answer in usual] + [sum(expected[answer] for answer in rare)]
    if not rare:
        found, likely = found[:-1], likely[:-1]
    assert chisquare(found, likely).pvalue > 1e-9
    other = [likely[-1], *likely[:-1]]
    assert chisquare(found, other).pvalue < 1e-9, "the test tells no answer from another"


TABLE = BeliefTable.of(np.eye(3))


PUBLISHED, PEOPLE = TABLE.to_bytes(), people_file(names_of(3))


def publishing(beliefs: bytes = PUBLISHED, people: bytes = PEOPLE) -> dict[str, Any]:
    """Return a request whose hashes fit: what an organiser could publish."""
    return {
        "table": base64.b64encode(beliefs).decode(),
        "people": base64.b64encode(people).decode(),
        "hashes": [hashlib.sha256(people).hexdigest(), hashlib.sha256(beliefs).hexdigest()],
    }


def with_byte(place: int, value: int) -> bytes:
    return PEOPLE[:place] + bytes([value]) + PEOPLE[place + 1 :]


SIZES = len(PEOPLE) - 3 * 3 - 2  # where the only bucket says how many people it has
BAD_FILES: dict[str, dict[str, Any]] = {
    "another table": {"hashes": [publishing()["hashes"][0], "0" * 64]},
    "other people": {"hashes": ["0" * 64, publishing()["hashes"][1]]},
    "no table": publishing(b"something else"),
    "nothing": publishing(b""),
    "a cut table": publishing(PUBLISHED[:-1]),
    "a longer table": publishing(PUBLISHED + b"\0\0"),
    "a code beyond the beliefs, which could sum to more": publishing(PUBLISHED[:-2] + b"\xff\xff"),
    "fewer classes": publishing(PUBLISHED.replace(b'classes": 3', b'classes": 2')),
    "a table of more people": publishing(PUBLISHED.replace(b'people": 3', b'people": 4') + b"\0\0"),
    "a number with another spelling": publishing(PUBLISHED.replace(b'people": 3', b'people": 03')),
    "no people": publishing(people=b""),
    "fewer people": publishing(people=people_file(names_of(2))),
    "more people": publishing(people=people_file(names_of(4))),
    "more people under the same title": publishing(people=PEOPLE + b"\0\0\0"),
    "a cut file of people": publishing(people=PEOPLE[:-1]),
    "a list of names": publishing(people=b"a\nb\nc\n"),
    "a bucket with fewer people": publishing(people=with_byte(SIZES, 2)),
    "a bucket with more people": publishing(people=with_byte(SIZES, 4)),
    "a part beyond the hash": publishing(people=with_byte(SIZES + 1, 8)),
}


@needs_node
def test_what_is_published_and_does_not_fit_is_refused_before_anybody_is_looked_up() -> None:
    asked = request(TABLE, cases=[{"list": []}])
    for name, reply in zip(BAD_FILES, in_node("neighbours", [asked | bad for bad in BAD_FILES.values()]), strict=True):
        assert "get it again" in reply["error"], name
    (reply,) = in_node("neighbours", [request(TABLE, cases=[{"list": names_of(3)[:1]}]) | publishing()])
    assert reply["result"][0]["sums"] == [60, 0, 0]


@needs_node
def test_a_table_is_given_exactly_where_the_wave_has_one() -> None:
    """Nothing is read without its hash, and a hash names a file."""
    whole, without = publishing(), {"table": None, "hashes": [publishing()["hashes"][0], None]}
    for files in (whole | {"table": None}, whole | {"hashes": without["hashes"]}):
        (reply,) = in_node("neighbours", [request(TABLE, cases=[]) | files])
        assert "another table than that of the wave" in reply["error"]
    (reply,) = in_node("neighbours", [request(TABLE, cases=[{"list": names_of(3)[1:]}]) | without])
    assert reply["result"][0]["rows"] == [1, 2]


@needs_node
def test_as_many_people_as_the_format_allows_are_asked_for_a_word_each() -> None:
    people = 50_000
    mechanism, names = RandomizedNeighbourList(people, 4.0), names_of(people)
    case = {"list": [names[0], names[-1]], "words": [0] * people}
    asked = published(people, 3, None) | {"mechanism": document(mechanism), "cases": [case]}
    (reply,) = in_node("neighbours", [asked])
    assert reply["result"] == [
        {"rows": [0, people - 1], "answer": text_of([0, people - 1], people), "consumed": people}
    ]
