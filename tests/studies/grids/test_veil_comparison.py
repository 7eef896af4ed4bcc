"""Veil is compared with each method on the same seeds and in the same setting."""

from __future__ import annotations

import math

import pytest
from studies.grids.differences import PublishedDifference
from studies.grids.veil_comparison import Opponent, veil_sheet, veil_tallies

from tests.support.result_rows import WOBBLE, beyond, control, flat, row


def test_differences_are_paired_by_seed() -> None:
    rows = [row(0.7, method="veil"), row(0.6, method="rgnn")]
    difference = Opponent(method="rgnn").difference(rows[0], rows)
    assert difference is not None
    assert difference.mean == pytest.approx(0.1)
    assert difference.standard_error == pytest.approx(0.0, abs=1e-12), "both have the same wobble"


def test_a_published_accuracy_is_compared_by_both_standard_deviations() -> None:
    rows = [row(0.7, method="veil"), flat(0.9, published_mean=0.65, published_std=0.02)]
    difference = Opponent(method="rgnn", published=True).difference(rows[0], rows)
    assert isinstance(difference, PublishedDifference)
    assert difference.mean == pytest.approx(0.05)
    variance = sum(each**2 for each in WOBBLE) / 3
    assert difference.standard_error == pytest.approx(math.sqrt(variance / 4 + 0.02**2 / 5))
    assert difference.clear


def test_a_method_that_was_not_published_or_run_gives_no_difference() -> None:
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


def test_the_sheet_has_a_record_for_each_comparison() -> None:
    sheet = veil_sheet(beyond())
    assert sheet is not None
    assert len(sheet.table.rows) == 52
    assert len(sheet.records) == 48 * 8 + 4 * 3
    assert {len(each) for each in sheet.table.rows} == {len(sheet.table.columns)}
    assert sheet.table.rows[-1][5] == "–"
    first = dict(zip(sheet.table.columns, sheet.table.rows[0], strict=True))
    assert (first["User-level ε"], first["Control"].split()[-1]) == ("13", "0.5)")  # the control spends less
    assert "ε = " not in first["LPGNN"]
    assert veil_sheet([control(0.5)]) is None
