"""What is published, whole and checked: a device gets it again cheaply, and sends nothing about a person."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.file_server import LocalServer, serving
from tests.support.forgeries import rewritten
from tests.support.neighbour_series import CLASS, HISTOGRAM, LIST, PEOPLE_FILE, TABLE, first_document, waves_of
from veilgraph.campaign import Campaign
from veilgraph.campaign.neighbours.wave import series_of
from veilgraph.cli import main
from veilgraph.client import ClockWarning, Fetched, Patience, answer_neighbours, fetch
from veilgraph.errors import CampaignError, RunError, SendError

FIRST, ONE, TWO = waves_of(HISTOGRAM, CLASS)
LISTS = waves_of(LIST)[1]


def files_of(campaign: Campaign, table: bytes = TABLE.to_bytes(), people: bytes = PEOPLE_FILE) -> dict[str, bytes]:
    """Return what a collector of the campaign serves, by its path."""
    files = {"v1/campaign": campaign.to_json().encode()}
    if campaign.asked.published:
        series = series_of(campaign.asked)
        if series.table is not None:
            files |= {f"v1/published/{series.table}": table}
        files |= {f"v1/published/{series.people}": people}
    return files | {f"/{path}": content for path, content in files.items()}


@contextmanager
def collector(files: Mapping[str, bytes]) -> Iterator[tuple[LocalServer, Callable[..., Fetched]]]:
    with serving(files) as server:
        yield server, partial(fetch, server.url(""), patience=Patience(attempts=2, sleep=lambda _: None))


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


def test_a_wave_is_fetched_whole_and_answered_from_its_folder(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    with collector(files_of(ONE)) as (server, get):
        found = get(tmp_path / "fetched", progress=lambda *step: seen.append(step))
        assert found.table is not None
        assert found.people is not None
        assert (found.table.read_bytes(), found.people.read_bytes()) == (TABLE.to_bytes(), PEOPLE_FILE)
        asked = server.requested
        assert sorted(path.rpartition("/")[2] for path in asked) == sorted(
            ["campaign", *series_of(ONE.asked).published]
        ), "three whole files, and no name of anybody"
        assert seen[-1][1:] == (len(PEOPLE_FILE), len(PEOPLE_FILE))
        get(tmp_path / "fetched")
        assert len(asked) == 4, "a repetition takes the document alone"
    report = answer_neighbours(
        found.read(),
        ["u0"],
        node="u1",
        store=tmp_path / "store",
        max_epsilon=9.0,
        max_entry_epsilon=9.0,
    )
    assert report["campaign"] == ONE.id


def test_a_wave_of_randomized_lists_has_the_file_of_people_alone(tmp_path: Path) -> None:
    with collector(files_of(FIRST)) as (_, get):
        get(tmp_path / "fetched")
    with collector(files_of(LISTS)) as (server, get):
        found = get(tmp_path / "fetched")
        assert found.people is not None
        assert (found.table, found.people.read_bytes()) == (None, PEOPLE_FILE)
        assert [path.rpartition("/")[2] for path in server.requested] == ["campaign", series_of(LISTS.asked).people]
        assert get(tmp_path / "fetched") == found
        assert len(server.requested) == 3, "a repetition takes the document alone"
    assert set(content_of(tmp_path / "fetched")) == {"campaign.json", f"{series_of(LISTS.asked).people}.people"}
    report = answer_neighbours(
        found.read(),
        ["u0"],
        node="u1",
        store=tmp_path / "store",
        max_epsilon=9.0,
        max_entry_epsilon=9.0,
    )
    assert report["campaign"] == LISTS.id


def test_the_next_wave_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    for campaign in (FIRST, ONE, TWO):
        with collector(files_of(campaign)) as (_, get):
            assert get(tmp_path).question.id == campaign.id
    assert len(content_of(tmp_path)) == 3
    for earlier in (FIRST, ONE):
        with collector(files_of(earlier)) as (_, get), pytest.raises(CampaignError, match="an earlier document"):
            get(tmp_path)
    with collector(files_of(TWO.revise(contact="next@example.org"))) as (_, get):
        get(tmp_path)
    with collector(files_of(TWO)) as (_, get), pytest.raises(CampaignError, match="notice 1, older than 2"):
        get(tmp_path)


@pytest.mark.parametrize(
    ("files", "error", "said"),
    [
        (files_of(ONE, table=TABLE.to_bytes()[:-1] + b"\x01"), CampaignError, "the campaign names"),
        (files_of(ONE, table=TABLE.to_bytes()[:-2]), CampaignError, "the campaign names"),
        (files_of(ONE, people=PEOPLE_FILE[:-1]), CampaignError, "the campaign names"),
        (files_of(ONE, table=TABLE.to_bytes() + b"and more"), SendError, "sends more than"),
        (files_of(ONE, people=PEOPLE_FILE + bytes(10_000)), SendError, "sends more than"),
        (files_of(LISTS, people=PEOPLE_FILE[:-1] + b"v"), CampaignError, "the campaign names"),
        ({"v1/campaign": ONE.to_json().encode()}, SendError, "no such address"),
        ({}, SendError, "no such address"),
        ({"v1/campaign": b"<html>Log in</html>"}, CampaignError, "not readable as JSON"),
        ({"v1/campaign": ONE.to_json().replace("6", "7").encode()}, CampaignError, "altered"),
    ],
)
def test_what_is_not_as_the_campaign_says_changes_nothing(
    files: dict[str, bytes], error: type[Exception], said: str, tmp_path: Path
) -> None:
    with collector(files_of(FIRST)) as (_, get):
        get(tmp_path)
    with collector(files) as (_, get), pytest.raises(error, match=said):
        get(tmp_path)
    kept = content_of(tmp_path)
    assert kept.pop("campaign.json").decode() == FIRST.to_json()
    assert not any(name.endswith(".part") for name in kept)
    assert all(content in (TABLE.to_bytes(), PEOPLE_FILE) for content in kept.values()), "complete files are kept"
    with collector(files_of(ONE)) as (_, get):
        assert get(tmp_path).question.id == ONE.id


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("broken-off", r"cannot be reached \(IncompleteRead\), 2 times; what is complete is kept"),
        ("to-file", "leads elsewhere"),
    ],
)
def test_a_download_that_breaks_off_or_leads_elsewhere_fails(fault: str, said: str, tmp_path: Path) -> None:
    with serving(files_of(ONE)) as server, pytest.raises(SendError, match=said):
        fetch(server.url(f"{fault}!"), tmp_path, patience=Patience(attempts=2, sleep=lambda _: None))
    assert content_of(tmp_path) == {}


def test_a_download_that_breaks_off_goes_on_where_it_was_and_is_checked_whole(tmp_path: Path) -> None:
    size = len(TABLE.to_bytes())
    with serving(files_of(ONE)) as server:
        server.part = -(-size // 3)
        get = partial(fetch, server.url("in-parts!"), patience=Patience(attempts=3, sleep=lambda _: None))
        found = get(tmp_path / "whole")
        assert found.table is not None
        assert found.table.read_bytes() == TABLE.to_bytes()
        assert server.parts[:3] == [0, server.part, 2 * server.part]
    altered = bytes([TABLE.to_bytes()[0] ^ 1]) + TABLE.to_bytes()[1:]
    with serving(files_of(ONE, table=altered)) as server:
        server.part = -(-size // 3)
        with pytest.raises(CampaignError, match="the campaign names"):
            fetch(server.url("in-parts!"), tmp_path / "altered", patience=Patience(attempts=3, sleep=lambda _: None))
    assert content_of(tmp_path / "altered") == {}


def test_a_folder_of_another_series_is_refused(tmp_path: Path) -> None:
    with collector(files_of(waves_of(CLASS, first=first_document(epsilon_y=1.0))[1])) as (_, get):
        get(tmp_path)
    with collector(files_of(ONE)) as (_, get), pytest.raises(CampaignError, match="another campaign or series"):
        get(tmp_path)
    (tmp_path / "campaign.json").write_text("mine")
    with collector(files_of(ONE)) as (_, get), pytest.raises(RunError, match="choose another folder"):
        get(tmp_path)


def test_a_wave_that_opens_in_between_is_taken(tmp_path: Path) -> None:
    class Switching(dict[str, bytes]):
        def __getitem__(self, path: str) -> bytes:
            content = super().__getitem__(path)
            if path.endswith("campaign"):
                self.update(files_of(TWO))
                if content == ONE.to_json().encode():
                    del self[f"v1/published/{series_of(ONE.asked).people}"]
                else:
                    self.update(files_of(TWO))
            return content

    with collector(Switching(files_of(ONE))) as (_, get):
        assert get(tmp_path).question.id == TWO.id


def test_an_address_without_encryption_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SendError, match="https"):
        fetch("http://collect.example.org", tmp_path)


def test_two_commands_answer_a_wave(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, friends = tmp_path / "wave", tmp_path / "friends.txt"
    friends.write_text("u0\nu2\n")
    given: list[Any] = ["--neighbours", friends, "--node=u1", "--limit=9", "--entry-limit=9"]
    randomize = [
        str(each) for each in ["randomize", folder / "campaign.json", *given, "--device-folder", tmp_path / "phone"]
    ]
    with serving(files_of(ONE)) as server:
        get = ["fetch", "--url", server.url(""), "--out", str(folder)]
        assert main(get) == 0
        told = capsys.readouterr().out
        assert f"Wave 1 of series {FIRST.id}" in told
        assert "veilgraph randomize" in told
        assert "Each person answers" not in told
        assert main([*get, "--json"]) == 0
        printed = json.loads(capsys.readouterr().out)
        assert (printed["wave"], printed["turns"]) == (1, None)
    assert main([*randomize, "--out", str(tmp_path / "answer.json")]) == 0
    assert json.loads((tmp_path / "answer.json").read_text())["campaign"] == ONE.id
    (folder / f"{series_of(ONE.asked).people}.people").unlink()
    capsys.readouterr()
    assert main([*randomize, "--out", str(tmp_path / "another.json")]) == 2
    assert "run 'veilgraph fetch'" in capsys.readouterr().err


def test_a_series_that_changes_its_turns_is_not_fetched(tmp_path: Path) -> None:
    first, one, two = waves_of(HISTOGRAM, CLASS, turns=2)
    with collector(files_of(one)) as (_, get):
        asked = get(tmp_path).question.asked.place
    assert asked is not None
    assert asked.turns == 2
    for turns in (3, None):
        changed = rewritten(waves_of(HISTOGRAM, CLASS, turns=turns)[2], neighbours__documents=[first.id, one.id])
        files = files_of(two) | {"v1/campaign": changed.encode(), "/v1/campaign": changed.encode()}
        with (
            collector(files) as (_, get),
            pytest.raises(CampaignError, match="wave 2 is asked in other turns than wav"),
        ):
            get(tmp_path)
    assert (tmp_path / "campaign.json").read_text() == one.to_json()
    with collector(files_of(two)) as (_, get):
        assert get(tmp_path).question.id == two.id


@pytest.mark.parametrize("place", [("neighbours", "people"), ("graph", "sha256")])
def test_a_wave_about_other_people_than_its_series_is_not_fetched(place: tuple[str, str], tmp_path: Path) -> None:
    for before in (FIRST, ONE):
        folder = tmp_path / before.id
        with collector(files_of(before)) as (_, get):
            get(folder)
        later = rewritten(ONE if before is FIRST else TWO, **{"__".join(place): "0" * 64})
        if (before, place[0]) == (FIRST, "neighbours"):
            continue  # the first document names the graph alone
        files = files_of(TWO) | {"v1/campaign": later.encode(), "/v1/campaign": later.encode()}
        with collector(files) as (_, get), pytest.raises(CampaignError, match="other people, or another graph"):
            get(folder)
        assert (folder / "campaign.json").read_text() == before.to_json()


def test_two_commands_answer_a_wave_in_turns_or_name_the_turn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In 4 turns u2 answers wave 1, and u1 wave 2."""
    wave, folder, unread = waves_of(CLASS, turns=4)[1], tmp_path / "wave", tmp_path / "none.txt"
    friends = tmp_path / "friends.txt"
    friends.write_text("u0\nu3\n")
    given: list[Any] = [folder / "campaign.json", "--limit=9", "--device-folder", tmp_path / "phone"]
    given += ["--out", tmp_path / "answer.json"]
    randomize = ["randomize", *map(str, given)]
    with serving(files_of(wave)) as server:
        get = ["fetch", "--url", server.url(""), "--out", str(folder)]
        assert main(get) == 0
        assert "Each person answers one of 4 waves" in capsys.readouterr().out
        assert main([*get, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["turns"] == 4
    assert main([*randomize, "--node=u1", "--neighbours", str(unread)]) == 2
    assert "wave 1 is not your turn: of this series you answer wave 2" in capsys.readouterr().err
    assert main([*randomize, "--node=u2", "--neighbours", str(friends)]) == 0
    assert json.loads((tmp_path / "answer.json").read_text())["node"] == "u2"


def test_two_commands_answer_a_wave_of_randomized_lists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, friends = tmp_path / "wave", tmp_path / "friends.txt"
    friends.write_text("u0\nu2\n")
    given: list[Any] = ["--neighbours", friends, "--node=u1", "--limit=9", "--device-folder", tmp_path / "phone"]
    given += ["--out", tmp_path / "answer.json"]
    randomize = [str(each) for each in ["randomize", folder / "campaign.json", *given]]
    with serving(files_of(LISTS)) as server:
        get = ["fetch", "--url", server.url(""), "--out", str(folder)]
        assert main(get) == 0
        told = capsys.readouterr().out
        assert "The file of people is beside it" in told
        assert "believed" not in told
        assert main([*get, "--json"]) == 0
        printed = json.loads(capsys.readouterr().out)
        assert (printed["wave"], printed["table"]) == (1, None)
        assert printed["people"].endswith(".people")
    assert main(randomize) == 2
    assert "does not protect whole neighbour lists" in capsys.readouterr().err
    assert main([*randomize, "--entry-limit=3"]) == 0
    assert "Whole lists are not protected." in capsys.readouterr().out
    assert json.loads((tmp_path / "answer.json").read_text())["campaign"] == LISTS.id
    assert main(["receipt", "--device-folder", str(tmp_path / "phone"), "--json"]) == 0
    kept = json.loads(capsys.readouterr().out)
    assert (kept["spent_one_entry"], kept["protects_lists"]) == (pytest.approx(3.0), False)
    (folder / f"{series_of(LISTS.asked).people}.people").unlink()
    assert main(randomize) == 2
    assert "run 'veilgraph fetch'" in capsys.readouterr().err


def test_the_collectors_clock_decides_whether_a_campaign_is_open(tmp_path: Path) -> None:
    """A device that is a year late, beside a collector whose clock says that the campaign is over, and the reverse."""
    ended = FIRST.revise(closes=datetime(2020, 1, 1, tzinfo=UTC))
    with collector(files_of(ended)) as (server, get):
        server.date = "Tue, 31 Dec 2019 23:00:00 GMT"
        with pytest.warns(ClockWarning, match="the collector's clock says 2019-12-31 23:00:00 UTC"):
            assert get(tmp_path / "open").question.id == ended.id
        server.date = "Wed, 01 Jan 2020 00:00:00 GMT"
        with pytest.raises(CampaignError, match="closed at 2020-01-01 00:00:00 UTC"):
            get(tmp_path / "closed")
        server.date = "no date"
        with pytest.raises(CampaignError, match="set the clock if it is wrong"):
            get(tmp_path / "unknown")
