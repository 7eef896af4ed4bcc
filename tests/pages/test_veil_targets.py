"""Outcomes follow from the figures, both ways."""

from __future__ import annotations

import pytest

from tests.support.result_rows import beyond, flat, frontier
from veilgraph.pages.paired_differences import Found
from veilgraph.pages.veil_targets import Aim, Outcome, aims_table, judge_aims


def judged(found: Found, words: str) -> Aim:
    [aim] = [aim for aim in judge_aims(found) if words in aim.name]
    return aim


def test_nothing_run_is_said_for_every_aim() -> None:
    aims = judge_aims({})
    assert len(aims) == 7
    assert {aim.outcome for aim in aims} == {Outcome.NOT_RUN}
    assert all(aim.figures for aim in aims)


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
    assert "46 of 48" not in aim.figures
    assert "in 47 of 48 settings" in aim.figures
    assert "LPGNN, the paper's budget (Cora, ε_x = 1, ε_y = 0.5): −7.0" in aim.figures


def test_a_rival_that_is_missing_leaves_the_aim_open_unless_another_is_above() -> None:
    rows = [each for each in beyond() if not (each.method == "lpgnn_equal" and each.dataset == "cora")]
    aim = judged({"beyond": rows}, "at or above")
    assert aim.outcome is Outcome.NOT_RUN
    assert aim.figures.startswith("40 of 48 comparisons are finished.")
    rows = [each for each in beyond(structure=0.9) if each.method != "lpgnn_equal"]
    assert judged({"beyond": rows}, "at or above").outcome is Outcome.MISSED


@pytest.mark.parametrize(
    ("rgnn", "gain", "small"),
    [(0.6, Outcome.MET, Outcome.MET), (0.83, Outcome.MISSED, Outcome.MET), (0.9, Outcome.MISSED, Outcome.MISSED)],
)
def test_gain_over_the_published_figures(rgnn: float, gain: Outcome, small: Outcome) -> None:
    found = {"beyond": beyond(rgnn=rgnn)}
    assert judged(found, "mean gain").outcome is gain
    assert judged(found, "ε_y ≤ 1").outcome is small


def test_a_gain_over_half_of_the_settings_is_not_run_yet() -> None:
    rows = [each for each in beyond() if each.dataset in ("cora", "dblp", "german")]
    aim = judged({"beyond": rows}, "mean gain")
    assert aim.outcome is Outcome.NOT_RUN
    assert aim.figures.startswith("24 of 48 comparisons are finished.")


@pytest.mark.parametrize(("structure", "outcome"), [(0.7, Outcome.MET), (0.8, Outcome.MET), (0.82, Outcome.MISSED)])
def test_no_loss_to_the_control(structure: float, outcome: Outcome) -> None:
    aim = judged({"beyond": beyond(structure=structure)}, "to the control")
    assert aim.outcome is outcome
    assert "Pubmed" in aim.figures


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
    assert "The largest ratio of Veil: not reached" in aim.figures


def test_a_graph_that_is_missing_leaves_the_aim_open() -> None:
    rows = [each for each in frontier(lowest=0.9) if each.dataset != "cora"]
    aim = judged({"frontier": rows}, "no more than half")
    assert aim.outcome is Outcome.NOT_RUN
    assert aim.figures.startswith("40 of 48 comparisons are finished.")


@pytest.mark.parametrize(("lead", "outcome"), [(-0.05, Outcome.MET), (0.1, Outcome.MISSED)])
def test_the_label_alone_is_close_to_the_best_split(lead: float, outcome: Outcome) -> None:
    found = {"frontier": frontier(step=0.05, divided_lead=lead)}
    assert judged(found, "within 2 points").outcome is outcome


def test_aims_are_a_table() -> None:
    table = aims_table(judge_aims({}))
    assert table.columns == ("Aim", "Outcome", "Figures")
    assert {row[1] for row in table.rows} == {"not run yet"}
