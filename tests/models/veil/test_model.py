"""Veil: limits, fallbacks, calibration, and comparison with the control."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from studies.calibration import CALIBRATION_BINS, calibration_bins, calibration_error

from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.errors import FitError
from veilgraph.evaluation import accuracy
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.graph.clustering import Bisections, start_bisections
from veilgraph.models import LabelVeil, StructureOnly, Veil
from veilgraph.models.base import FitTask
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.models.veil.pagerank import PageRankView
from veilgraph.models.veil.views import iteration_counts, read_views
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms.registry import multi_bit_best
from veilgraph.reconstruct import decompositions
from veilgraph.reconstruct.operators import GraphOperators


def collect(
    private: PrivateGraph, epsilon_y: float, seed: int, *, labelled: float = 0.75, epsilon_x: float = 1.0
) -> tuple[PerturbedGraph, Split]:
    split = Split.random(private.graph.num_nodes, seed=seed, train=labelled * 2 / 3, validation=labelled / 3)
    budget = PrivacyBudget(epsilon_x, epsilon_y, min(10, private.schema.num_features))
    return simulate(private, budget, split, rng=np.random.default_rng(seed)), split


PRIVATE = csbm(300, num_classes=3, num_features=8, seed=1)


@cache
def fitted(kind: type[Veil], epsilon_y: float) -> Veil:
    """Return a fit to the reports of `PRIVATE`, which several tests read and none changes."""
    return kind().fit(*collect(PRIVATE, epsilon_y, 0))


def test_labels_that_are_not_randomized_are_predicted_exactly() -> None:
    perturbed, split = collect(PRIVATE, math.inf, 0)
    predicted = Veil().fit(perturbed, split).predict()
    assert (predicted[split.labelled] == PRIVATE.labels[split.labelled]).all()


def test_uninformative_reports_give_the_prior() -> None:
    probabilities = fitted(LabelVeil, 1e-6).predict_proba()
    # Nothing can be learned. The priors of calibration and weights limit the effect of noise.
    assert np.abs(probabilities.mean(0) - 1 / 3).max() < 0.2
    assert probabilities.max(1).mean() < 0.6


@pytest.mark.parametrize("parameters", [{"num_classes": 3}, {"num_classes": 2, "homophily": 0.2}])
def test_more_budget_gives_better_predictions(parameters: dict[str, float]) -> None:
    runs = []
    for seed in range(4):
        private = csbm(300, num_features=2, mean_degree=6, seed=seed, **parameters)  # type: ignore[arg-type]
        for epsilon in (0.3, 1.0, 3.0):
            perturbed, split = collect(private, epsilon, seed)
            runs.append(accuracy(LabelVeil().fit(perturbed, split).predict(), private, split.test))
    found = np.reshape(runs, (4, 3)).mean(axis=0)
    # Each mean is over 300 test nodes: a standard error of at most 0.03.
    assert found[0] < found[1] + 0.06
    assert found[1] < found[2] + 0.06
    assert found[0] + 0.06 < found[2]


def test_it_beats_the_control_where_evidence_is_far() -> None:
    differences = []
    for seed in range(6):
        private = csbm(600, num_classes=4, num_features=2, seed=seed)
        perturbed, split = collect(private, 0.7, seed)
        ours, control = (m.fit(perturbed, split).predict() for m in (LabelVeil(), StructureOnly()))
        differences.append(accuracy(ours, private, split.test) - accuracy(control, private, split.test))
    error = np.std(differences, ddof=1) / len(differences) ** 0.5
    assert np.mean(differences) > 2 * error


def test_heterophily_is_learned() -> None:
    differences = []
    for seed in range(4):
        private = csbm(400, num_classes=2, homophily=0.15, num_features=2, seed=seed)
        perturbed, split = collect(private, 1.0, seed)
        ours, control = (m.fit(perturbed, split).predict() for m in (LabelVeil(), StructureOnly()))
        differences.append(accuracy(ours, private, split.test) - accuracy(control, private, split.test))
        assert accuracy(ours, private, split.test) > 0.8
    assert np.mean(differences) > 0


@pytest.mark.parametrize("randomizer", ["grr_fs", "multi_bit"])
def test_features_help_where_structure_is_uninformative(randomizer: str) -> None:
    with_features, without = [], []
    for seed in range(2):
        private = csbm(600, num_classes=2, homophily=0.5, num_features=20, feature_signal=1.0, seed=seed)
        split = Split.random(600, seed=seed)
        budget = PrivacyBudget(1.0, 3.0, 10)
        extra: dict[str, Any] = {"features": multi_bit_best} if randomizer == "multi_bit" else {}
        perturbed = simulate(private, budget, split, rng=np.random.default_rng(seed), **extra)
        with_features.append(accuracy(Veil().fit(perturbed, split).predict(), private, split.test))
        without.append(accuracy(LabelVeil().fit(perturbed, split).predict(), private, split.test))
    # 300 test nodes: chance has a standard error of 0.029.
    assert np.mean(with_features) > np.mean(without) + 3 * 0.029 * 2**0.5


def test_a_saved_fit_with_features_predicts_the_same_on_another_graph(tmp_path: Path) -> None:
    private, other = (
        csbm(400, num_classes=2, homophily=0.5, num_features=20, feature_signal=1.0, seed=seed) for seed in (0, 1)
    )
    perturbed, split = collect(private, 3.0, 0, epsilon_x=2.0)
    reports, _ = collect(other, 3.0, 1, epsilon_x=2.0)
    veil = Veil(seed=1).fit(perturbed, split)
    assert veil.feature_pool_ is not None
    veil.save(tmp_path)
    loaded = Veil.load(tmp_path, device="cpu")
    assert loaded.calibration_ == veil.calibration_
    assert (loaded.predict_proba() == veil.predict_proba()).all()
    # Log-beliefs of up to some ten nats are rounded by 1e-6 where sums are grouped in another way.
    assert np.allclose(loaded.predict_proba(reports), veil.predict_proba(reports), rtol=0, atol=1e-5)


def test_without_feature_reports_it_equals_label_veil() -> None:
    perturbed, split = collect(PRIVATE, 1.0, 0)
    silent = replace(perturbed, has_features=np.zeros(300, dtype=np.bool_))
    assert (Veil().fit(silent, split).predict_proba() == fitted(LabelVeil, 1.0).predict_proba()).all()


def test_uninformative_reports_leave_half_the_weight_to_communities_and_equal_parts_to_other_kinds() -> None:
    veil = fitted(LabelVeil, 1e-6)
    kinds: dict[str, float] = {}
    for name, weight in zip(veil.calibration_, veil.pool_.weights.tolist(), strict=True):
        kinds[name.split()[0]] = kinds.get(name.split()[0], 0.0) + weight
    # 225 log-likelihoods differ by at most epsilon: weights move by less than 1e-3.
    assert kinds.pop("communities") == pytest.approx(0.5, abs=1e-3)
    assert list(kinds.values()) == pytest.approx([0.5 / len(kinds)] * len(kinds), abs=1e-3)


@pytest.mark.parametrize("labelled", [0.75, 0.3])
def test_the_calibration_error_on_block_models_is_within_chance_and_a_twentieth(labelled: float) -> None:
    total = np.zeros((CALIBRATION_BINS, 3))
    for seed in range(3):
        private = csbm(600, num_classes=4, num_features=2, homophily=0.6, seed=seed)
        perturbed, split = collect(private, 2.0, seed, labelled=labelled)
        total += calibration_bins(LabelVeil().fit(perturbed, split).predict_proba(), private, split.test)
    count, confidence, _ = total[total[:, 0] > 0].T
    # If confidences are right, the hits of a bin have a standard deviation of sqrt(n c (1 - c)).
    chance = np.sqrt(confidence * (1 - confidence / count)).sum() / count.sum()
    assert calibration_error(total) < 0.05 + chance


def relabelled(perturbed: PerturbedGraph, order: np.ndarray) -> PerturbedGraph:
    """Reorder nodes: node order[i] becomes node i."""
    place = np.argsort(order)
    graph = Graph.from_edges(place[perturbed.graph.edges], num_nodes=len(order))
    parts = {name: getattr(perturbed, name)[order] for name in ("features", "labels", "has_features", "has_label")}
    return replace(perturbed, graph=graph, **parts)


def test_the_order_of_nodes_does_not_matter() -> None:
    perturbed, _ = collect(PRIVATE, 1.0, 0)
    order = np.random.default_rng(5).permutation(300)
    moved = relabelled(perturbed, order)
    labels = CrossFitting.random(perturbed, seed=0)
    same = CrossFitting(perturbed=moved, folds=labels.folds[order])
    views, moved_views = (
        read_views(reports, GraphOperators(graph), lambda _, view: view, seed=0)
        for reports, graph in ((labels, perturbed.graph), (same, moved.graph))
    )
    for name, view in views.items():
        if name.startswith(("beliefs", "block")):
            expected = view.log_probabilities(labels.reports.prior, (1.0,))[order]
            assert torch.allclose(
                moved_views[name].log_probabilities(labels.reports.prior, (1.0,)), expected, atol=1e-3
            )
        elif name == "communities" or name.startswith("spectral"):
            # METIS breaks ties between equally good cuts by the order of nodes. Eigenvectors are found up to a
            # tolerance, from a random start.
            one, other = (each.log_probabilities(labels.reports.prior, (1.0,)) for each in (view, moved_views[name]))
            assert (one[order].argmax(2) == other.argmax(2)).float().mean() > 0.9
        else:
            # Effective sample sizes are estimated with random signs, which are not reordered.
            moved_view = moved_views[name]
            assert isinstance(view, PageRankView)
            assert isinstance(moved_view, PageRankView)
            assert torch.allclose(moved_view.excess, view.excess[order], atol=1e-4)


def test_the_order_of_classes_does_not_matter() -> None:
    perturbed, split = collect(PRIVATE, 1.0, 0)
    renamed = replace(perturbed, labels=np.array([2, 0, 1])[perturbed.labels])
    expected = fitted(Veil, 1.0).predict_proba()
    assert np.allclose(Veil().fit(renamed, split).predict_proba()[:, [2, 0, 1]], expected, atol=0.02)


def test_another_seed_draws_other_folds_and_agrees_on_most_nodes() -> None:
    perturbed, split = collect(PRIVATE, 2.0, 0)
    other = Veil(seed=1).fit(perturbed, split).predict()
    assert (fitted(Veil, 2.0).predict() == other).mean() > 0.9


def test_isolated_nodes_get_the_prior_and_their_own_report() -> None:
    private = csbm(300, num_classes=3, num_features=2, seed=0)
    edges = private.graph.edges[:, (private.graph.edges > 1).all(axis=0)]
    perturbed, split = collect(private, 3.0, 0)
    has_label = perturbed.has_label.copy()
    has_label[:2] = [True, False]
    perturbed = replace(perturbed, graph=Graph.from_edges(edges, num_nodes=300), has_label=has_label)
    veil = LabelVeil().fit(perturbed, split)
    probabilities = veil.predict_proba()
    assert probabilities[0].argmax() == perturbed.labels[0]
    labels = CrossFitting.random(perturbed, seed=0)
    # Views have the prior to say, but for communities, and the pool what it knows about nodes of this degree.
    prior = labels.reports.prior.log().expand(len(veil.calibration_), 1, -1)
    expected = veil.pool_.combine(prior, labels.reports.degree_columns[1:2]).exp()[0].numpy()
    assert probabilities[1] == pytest.approx(expected, abs=0.15)


def test_a_region_without_labels_is_predicted_with_low_confidence() -> None:
    private = csbm(300, num_classes=3, num_features=2, seed=0)
    apart = np.concatenate([private.graph.edges, private.graph.edges + 300], axis=1)
    perturbed, split = collect(private, 3.0, 0)
    doubled = PerturbedGraph(
        graph=Graph.from_edges(apart, num_nodes=600),
        schema=perturbed.schema,
        features=np.concatenate([perturbed.features] * 2),
        labels=np.concatenate([perturbed.labels] * 2),
        has_features=np.zeros(600, dtype=np.bool_),
        has_label=np.concatenate([perturbed.has_label, np.zeros(300, dtype=np.bool_)]),
        feature_mechanism=perturbed.feature_mechanism,
        label_mechanism=perturbed.label_mechanism,
    )
    parts = {
        name: np.concatenate([getattr(split, name), np.zeros(300, dtype=np.bool_)]) for name in ("train", "validation")
    }
    parts["test"] = ~parts["train"] & ~parts["validation"]
    probabilities = Veil().fit(doubled, Split(**parts)).predict_proba()
    assert probabilities[300:].max() < 0.6 < probabilities[:300].max(1).mean()


def test_an_unreported_class_and_four_labels_are_enough_for_a_fit() -> None:
    perturbed, split = collect(PRIVATE, 3.0, 0)
    few = np.zeros(300, dtype=np.bool_)
    few[np.flatnonzero(split.train & (perturbed.labels != 2))[:3]] = True
    few[np.flatnonzero(split.validation & (perturbed.labels != 2))[:1]] = True
    probabilities = Veil().fit(replace(perturbed, has_label=few), split).predict_proba()
    assert np.isfinite(probabilities).all()
    assert np.allclose(probabilities.sum(1), 1, atol=1e-5)


def test_a_rare_class_is_predicted() -> None:
    private = csbm(500, num_classes=3, class_shares=[0.5, 0.499, 0.001], num_features=2, seed=0)
    ring = [[500 + v, 500 + (v + step) % 25] for v in range(25) for step in (1, 2, 3)]
    edges = np.concatenate([private.graph.edges.T, ring, [[0, 500], [1, 510]]]).T
    labels = np.concatenate([private.labels, np.full(25, 2)])
    small = PrivateGraph(
        name="small class",
        graph=Graph.from_edges(edges, num_nodes=525),
        schema=private.schema,
        features=np.concatenate([private.features, private.features[:25]]),
        labels=labels,
    )
    perturbed, split = collect(small, 3.0, 0)
    predicted = Veil().fit(perturbed, split).predict()
    # The class has 25 of 525 nodes, and most of them report it.
    assert (predicted[500:] == 2).mean() > 0.5


def test_another_graph_is_predicted_from_its_own_reports() -> None:
    veil = fitted(Veil, 2.0)
    other = csbm(400, num_classes=3, num_features=8, seed=9)
    reports, other_split = collect(other, 2.0, 1)
    assert accuracy(veil.predict(reports), other, other_split.test) > 0.8


def test_another_graph_needs_the_same_classes_and_a_label() -> None:
    veil, (perturbed, _) = fitted(Veil, 2.0), collect(PRIVATE, 2.0, 0)
    four, _ = collect(csbm(100, num_classes=4, num_features=8), 2.0, 0)
    with pytest.raises(FitError, match="the graph has 4 classes, Veil was fitted for 3"):
        veil.predict(four)
    with pytest.raises(FitError, match="no labelled nodes"):
        veil.predict(replace(perturbed, has_label=np.zeros(300, dtype=np.bool_)))


def test_the_number_of_iterations_follows_the_graph_and_is_bounded() -> None:
    path = Graph.from_edges([range(2000), range(1, 2001)], num_nodes=2001)
    assert iteration_counts(GraphOperators(path)) == {1: 11, 2: 22, 3: 33}
    with_isolated = Graph.from_edges([range(2000), range(1, 2001)], num_nodes=4000)
    assert iteration_counts(GraphOperators(with_isolated)) == iteration_counts(GraphOperators(path))
    pairs = Graph.from_edges([range(0, 4000, 2), range(1, 4000, 2)], num_nodes=4000)
    assert max(iteration_counts(GraphOperators(pairs)).values()) == 40


def test_a_graph_is_bisected_once_for_all_tasks_fitted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    private, split = csbm(200, seed=0), Split.random(200, seed=0)
    tasks = [
        FitTask(
            method=Veil(seed=seed),
            perturbed=simulate(private, PrivacyBudget(1.0, 1.0, 10), split, rng=np.random.default_rng(seed)),
            split=split,
        )
        for seed in range(2)
    ]
    calls: list[int] = []

    def counted(graph: Graph, trees: int, *, workers: int) -> Callable[[], Bisections]:
        wait = start_bisections(graph, trees, workers=workers)

        def work() -> Bisections:
            calls.append(trees)
            return wait()

        return work

    monkeypatch.setattr(decompositions, "start_bisections", counted)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)  # two tasks in parallel
    assert sum(len(batch) for batch in Veil.fit_together(tasks)) == 2
    assert len(calls) == 1
