"""Veil is compared on the same seeds, and the outcome of each aim follows from the rows."""

from __future__ import annotations

import math

import pytest

from tests.support.result_rows import WOBBLE, beyond, control, flat, frontier, row
from veilgraph.pages.paired_differences import PublishedDifference, ResultsByExperiment
from veilgraph.pages.veil_comparison import (
    Aim,
    Opponent,
    Outcome,
    aims_table,
    compared_tables,
    features_in_words,
    judge_aims,
    veil_sheet,
    veil_tallies,
)


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


def test_tables_have_a_row_for_each_setting_with_its_epsilon() -> None:
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


def test_the_gain_from_features_is_reported() -> None:
    assert "gains 0.0 points in the mean of 52 settings" in features_in_words(beyond())
    assert features_in_words([row(0.5, method="veil")]) == ""


# Aims.


def judged(found: ResultsByExperiment, words: str) -> Aim:
    [aim] = [aim for aim in judge_aims(found) if words in aim.name]
    return aim


def test_without_rows_every_aim_is_not_run_yet() -> None:
    aims = judge_aims({})
    assert len(aims) == 11
    assert {aim.outcome for aim in aims} == {Outcome.NOT_RUN}
    assert all(aim.evidence for aim in aims)


@pytest.mark.parametrize(("lpgnn", "outcome"), [(0.5, Outcome.MET), (0.8, Outcome.MET), (0.85, Outcome.MISSED)])
def test_never_below_the_best_within_noise(lpgnn: float, outcome: Outcome) -> None:
    assert judged({"beyond": beyond(lpgnn=lpgnn)}, "at or above").outcome is outcome


def test_one_clear_loss_is_a_miss_and_is_named() -> None:
    rows = [
        each
        for each in beyond()
        if not (each.dataset == "cora" and each.method == "lpgnn" and each.epsilon_y == 0.5 and each.epsilon_x == 1)
    ]
    rows.append(flat(0.87, dataset="cora", method="lpgnn", published_mean=0.4, published_std=0.02))
    aim = judged({"beyond": rows}, "at or above")
    assert aim.outcome is Outcome.MISSED
    assert "46 of 48" not in aim.evidence
    assert "in 47 of 48 settings" in aim.evidence
    assert "LPGNN, the paper's budget (Cora, ε_x = 1, ε_y = 0.5): −7.0" in aim.evidence


def test_a_rival_that_is_missing_leaves_the_aim_open_unless_another_is_above() -> None:
    rows = [each for each in beyond() if not (each.method == "lpgnn_equal" and each.dataset == "cora")]
    aim = judged({"beyond": rows}, "at or above")
    assert aim.outcome is Outcome.NOT_RUN
    assert aim.evidence.startswith("40 of 48 comparisons are finished.")
    rows = [each for each in beyond(structure=0.9) if each.method != "lpgnn_equal"]
    assert judged({"beyond": rows}, "at or above").outcome is Outcome.MISSED


@pytest.mark.parametrize(
    ("rgnn", "gain", "small"),
    [(0.6, Outcome.MET, Outcome.MET), (0.83, Outcome.MISSED, Outcome.MET), (0.9, Outcome.MISSED, Outcome.MISSED)],
)
def test_gain_over_the_published_accuracies(rgnn: float, gain: Outcome, small: Outcome) -> None:
    found = {"beyond": beyond(rgnn=rgnn)}
    assert judged(found, "mean gain").outcome is gain
    assert judged(found, "ε_y ≤ 1").outcome is small


def test_a_gain_over_half_of_the_settings_is_not_run_yet() -> None:
    rows = [each for each in beyond() if each.dataset in ("cora", "dblp", "german")]
    aim = judged({"beyond": rows}, "mean gain")
    assert aim.outcome is Outcome.NOT_RUN
    assert aim.evidence.startswith("24 of 48 comparisons are finished.")


@pytest.mark.parametrize(("structure", "outcome"), [(0.7, Outcome.MET), (0.8, Outcome.MET), (0.82, Outcome.MISSED)])
def test_no_loss_to_the_control(structure: float, outcome: Outcome) -> None:
    aim = judged({"beyond": beyond(structure=structure)}, "to the control")
    assert aim.outcome is outcome
    assert "Pubmed" in aim.evidence


@pytest.mark.parametrize(
    ("lowest", "half", "fifth"),
    [(0.9, Outcome.MET, Outcome.MET), (0.55, Outcome.MISSED, Outcome.MET), (0.1, Outcome.MISSED, Outcome.MISSED)],
)
def test_the_papers_accuracy_at_a_part_of_its_epsilon(lowest: float, half: Outcome, fifth: Outcome) -> None:
    found = {"frontier": frontier(lowest=lowest, step=0.1 if lowest > 0.5 else 0.05)}
    assert judged(found, "no more than half").outcome is half
    assert judged(found, "no more than a fifth").outcome is fifth


def test_an_accuracy_that_is_never_reached_is_a_miss() -> None:
    aim = judged({"frontier": frontier(lowest=0.1, step=0.0)}, "no more than half")
    assert aim.outcome is Outcome.MISSED
    assert "The largest ratio of Veil: not reached" in aim.evidence


def test_a_graph_that_is_missing_leaves_the_aim_open() -> None:
    rows = [each for each in frontier(lowest=0.9) if each.dataset != "cora"]
    aim = judged({"frontier": rows}, "no more than half")
    assert aim.outcome is Outcome.NOT_RUN
    assert aim.evidence.startswith("40 of 48 comparisons are finished.")


@pytest.mark.parametrize(("lead", "outcome"), [(-0.05, Outcome.MET), (0.1, Outcome.MISSED)])
def test_the_label_alone_is_close_to_the_best_split(lead: float, outcome: Outcome) -> None:
    found = {"frontier": frontier(step=0.05, divided_lead=lead)}
    assert judged(found, "within 2 points").outcome is outcome


def test_aims_are_a_table() -> None:
    table = aims_table(judge_aims({}))
    assert table.columns == ("Aim", "Outcome", "Figures")
    assert {row[1] for row in table.rows} == {"not run yet"}
