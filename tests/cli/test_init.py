"""A collection on the command line: six commands to a prediction, and one sentence for what cannot work."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.health_folder import ALONE, PEOPLE, QUESTION, write_tables
from veilgraph.cli import main
from veilgraph.collection import Collection

Capture = pytest.CaptureFixture[str]


def words(folder: Path, **changes: Any) -> list[str]:
    """Return the command that begins the small collection."""
    tables = write_tables(folder)
    given: dict[str, Any] = {
        **tables,
        "question": QUESTION,
        "purpose": "Learn whom the flu reaches",
        "contact": "flu@example.org",
        "closes": "2100-01-31",
        **changes,
    }
    options: list[str] = []
    for name, value in given.items():
        if value is not None:
            options += ["--set", f"{name}={value}"] if name in ("rounds", "contacts") else [f"--{name}", str(value)]
    return ["init", str(folder / "health"), "--answer", "no", "--answer", "yes", *options]


def test_init_says_what_the_collection_is_and_what_comes_next(tmp_path: Path, capsys: Capture) -> None:
    assert main([*words(tmp_path), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["people"], made["people_without_links"]) == (PEOPLE, ALONE)
    assert 0 <= made["expected_accuracy"]["low"] <= made["expected_accuracy"]["high"] <= 1
    assert 0.5 <= made["largest_class"]["low"] <= made["largest_class"]["high"] <= 1
    assert made["next"] == f"veilgraph rehearse {tmp_path}/health"
    assert main(["init", str(tmp_path / "health")]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Nothing changed.")
    assert f"{PEOPLE} people, {PEOPLE - ALONE} links, people without links: {ALONE}." in said
    notice = Collection(tmp_path / "health").notice_file
    notice.write_text(notice.read_text(encoding="utf-8").replace("whom the flu", "whom next year's flu"))
    assert main(["init", str(tmp_path / "health")]) == 0
    assert "It is the same collection: who has answered is not asked again." in capsys.readouterr().out


def test_questions_that_the_plan_leaves_out_are_named_and_need_no_text(tmp_path: Path, capsys: Capture) -> None:
    schema = (
        'classes = ["no", "yes"]\n[[columns]]\nname = "smoker"\n[texts.de.questions.smoker]\ntext = "Rauchen Sie?"\n'
    )
    (tmp_path / "schema.toml").write_text(schema, encoding="utf-8")
    command = [word for word in words(tmp_path, rounds=2, schema=tmp_path / "schema.toml") if word not in ("no", "yes")]
    assert main([word for word in command if word != "--answer"]) == 0
    assert 'Not asked: "smoker".' in capsys.readouterr().out
    collection = Collection.open(tmp_path / "health")
    assert collection.campaign.schema.columns == ()
    assert "smoker" not in collection.notice_file.read_text(encoding="utf-8")
    assert main(["init", str(tmp_path / "health")]) == 0
    assert "Nothing changed." in capsys.readouterr().out


def test_a_typing_mistake_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    tables = write_tables(tmp_path)
    typed = ["nobody.csv", tables["people"], tables["links"], QUESTION, "no; yes", "Learn", "me", "soon", "2100-01-31"]
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in typed)))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert main(["init", str(tmp_path / "health"), "--set", "rounds=2"]) == 0
    asked = capsys.readouterr().err
    assert "there is no file nobody.csv" in asked
    assert "closes is 'soon'" in asked
    assert Collection.open(tmp_path / "health").campaign.schema.classes == ("no", "yes")


def test_a_missing_translation_is_said(tmp_path: Path, capsys: Capture) -> None:
    assert main([*words(tmp_path, rounds=2), "--set", "languages=en,de"]) == 0
    said = capsys.readouterr().out
    assert "Texts in 'de' lack the purpose; the question" in said
    assert "Texts in 'en'" not in said


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"people": "nowhere.csv"}, "nowhere.csv"),
        ({"closes": "2020-01-31"}, "which is in the past"),
        ({"epsilon": "5"}, "above an epsilon of 4 (user level, any two records)"),
        ({"question": None, "contact": None}, "give --question --contact"),
        ({"links": None, "contacts": "friends"}, "write histogram, class or list"),
        ({"from": "nowhere.toml"}, "nowhere.toml"),
    ],
)
def test_what_cannot_work_is_one_sentence_and_nothing_is_written(
    tmp_path: Path, changes: dict[str, Any], message: str, capsys: Capture
) -> None:
    assert main(words(tmp_path, **changes)) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("error: ")
    assert message in error
    assert {path.name for path in tmp_path.iterdir()} == {"people.csv", "links.csv"}


def test_options_on_a_collection_that_was_begun_are_refused(tmp_path: Path, capsys: Capture) -> None:
    assert main(words(tmp_path, rounds=2)) == 0
    before = (tmp_path / "health" / "campaign.json").read_bytes()
    assert main(["init", str(tmp_path / "health"), "--epsilon", "3"]) == 2
    assert "leave --epsilon out and edit" in capsys.readouterr().err
    assert (tmp_path / "health" / "campaign.json").read_bytes() == before


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["status", "."], "is no collection: 'veilgraph init"),
        (["serve", "."], "is no collection"),
        (["train"], "FOLDER is missing, which 'veilgraph init' makes"),
        (["predict", "--out", "out.csv"], "the model is missing: give FOLDER"),
        (["invite", ".", "--url", "https://flu.example.org"], "is no collection"),
        (["rehearse", "."], "is no collection"),
    ],
)
def test_a_command_without_a_collection_says_how_to_begin_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], message: str, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(command) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("command", ["serve", "train"])
def test_a_file_that_the_folder_has_is_not_named_again(tmp_path: Path, command: str, capsys: Capture) -> None:
    assert main(words(tmp_path, rounds=2)) == 0
    assert main([command, str(tmp_path / "health"), "--graph", "links.csv"]) == 2
    assert "has this file: leave --graph out" in capsys.readouterr().err


def test_a_collection_is_checked_before_it_is_served_and_nobody_has_answered(tmp_path: Path, capsys: Capture) -> None:
    assert main(words(tmp_path, rounds=2)) == 0
    assert main(["serve", str(tmp_path / "health"), "--check"]) == 0
    assert "All files are in order." in capsys.readouterr().out
    assert main(["status", str(tmp_path / "health"), "--json"]) == 0
    standing = json.loads(capsys.readouterr().out)
    assert (standing["asked"], standing["answered"], standing["silent"]) == (PEOPLE, 0, PEOPLE)
    assert standing["next"] == f"veilgraph invite {tmp_path}/health --url https://..."
    assert main(["predict", str(tmp_path / "health"), "--out", str(tmp_path / "out.csv")]) == 2
    assert "has no model yet: run 'veilgraph train" in capsys.readouterr().err


@pytest.mark.slow
def test_six_commands_lead_to_a_prediction(tmp_path: Path, capsys: Capture) -> None:
    from veilgraph.collection.rehearsal import rehearse, serving

    folder = tmp_path / "health"
    assert main(words(tmp_path)) == 0
    assert main(["rehearse", str(folder), "--json"]) == 0
    found = json.loads(_last_json(capsys))
    assert found["answered"] + found["silent"] == PEOPLE
    assert found["largest_class"] >= 0.5  # of two answers, one has half of the silent people
    assert not (folder / "reports.db").exists()
    assert not (folder / "devices").exists()
    collection = Collection(folder, environment={})
    with serving(collection) as address:
        rehearse(collection, address=address)  # people answer this collection itself
    assert main(["status", str(folder), "--json"]) == 0
    assert json.loads(_last_json(capsys))["answered"] == found["answered"]
    assert main(["train", str(folder), "--device", "cpu"]) == 0
    (model,) = (folder / "models").iterdir()
    rows = list(csv.DictReader((model / "predictions.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == PEOPLE
    assert {row["class"] for row in rows} <= {"no", "yes"}
    today, who = tmp_path / "today.csv", rows[0]["id"]
    today.write_text(f"{(folder / 'links.csv').read_text(encoding='utf-8').rstrip()}\nlate;{who}\n", encoding="utf-8")
    people = tmp_path / "people-today.csv"
    people.write_text("\n".join(["id", *(row["id"] for row in rows), "late", ""]), encoding="utf-8")
    named = ["--graph", str(today), "--nodes", str(people), "--out", str(tmp_path / "late.csv")]
    assert main(["predict", str(folder), *named]) == 0
    found = csv.DictReader((tmp_path / "late.csv").read_text(encoding="utf-8").splitlines())
    (late,) = [row for row in found if row["id"] == "late"]
    assert (late["reported"], late["class"] in {"no", "yes"}) == ("False", True)
    assert (folder / "links.csv").read_text(encoding="utf-8").count("late") == 0


def _last_json(capsys: Capture) -> str:
    """Return the last JSON document that was printed."""
    text = capsys.readouterr().out
    return text[text.rindex("\n{\n") + 1 if "\n{\n" in text else text.index("{") :]
