"""Cells that are fitted together equal separate fits, and draws share what they can and nothing else."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.models.engine.test_fit_together import EPOCHS, PRIVATE, TOLERANCE
from tests.support.miniatures import SMALL, miniature
from veilgraph.datasets import PrivateGraph
from veilgraph.evaluation import accuracy
from veilgraph.experiments.cells import DatasetLoader, draw_reports, fit_cells, key_of
from veilgraph.experiments.grid import Cell, load_experiment
from veilgraph.experiments.neighbour_design import NeighbourDesign
from veilgraph.experiments.private_neighbours import simulate_neighbour_waves
from veilgraph.experiments.simulation import feature_rng, label_rng
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models.registry import METHODS

CELL = Cell(dataset="cora", method="rgnn", epsilon_x=1.0, epsilon_y=2.0, sampled=10, seed=0)


def draw(cell: Cell) -> tuple[PerturbedGraph, Split]:
    return draw_reports(cell, SMALL(cell))


def test_the_same_labels_are_drawn_for_all_methods_at_one_seed_and_label_budget() -> None:
    expected, split = draw(CELL)
    assert expected.has_label.any()
    for name in (name for name, entry in METHODS.items() if entry.private):
        epsilon_x = 0.1 if METHODS[name].uses_features else None
        perturbed, own_split = draw(replace(CELL, method=name, epsilon_x=epsilon_x))
        assert (perturbed.labels == expected.labels).all()
        assert (perturbed.has_label == expected.has_label).all()
        assert (own_split.train == split.train).all()
        assert (own_split.test == split.test).all()


@pytest.mark.parametrize("change", [{"seed": 1}, {"epsilon_y": 0.5}, {"dataset": "german"}])
def test_another_seed_or_label_budget_draws_other_labels(change: dict[str, Any]) -> None:
    labels, others = (draw(cell)[0].labels for cell in (CELL, replace(CELL, **change)))
    assert (labels != others).any()


def test_reports_do_not_follow_from_the_split_of_the_same_seed() -> None:
    # With one stream for both, the split would tell something about the noise of the reports. For the same reason
    # the noise of labels and that of features have separate streams.
    streams = (np.random.default_rng(CELL.seed), label_rng(CELL.seed), feature_rng(CELL.seed))
    words = [stream.integers(0, 2**62, size=8) for stream in streams]
    assert len(set(np.concatenate(words).tolist())) == 3 * 8


NEIGHBOURS = replace(CELL, method="neighbour_waves", epsilon_x=None)


@pytest.mark.parametrize(("answer", "epsilons"), [("histogram", [1.0, 3.0]), ("class", [4.0] * 4)])
def test_a_cell_with_waves_is_the_usual_design_of_its_answer_and_its_server_knows_no_edge(
    answer: str, epsilons: list[float]
) -> None:
    cell = replace(NEIGHBOURS, neighbours=answer, edge_epsilon=4.0)
    private, (reports, split) = SMALL(cell), draw(cell)
    assert reports.graph.num_edges == 0
    assert [wave.mechanism.epsilon for wave in reports.neighbour_waves] == epsilons
    design = NeighbourDesign.usual(answer, 2.0, 4.0)
    expected, method = simulate_neighbour_waves(
        private, split, design.label(3), design.waves(3, 260), seed=cell.seed, in_turn=design.in_turn
    )
    for wave, same in zip(reports.neighbour_waves, expected.neighbour_waves, strict=True):
        np.testing.assert_array_equal(wave.answers, same.answers)
    (fit,) = fit_cells([cell], private, "cpu")
    assert fit.accuracy == accuracy(method.predict(), private, split.test)


def test_labels_are_the_same_whatever_is_asked_about_edges() -> None:
    expected, _ = draw(NEIGHBOURS)
    for neighbours, edge_epsilon in (("alone", None), ("list", 2.0), ("class", 2.0)):
        reports, _ = draw(replace(NEIGHBOURS, neighbours=neighbours, edge_epsilon=edge_epsilon))
        np.testing.assert_array_equal(reports.labels, expected.labels)


def test_randomized_lists_change_the_graph_and_no_questions_leave_none() -> None:
    private = SMALL(CELL)
    alone, _ = draw(replace(NEIGHBOURS, neighbours="alone"))
    noisy, _ = draw(replace(NEIGHBOURS, neighbours="list", edge_epsilon=2.0))
    assert alone.graph.num_edges == 0
    assert noisy.graph.num_edges != private.graph.num_edges


def test_clean_labels_of_half_are_those_of_the_training_nodes_and_test_nodes_stay() -> None:
    _, usual = draw(NEIGHBOURS)
    reports, split = draw(replace(NEIGHBOURS, epsilon_y=math.inf, reporters=0.5))
    np.testing.assert_array_equal(split.labelled, usual.train)
    np.testing.assert_array_equal(split.test, usual.test)
    np.testing.assert_array_equal(reports.has_label, usual.train)
    assert (reports.labels[usual.train] == SMALL(CELL).labels[usual.train]).all()


def cells_of(method: str) -> list[Cell]:
    """Return a cell, and others that differ from it in the seed, in the feature budget or in the label budget."""
    entry = METHODS[method]
    return [
        Cell(
            dataset="block model",
            method=method,
            epsilon_x=epsilon_x if entry.private and entry.uses_features else None,
            epsilon_y=epsilon_y if entry.private else None,
            sampled=4,
            seed=seed,
            parameters={"epochs": EPOCHS, **({"num_clusters": 4} if method == "rgnn" else {})},
        )
        for seed, epsilon_x, epsilon_y in ((0, 1.0, 1.0), (1, 1.0, 1.0), (0, 0.5, 1.0), (0, 1.0, 2.0))
    ]


@pytest.mark.parametrize("method", METHODS)
def test_cells_of_every_method_that_are_fitted_together_equal_separate_fits(method: str) -> None:
    cells = cells_of(method)
    together = {id(fit.cell): fit for fit in fit_cells(cells, PRIVATE, "cpu")}
    assert set(together) == set(map(id, cells))
    for cell in cells:
        found = together[id(cell)]
        [alone] = fit_cells([cell], PRIVATE, "cpu")
        assert np.allclose(found.method.predict_proba(), alone.method.predict_proba(), rtol=0, atol=TOLERANCE)
        assert found.seconds > 0
        assert 0 <= found.accuracy <= 1
        assert (found.perturbed.labels == alone.perturbed.labels).all()


@pytest.mark.parametrize("method", ["rgnn", "lpgnn"])
def test_cells_of_one_seed_and_feature_budget_share_one_array_of_reports(method: str) -> None:
    drawn = [(cell, draw_reports(cell, PRIVATE)[0]) for cell in cells_of(method)]
    for cell, perturbed in drawn:
        for other_cell, other in drawn:
            same = (cell.seed, cell.epsilon_x) == (other_cell.seed, other_cell.epsilon_x)
            assert (perturbed.features is other.features) == same
            if not same:
                assert (perturbed.features != other.features).any()


ANY_CELL = Cell(dataset="cora", method="rgnn", epsilon_x=1.0, epsilon_y=2.0, sampled=10, seed=0)


def test_a_data_set_is_read_once() -> None:
    read: list[str] = []

    def counted(name: str, **options: object) -> PrivateGraph:
        read.append(name)
        return miniature(name)

    data = DatasetLoader(read=counted)
    assert data(ANY_CELL) is data(ANY_CELL)
    assert read == ["cora"]


def test_a_loader_is_sent_to_other_processes_without_data() -> None:
    SMALL(ANY_CELL)
    assert len(pickle.dumps(SMALL)) < 1000


def test_other_data_under_the_same_name_is_computed_anew() -> None:
    other = DatasetLoader(read=lambda name, **options: miniature(f"another {name}"))
    assert key_of(ANY_CELL, other) != key_of(ANY_CELL, SMALL)


def test_columns_as_they_came_are_loaded_where_an_experiment_asks_for_them() -> None:
    merged, original = (SMALL.load(ANY_CELL.dataset, original_columns=original) for original in (False, True))
    assert (merged.schema.num_features, original.schema.num_features) == (12, 24)
    assert {cell.original_columns for cell in load_experiment("table1").cells} == {True}
