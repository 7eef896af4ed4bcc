"""The majority class: every node gets the debiased distribution of all label reports."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilgraph.datasets import csbm
from veilgraph.evaluation import accuracy, majority_share
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.models import MajorityClass
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import GRR, GRRFS
from veilgraph.privacy.schema import FeatureSchema


def reports(labels: list[int], num_classes: int = 2, unlabelled: int = 0) -> tuple[PerturbedGraph, Split]:
    """Return labels reported on a path by GRR with keep probability 3 / (2 + classes), and a split."""
    nodes = len(labels) + unlabelled
    labelled = np.arange(nodes) < len(labels)
    first = np.arange(nodes) == 0
    perturbed = PerturbedGraph(
        graph=Graph.from_edges([range(nodes - 1), range(1, nodes)], nodes),
        schema=FeatureSchema.binary(1, classes=[f"class {c}" for c in range(num_classes)]),
        features=np.zeros((nodes, 1), dtype=np.int8),
        labels=np.array(labels + [0] * unlabelled),
        has_features=np.ones(nodes, dtype=np.bool_),
        has_label=labelled,
        feature_mechanism=GRRFS((2,), sampled=1, epsilon=1.0),
        label_mechanism=GRR(num_classes, epsilon=math.log(3)),
    )
    return perturbed, Split(train=first, validation=labelled & ~first, test=~labelled)


def test_shares_of_reports_are_debiased_and_projected_on_the_simplex() -> None:
    # Two classes, p = 3/4, q = 1/4: of 8 reports 5 say 0, so (5/8 - 1/4) / (1/2) = 3/4 of the people hold it.
    perturbed, split = reports([0, 0, 0, 0, 0, 1, 1, 1], unlabelled=2)
    probabilities = MajorityClass().fit(perturbed, split).predict_proba()
    assert probabilities.shape == (10, 2)
    assert np.allclose(probabilities, [0.75, 0.25], atol=1e-6)
    # 7 of 8 would mean a share of 5/4.
    perturbed, split = reports([0, 0, 0, 0, 0, 0, 0, 1])
    assert np.allclose(MajorityClass().fit(perturbed, split).predict_proba(), [1, 0])


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 2), min_size=2, max_size=40))
def test_debiasing_never_changes_which_class_is_largest(labels: list[int]) -> None:
    counts = np.bincount(labels, minlength=3)
    if (counts == counts.max()).sum() > 1:
        return
    perturbed, split = reports(labels, num_classes=3, unlabelled=1)
    assert (MajorityClass().fit(perturbed, split).predict() == counts.argmax()).all()


def test_every_node_gets_the_same_distribution_whatever_edges_and_features_are() -> None:
    perturbed, split = reports([0, 0, 1, 0])
    other, _ = reports([1] * 7)
    assert np.allclose(MajorityClass().fit(perturbed, split).predict_proba(other), [[1, 0]] * 7)
    perturbed, split = reports([0, 1, 0, 0, 1])
    rewired = replace(perturbed, graph=Graph.from_edges([[0, 0, 0], [2, 3, 4]], 5), features=1 - perturbed.features)
    before, after = (MajorityClass().fit(each, split).predict_proba() for each in (perturbed, rewired))
    assert (before == after).all()


def test_its_accuracy_is_the_share_of_the_largest_class() -> None:
    private = csbm(2000, num_classes=2, class_shares=(0.7, 0.3), num_features=2, seed=0)
    split = Split.random(2000, seed=0)
    perturbed = simulate(private, PrivacyBudget(1.0, 1.0, 1), split, rng=np.random.default_rng(0))
    found = accuracy(MajorityClass().fit(perturbed, split).predict(), private, split.test)
    # Of 1500 reports 0.27 + 0.46 * 0.7 = 0.59 say the larger class: 7 s.e. above one half. The share among 500 test
    # nodes has a standard error of 0.02.
    assert found == pytest.approx(majority_share(private), abs=4 * 0.0205)
