"""The published file of people: everybody is found in it, by code that shares nothing with what wrote it."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.forgeries import ALIKE, APART
from veilgraph.campaign.neighbours.people_file import PeopleFile, file_size, num_buckets, people_file
from veilgraph.errors import CampaignError
from veilgraph.privacy.plain_text import look

TITLE = b"veilgraph-people-1\n"


def bucket_of(name: str, people: int) -> int:
    return int(hashlib.sha256(name.encode()).hexdigest()[:12], 16) % num_buckets(people)


def rows_of(content: bytes, name: str) -> list[int]:
    """Return the rows whose fingerprint is that of a name, by the letter of the format."""
    title, head, body = content.split(b"\n", 2)
    assert title + b"\n" == TITLE
    people = int(head.removeprefix(b'{"people": ').removesuffix(b"}"))
    buckets = num_buckets(people)
    sizes, parts, prints = body[:buckets], body[buckets : 2 * buckets], body[2 * buckets :]
    bucket = bucket_of(name, people)
    fingerprint = hashlib.sha256(name.encode()).digest()[6 + 3 * parts[bucket] : 9 + 3 * parts[bucket]]
    first = sum(sizes[:bucket])
    return [row for row in range(first, first + sizes[bucket]) if prints[3 * row : 3 * row + 3] == fingerprint]


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=80, unique_by=look
    ).map(set)
)
def test_everybody_is_found_in_their_row_and_nowhere_else(names: set[str]) -> None:
    file = PeopleFile.of(names)
    assert set(file.names) == names
    assert [rows_of(file.content, name) for name in file.names] == [[row] for row in range(len(names))]
    assert len(file.content) == file_size(len(names))


def test_the_file_depends_on_the_set_of_people_alone() -> None:
    names = [f"u{i}" for i in range(1000)]
    shuffled = random.Random(0).sample(names, len(names))
    assert PeopleFile.of(names).names == PeopleFile.of(shuffled).names
    assert people_file(names) == people_file(shuffled)
    assert PeopleFile.of(names).sha256 != PeopleFile.of(names[1:]).sha256


def parts_of(content: bytes, people: int) -> bytes:
    start = len(content) - 3 * people - num_buckets(people)
    return content[start : start + num_buckets(people)]


def names_with_the_same_fingerprint() -> tuple[str, str]:
    """Return two names whose hashes agree in bytes 6 to 8: a few thousand names have such a pair."""
    seen: dict[bytes, str] = {}
    for i in range(100_000):
        fingerprint = hashlib.sha256(f"u{i}".encode()).digest()[6:9]
        if fingerprint in seen:
            return seen[fingerprint], f"u{i}"
        seen[fingerprint] = f"u{i}"
    raise AssertionError("no two names agree")


def test_people_of_a_bucket_who_agree_take_the_next_part_of_their_hashes() -> None:
    pair = names_with_the_same_fingerprint()
    content = people_file(pair)
    assert parts_of(content, 2) == b"\1"
    assert {tuple(rows_of(content, name)) for name in pair} == {(0,), (1,)}
    assert parts_of(people_file(["u1", "u2"]), 2) == b"\0"


def test_a_stranger_passes_for_another_once_in_a_million() -> None:
    """Of 50,000 strangers 0.05 are expected to pass; with 4 or more, one set of names in 4,000,000 would do so."""
    content = people_file(f"u{i}" for i in range(64))
    passing = sum(bool(rows_of(content, f"stranger {i}")) for i in range(50_000))
    assert passing < 4


def in_one_bucket(count: int) -> Sequence[str]:
    found: list[str] = []
    number = 0
    while len(found) < count:
        if bucket_of(f"u{number}", count) == 0:
            found.append(f"u{number}")
        number += 1
    return found


def test_ids_that_were_made_to_collide_and_ids_named_twice_are_refused() -> None:
    with pytest.raises(CampaignError, match="give people other ids"):
        people_file(in_one_bucket(256))
    assert len(people_file(in_one_bucket(255))) == file_size(255)
    with pytest.raises(CampaignError, match="name each once"):
        people_file(["u1", "u2", "u1"])


@pytest.mark.parametrize(("people", "size"), [(1, 38), (16, 84), (17, 89), (100_000, 312_538), (10**7, 31_250_040)])
def test_its_size_follows_from_the_number_of_people_alone(people: int, size: int) -> None:
    assert file_size(people) == size


@pytest.mark.parametrize("kind", [kind for kind, pair in ALIKE.items() if pair[0]])
def test_ids_that_look_alike_are_refused(kind: str) -> None:
    with pytest.raises(CampaignError, match="look alike, so that a contact could be taken for another one"):
        PeopleFile.of(["u1", *ALIKE[kind], "u2"])


@pytest.mark.parametrize("kind", APART)
def test_ids_that_a_reader_tells_apart_are_those_of_two_people(kind: str) -> None:
    assert len(PeopleFile.of(APART[kind]).names) == 2
