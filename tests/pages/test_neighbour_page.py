"""The page of private neighbours names every answer with its relation, and says what was not run."""

from __future__ import annotations

from typing import Any

import pytest

from veilgraph.experiments.neighbour_design import NeighbourDesign
from veilgraph.pages.neighbour_page import headline, render_neighbour_page


def point(answer: str, mean: float | None, **costs: float) -> dict[str, Any]:
    design = NeighbourDesign.usual(answer, 2.0, 4.0)
    return {
        "edge_epsilon": 4.0,
        "design": design.title,
        "guarantee_in_words": design.guarantee(3, 2708).in_words(),
        "accuracy_mean": mean,
        "accuracy_std": None,
        **costs,
    }


def result(of_list: float | None) -> dict[str, Any]:
    return {
        "dataset": "cora",
        "nodes": 2708,
        "edges": 5278,
        "classes": 3,
        "epsilon_y": 2.0,
        "epsilon_x": None,
        "sampled": None,
        "edge_epsilons": [4.0],
        "seeds": [0],
        "answers": {
            "histogram": [point("histogram", 0.55)],
            "class": [point("class", 0.48)],
            "list": [point("list", of_list, names=52.5, false_neighbours=0.88, answer_bytes=242.0)],
        },
        "levels": {
            level: {"accuracy_mean": mean, "accuracy_std": None}
            for level, mean in (("label_alone", 0.31), ("control", 0.81), ("public_graph", 0.82))
        },
    }


def test_each_answer_stands_with_its_relation_and_a_list_with_its_costs() -> None:
    page = render_neighbour_page(result(0.74))
    for title in (
        "Histogram (protects one entry)",
        "Class (protects any two lists)",
        "Randomized list (protects one entry), randomized list: 4",
        "52 names in a report, 0.9 false neighbours for each person",
    ):
        assert title in page
    assert page.count("Whole lists are not protected.") == 2  # with the histogram and with the list


@pytest.mark.parametrize("seeds", [1, 3])
def test_every_accuracy_of_the_headline_has_its_spread_and_the_number_of_seeds(seeds: int) -> None:
    found = result(0.74) | {"seeds": list(range(seeds))}
    for each in [*found["levels"].values(), *(points[0] for points in found["answers"].values())]:
        each["accuracy_std"] = 0.012 if seeds > 1 else None
    said = headline(found).replace("\N{NO-BREAK SPACE}", " ")
    spread = "± 1.2" if seeds > 1 else "(one seed)"
    for mean in ("31.0", "82.0", "81.0", "55.0", "48.0", "74.0"):
        assert f"{mean} % {spread}" in said
    assert ("Mean ± standard deviation over 3 seeds." if seeds > 1 else "One seed: the spread is not known.") in said


def test_a_list_that_was_not_run_is_in_the_table_and_neither_in_the_headline_nor_in_the_figure() -> None:
    assert "from lists" in headline(result(0.74))
    page = render_neighbour_page(result(None))
    assert "from lists" not in headline(result(None))
    assert "not\N{NO-BREAK SPACE}run" in page
    assert "Randomized list (protects one entry): 4:" not in page
    assert "Randomized list (protects one entry): 4: 74.0" in render_neighbour_page(result(0.74))
