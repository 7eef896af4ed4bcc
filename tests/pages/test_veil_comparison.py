"""Veil beside the others: differences on the same draws, and nothing that was not measured."""

from __future__ import annotations

import math

import pytest

from tests.support.result_rows import WOBBLE, beyond, control, flat, row
from veilgraph.pages.paired_differences import PublishedDifference
from veilgraph.pages.veil_comparison import (
    Opponent,
    compared_tables,
    features_in_words,
    veil_sheet,
    veil_tallies,
)


def test_differences_are_paired_by_seed() -> None:
    rows = [row(0.7, method="veil"), row(0.6, method="rgnn")]
    difference = Opponent(method="rgnn").difference(rows[0], rows)
    assert difference is not None
    assert difference.mean == pytest.approx(0.1)
    assert difference.standard_error == pytest.approx(0.0, abs=1e-12), "both have the same wobble"


def test_a_published_figure_is_compared_by_both_spreads() -> None:
    rows = [row(0.7, method="veil"), flat(0.9, published_mean=0.65, published_std=0.02)]
    difference = Opponent(method="rgnn", published=True).difference(rows[0], rows)
    assert isinstance(difference, PublishedDifference)
    assert difference.mean == pytest.approx(0.05)
    variance = sum(each**2 for each in WOBBLE) / 3
    assert difference.standard_error == pytest.approx(math.sqrt(variance / 4 + 0.02**2 / 5))
    assert difference.clear


def test_what_was_not_published_or_run_is_no_opponent() -> None:
    rows = [row(0.7, method="veil"), flat(0.6)]
    assert Opponent(method="rgnn", published=True).difference(rows[0], rows) is None
    assert Opponent(method="lpgnn").difference(rows[0], rows) is None


def test_tallies_count_every_setting() -> None:
    tallies = {tally.method: tally for tally in veil_tallies(beyond())}
    assert tallies["RGNN, published"].clearly_above == 48
    assert tallies["RGNN, published"].mean == pytest.approx(0.3)
    assert tallies["Control: structure only"].clearly_above == 52
    assert tallies["Veil without features"].settings == 52
    assert veil_tallies([control(0.5)]) == []


def test_tables_have_a_row_for_each_setting_and_say_what_is_spent() -> None:
    tables = compared_tables(beyond(lpgnn=0.9))
    assert [table.name for table in tables] == [
        "Citeseer",
        "Cora",
        "DBLP",
        "Facebook",
        "German",
        "Student",
        "Pubmed",
    ]
    first = dict(zip(tables[0].methods, tables[0].rows[0].cells, strict=True))
    assert [len(table.rows) for table in tables] == [8] * 6 + [4]
    assert tables[-1].methods == ["Veil", "Control", "Veil, joint GRR", "Veil, label alone"]
    assert first["Control"] is not None
    assert first["Control"].epsilon == "0.5"
    assert first["Control"].side == "above"
    assert first["LPGNN"] is not None
    assert first["LPGNN"].side == "below"
    assert first["LPGNN"].best
    assert first["LPGNN"].epsilon == ""
    assert tables[0].rows[0].user_level == "13.0"


def test_the_sheet_has_a_record_for_each_comparison() -> None:
    sheet = veil_sheet(beyond())
    assert sheet is not None
    assert len(sheet.table.rows) == 52
    assert len(sheet.records) == 48 * 8 + 4 * 3
    assert {len(each) for each in sheet.table.rows} == {len(sheet.table.columns)}
    assert sheet.table.rows[-1][5] == "–"
    assert veil_sheet([control(0.5)]) is None


def test_what_features_add_is_said() -> None:
    assert "gains 0.0 points in the mean of 52 settings" in features_in_words(beyond())
    assert features_in_words([row(0.5, method="veil")]) == ""
