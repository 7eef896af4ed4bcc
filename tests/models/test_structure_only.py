"""The structure-only control: label propagation that ignores features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.models.test_conformance import PERTURBED, SPLIT
from veilgraph.datasets import csbm
from veilgraph.evaluation import accuracy
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, Split
from veilgraph.models import StructureOnly
from veilgraph.models.structure_only import RESTARTS, STEPS
from veilgraph.privacy.budget import PrivacyBudget


def test_features_are_ignored() -> None:
    silent = replace(PERTURBED, has_features=np.zeros_like(PERTURBED.has_features))
    assert (
        StructureOnly().fit(silent, SPLIT).predict_proba() == StructureOnly().fit(PERTURBED, SPLIT).predict_proba()
    ).all()


def test_restart_and_steps_are_selected_from_the_grid() -> None:
    control = StructureOnly().fit(PERTURBED, SPLIT)
    assert control.restart_ in RESTARTS
    assert control.steps_ in STEPS


def test_true_labels_on_a_homophilous_graph_are_recovered() -> None:
    private = csbm(600, num_classes=3, mean_degree=20, homophily=0.9, seed=1)
    split = Split.random(600, seed=1)
    perturbed = simulate(private, PrivacyBudget(1.0, float("inf"), 5), split, rng=np.random.default_rng(0))
    # 15 of 20 neighbours are labelled and 9 of 10 of them agree: a vote among them errs with probability below 1e-3.
    assert accuracy(StructureOnly().fit(perturbed, split).predict(), private, split.test) > 0.95


def test_a_region_without_labels_gets_the_distribution_of_all_reports() -> None:
    island = Graph.from_edges(np.concatenate([PERTURBED.graph.edges, [[200], [201]]], axis=1), 202)
    bigger = replace(
        PERTURBED,
        graph=island,
        features=np.pad(PERTURBED.features, ((0, 2), (0, 0))),
        labels=np.pad(PERTURBED.labels, (0, 2)),
        has_features=np.pad(PERTURBED.has_features, (0, 2)),
        has_label=np.pad(PERTURBED.has_label, (0, 2)),
    )
    split = Split(
        train=np.pad(SPLIT.train, (0, 2)),
        validation=np.pad(SPLIT.validation, (0, 2)),
        test=np.pad(SPLIT.test, (0, 2), constant_values=True),
    )
    probabilities = StructureOnly().fit(bigger, split).predict_proba()
    reports = np.bincount(PERTURBED.labels[PERTURBED.has_label], minlength=3) / PERTURBED.has_label.sum()
    assert (probabilities[200] == probabilities[201]).all()
    assert (np.argsort(probabilities[200]) == np.argsort(reports)).all()
