"""`veilgraph estimate`: shares of all people and of groups, as words, JSON, a table and a figure."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.support.collected import NODES, Collected
from tests.support.command_words import words_of
from veilgraph.cli import main
from veilgraph.privacy.public_columns import PublicColumn

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Collected:
    made = Collected(tmp_path_factory.mktemp("estimate"))
    people = pd.read_csv(made.folder / "nodes.csv")
    people["village"] = np.where(np.arange(NODES) < NODES // 2, "north", "south")
    people["year"] = 2000 + np.arange(NODES) % 17
    people["status"] = np.where(np.arange(NODES) % 2, "a", "b")
    people.to_csv(made.folder / "nodes.csv", index=False)
    public = (PublicColumn(name="village"), PublicColumn(name="year"))
    told = replace(made.campaign, notice=replace(made.campaign.notice, public=public))
    (made.folder / "told.json").write_text(told.to_json(), encoding="utf-8")
    return made


def estimate(collected: Collected, *words: str) -> int:
    files = collected.files() | {"campaign": collected.folder / "told.json"}
    return main([*words_of("estimate", **files), "--store", collected.store, *words])


def test_shares_are_printed_and_written_as_a_table_and_a_figure(
    collected: Collected, tmp_path: Path, capsys: Capture
) -> None:
    assert estimate(collected, "--by", "village", "--level", "0.9", "--out", str(tmp_path / "out"), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["column"], found["level"], found["people"]) == ("village", 0.9, NODES)
    assert found["files"] == [str(tmp_path / "out" / name) for name in ("shares.csv", "shares.svg")]
    classes = list(collected.campaign.schema.classes)
    assert [(s["group"], s["name"]) for s in found["shares"]] == [
        (group, name) for group in (None, "north", "south") for name in classes
    ]
    assert sum(s["reports"] for s in found["shares"] if s["group"] and s["name"] == classes[0]) == found["reports"]
    assert all(s["low_together"] <= s["low"] <= s["value"] <= s["high"] <= s["high_together"] for s in found["shares"])
    with (tmp_path / "out" / "shares.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["value"]) for row in rows] == [share["value"] for share in found["shares"]]
    assert (tmp_path / "out" / "shares.svg").read_text(encoding="utf-8").startswith("<svg")


def test_words_say_who_did_not_report_how_many_intervals_miss_and_what_is_not_said(
    collected: Collected, capsys: Capture
) -> None:
    assert estimate(collected, "--by", "year:category", "--reports-only") == 0
    said = " ".join(capsys.readouterr().out.split())
    reports = int(collected.perturbed.has_label.sum())
    assert f"{reports} people of {NODES} reported." in said
    assert "without this assumption they are about those who reported" in said
    assert "No statement about 17 groups: below" in said
    assert "2000" not in said
    assert "all people" in said


def test_of_two_answers_a_model_narrows_the_one_interval_that_is_printed(collected: Collected) -> None:
    from veilgraph.cli.estimate import _conditions
    from veilgraph.deploy.group_shares import estimate_shares

    found = estimate_shares(collected.perturbed)
    first = replace(found.shares[0], assisted=True)
    two = replace(found, shares=(first, replace(first, name="other")))
    assert list(_conditions(two))[-1] == "Predictions of a model narrow 1 of 1 interval."


def test_that_reports_look_like_lies_stands_above_the_shares_that_rest_on_it(collected: Collected) -> None:
    from veilgraph.cli.estimate import _in_words
    from veilgraph.deploy.group_shares import estimate_shares

    first, second, *_ = _in_words(estimate_shares(collected.perturbed), "Ill?", [], {"sentence": "About 18%."})
    assert first == "About 18%. With --reports-only, shares take every report as honest."
    assert not isinstance(second, str)


def test_a_number_with_many_values_is_taken_in_bands(collected: Collected, capsys: Capture) -> None:
    assert estimate(collected, "--by", "year", "--reports-only", "--json") == 0
    groups = {share["group"] for share in json.loads(capsys.readouterr().out)["shares"]}
    assert groups == {None, "below 2004", "2004 to below 2008", "2008 to below 2012", "2012 or more"}


@pytest.mark.parametrize("column", ["status", "status:category", "town", "id"])
def test_a_column_that_people_were_not_told_of_is_refused(column: str, collected: Collected, capsys: Capture) -> None:
    assert estimate(collected, "--by", column) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "is no public column that people were told of: give one of village, year" in error


def test_without_public_columns_the_remedy_is_named(collected: Collected, capsys: Capture) -> None:
    words = [*words_of("estimate", **collected.files()), "--store", collected.store]
    assert main([*words, "--by", "village"]) == 2
    assert "declare it as public in the schema before a campaign begins" in " ".join(capsys.readouterr().err.split())
