"""Private neighbours: every answer stands with its relation, beside floor, ceiling and published figures."""

from __future__ import annotations

import math
from typing import Any

from studies.grids.private_edges import (
    edge_settings,
    private_edges_in_words,
    private_edges_panels,
    private_edges_sheet,
)

from tests.support.result_rows import control, row
from veilgraph.experiments.results import Row


def asked(mean: float, neighbours: str, edge_epsilon: float | None = 4.0, **given: Any) -> Row:
    method = "veil_labels" if neighbours == "list" else "neighbour_waves"
    swept = {"neighbours": neighbours} | ({} if edge_epsilon is None else {"edge_epsilon": edge_epsilon})
    return _row(mean, method, swept, **given)


def _row(mean: float, method: str, swept: dict[str, Any], *, epsilon_y: float = 2.0, **given: Any) -> Row:
    if math.isinf(epsilon_y):
        swept = swept | {"reporters": 0.5}
    fields: dict[str, Any] = {"dataset": "facebook", "epsilon_x": None, "epsilon_user_level": epsilon_y}
    return row(mean, method=method, epsilon_y=epsilon_y, swept=swept, **fields | given)


def results(histogram: float = 0.86, of_list: float = 0.81, epsilon_y: float = 2.0) -> list[Row]:
    return [
        asked(histogram, "histogram", epsilon_y=epsilon_y, wobble=(0.001, -0.001)),
        asked(0.78, "class", epsilon_y=epsilon_y),
        asked(of_list, "list", epsilon_y=epsilon_y),
        asked(0.31, "alone", None, epsilon_y=epsilon_y),
        _row(0.93, "veil_labels", {}, epsilon_y=epsilon_y),
        control(0.9, dataset="facebook", epsilon_y=epsilon_y, epsilon_user_level=epsilon_y),
    ]


def test_levels_and_answers_of_a_setting_are_kept_apart() -> None:
    (setting,) = edge_settings(results())
    assert {level: round(each.mean, 6) for level, each in setting.levels.items()} == {
        "alone": 0.31,
        "structure_only": 0.9,
        "public_graph": 0.93,
    }
    assert {answer: list(rows) for answer, rows in setting.answers.items()} == {
        "class": [4.0],
        "histogram": [4.0],
        "list": [4.0],
    }


def test_the_table_has_standard_errors_relations_seeds_and_cited_figures() -> None:
    sheet = private_edges_sheet([*results(epsilon_y=math.inf), *results()])
    assert sheet is not None
    clean, private = sheet.table.rows
    assert clean[:3] == ("Facebook", "clean, 50 %", "4")
    assert private[:3] == ("Facebook", "ε_y = 2, 75 %", "4")
    assert clean[-2:] == ("82.1", "4 / 4 / 4")
    assert private[-2] == "–"  # nothing was published with private labels
    # 0.001 and -0.001 twice: the standard deviation is 0.00115, the standard error half of it.
    assert private[5].split() == ["86.0", "±", "0.1"]
    assert "any two lists" in sheet.table.columns[4]
    assert "one entry" in sheet.table.columns[5]
    assert "cited, not measured" in sheet.table.note


def test_it_is_said_where_the_list_is_better() -> None:
    assert "clearly above the randomized list in 1 of 1 settings, and clearly below it in 0." in (
        private_edges_in_words(results())
    )
    words = private_edges_in_words(results(histogram=0.55, of_list=0.74))
    assert "clearly below it in 1. Clearly below: Facebook (ε_y = 2, 75 %) at 4: −19.0" in words
    assert private_edges_in_words(results()[:2]) == ""


def test_what_was_not_run_is_a_dash_and_nothing_at_all_is_no_table() -> None:
    sheet = private_edges_sheet(results()[:1])
    assert sheet is not None
    assert sheet.table.rows[0][3:] == ("–", "–", sheet.table.rows[0][5], "–", "–", "–", "–", "– / 4 / –")
    assert private_edges_sheet([]) is None
    assert private_edges_panels([]) == []
