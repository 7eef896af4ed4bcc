"""Rivals side by side: the best of each method, the highest in bold, and losses that are counted and named."""

from __future__ import annotations

from typing import Any

import pytest
from studies.grids.rivals import VEIL, contests, losses, rivals_in_words, rivals_sheet

from tests.support.result_rows import control, flat, row
from veilgraph.experiments.results import Row
from veilgraph.pages.result_tables import to_latex, to_markdown


def method(name: str, mean: float, *, epsilon_y: float = 1.0, total: float = 1.0, **given: Any) -> Row:
    features = (total - epsilon_y) / 10 or None
    return flat(
        mean, method=name, dataset="cora", epsilon_x=features, epsilon_y=epsilon_y, epsilon_user_level=total, **given
    )


def results(veil: float = 0.7, spectral: float = 0.6, divided: float = 0.5) -> list[Row]:
    return [
        method(VEIL, veil),
        control(0.55, dataset="cora", epsilon_y=1.0, epsilon_user_level=1.0),
        method("spectral", spectral),
        method("rgnn", divided, epsilon_y=0.9),
        method("rgnn", divided - 0.1, epsilon_y=0.5),
    ]


def test_a_method_has_its_best_division_of_the_total_and_its_best_label_mechanism() -> None:
    (contest,) = contests([*results(), method("spectral", 0.65)])
    assert contest.rows["rgnn"].epsilon_y == 0.9
    assert contest.rows["spectral"].mean == 0.65
    assert (contest.best, contest.best_rival) == (VEIL, "spectral")


def test_methods_are_compared_at_one_total_whatever_they_spend_on_the_label() -> None:
    found = contests([*results(), method("rgnn", 0.8, epsilon_y=1.8, total=2.0)])
    assert [(contest.total, sorted(contest.rows)) for contest in found] == [
        (1.0, ["rgnn", "spectral", "structure_only", VEIL]),
        (2.0, ["rgnn"]),
    ]


@pytest.mark.usefixtures("registered")
def test_a_rival_that_is_clearly_above_is_counted_and_named() -> None:
    rows = results(veil=0.7, spectral=0.75)
    (loss,) = losses(contests(rows))
    assert (loss.rival, round(loss.lead.mean, 9)) == ("spectral", -0.05)
    words = rivals_in_words(rows)
    assert "has the highest mean in 0 of 1 settings, and is at or above every rival within noise in 0." in words
    assert "Clearly below: Cora at 1: Spectral (−5.0 ± 0.0)." in words


def test_a_rival_that_is_above_within_noise_is_no_loss() -> None:
    # Differences of -1, 3, -3 and -1 points have the mean -0.5 and the standard error 1.3.
    noisy = row(
        0.7,
        method="spectral",
        dataset="cora",
        epsilon_x=None,
        epsilon_y=1.0,
        epsilon_user_level=1.0,
        wobble=(0.01, -0.03, 0.03, 0.01),
    )
    rows = [method(VEIL, 0.7), noisy]
    assert contests(rows)[0].best == "spectral"
    assert losses(contests(rows)) == []
    assert "at or above every rival within noise in 1. It is clearly below in 0 of 1 comparisons" in rivals_in_words(
        rows
    )


def test_the_highest_mean_is_bold_and_a_missing_method_is_a_dash() -> None:
    sheet = rivals_sheet([*results(), method("featfree", 0.9, epsilon_y=2.0, total=2.0)])
    assert sheet is not None
    first, second = [line for line in to_markdown(sheet.table).splitlines() if line.startswith("| Cora")]
    assert "| **70.0\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.0** |" in first
    assert first.count("**") == second.count("**") == 2
    assert second.count(" – ") == 5
    assert to_latex(sheet.table).count(r"\textbf{70.0~$\pm$~0.0}") == 1
    assert [record["at_or_above_every_rival_within_noise"] for record in sheet.records] == ["yes", None]
