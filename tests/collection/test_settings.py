"""What an owner decides is complete and possible, or refused in one sentence that says all that is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.health_folder import settings, write_tables
from veilgraph.collection import Settings
from veilgraph.collection.settings import read_settings
from veilgraph.errors import CampaignError, RunError, VeilgraphError


def test_everything_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="give --question --purpose --contact --closes"):
        Settings.make(write_tables(tmp_path))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answers": ()}, "give the possible answers, or a schema"),
        ({"links": None}, "give the table of links, or say how people answer about contacts"),
        ({"contacts": "class"}, "give the table of links, or say how people answer about contacts"),
        ({"links": None, "contacts": "class", "rounds": 3}, "asks one question once"),
        ({"links": None, "contacts": "friends"}, "contacts is 'friends': write histogram, class or list"),
        ({"question": " "}, "the question is empty: give --question"),
        ({"answers": ("yes",)}, "there is one possible answer"),
        ({"closes": "2025-12-31"}, "which is in the past"),
        ({"closes": "soon"}, "closes is 'soon'"),
        ({"zone": "Mars"}, "zone is 'Mars'"),
    ],
)
def test_what_cannot_work_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(VeilgraphError, match=message):
        settings(tmp_path, **changes)


def test_the_last_day_ends_in_the_zone_of_the_owner(tmp_path: Path) -> None:
    decided = settings(tmp_path, closes="2100-01-31", zone="Europe/Berlin", retention="2100-02-28")
    assert decided.closing.isoformat() == "2100-01-31T22:59:59+00:00"
    assert decided.deletion is not None
    assert decided.deletion.isoformat() == "2100-02-28T22:59:59+00:00"


def test_a_file_says_the_same_as_options_and_its_paths_start_in_its_folder(tmp_path: Path) -> None:
    write_tables(tmp_path)
    text = 'people = "people.csv"\nlinks = "links.csv"\nquestion = "Have you had the flu?"\nanswers = ["no", "yes"]\n'
    text += 'purpose = "Learn whom the flu reaches"\ncontact = "flu@example.org"\ncloses = "2100-01-31"\nepsilon = 2\n'
    (tmp_path / "answers.toml").write_text(text)
    expected = settings(tmp_path)
    assert Settings.make(read_settings(tmp_path / "answers.toml") | {"now": expected.now}) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epsilom = 2.0", "'epsilom' is unknown; write some of question, purpose"),
        ('epsilon = "much"', "epsilon must be a number"),
        ("epsilon = true", "epsilon must be a number"),
        ("rounds = 2.5", "rounds must be a number"),
        ('answers = "no, yes"', "answers must be a list of texts"),
        ("now = 2026-01-01", "'now' is unknown"),
        ("question = [", "is not TOML"),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "answers.toml").write_text(text)
    with pytest.raises(RunError, match=message.replace("[", r"\[")):
        read_settings(tmp_path / "answers.toml")


def test_an_unknown_schema_is_refused(tmp_path: Path) -> None:
    with pytest.raises((CampaignError, VeilgraphError)):
        settings(tmp_path, answers=(), schema=tmp_path / "nowhere.toml").read_schema()
