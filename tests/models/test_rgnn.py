"""Algorithm 3 beats a GNN on raw reports where theory says that it must."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from veilgraph.datasets import csbm
from veilgraph.errors import FitError
from veilgraph.evaluation import accuracy
from veilgraph.experiments import simulate
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models import RGNN, PlainGNN
from veilgraph.privacy.budget import PrivacyBudget

PRIVATE = csbm(200, num_classes=3, num_features=6, seed=0)
SPLIT = Split.random(200, seed=0)
PERTURBED = simulate(PRIVATE, PrivacyBudget(1.0, 2.0, 3), SPLIT, rng=np.random.default_rng(0))


def weights_after_one_step(perturbed: PerturbedGraph, *, hold_out: bool) -> NDArray[np.float32]:
    """One epoch has nothing to select, so that weights show what the loss was made from."""
    method = RGNN(epochs=1, feature_hops=1, label_hops=3, num_clusters=4, hold_out_validation=hold_out)
    weights = method.fit(perturbed, SPLIT).weights_
    return np.concatenate([weights[name].flatten().numpy() for name in sorted(weights)])


def test_validation_labels_take_part_in_the_propagation_unless_they_are_held_out() -> None:
    labels = PERTURBED.labels.copy()
    labels[SPLIT.validation] = 2
    other = replace(PERTURBED, labels=labels)
    assert (weights_after_one_step(PERTURBED, hold_out=False) != weights_after_one_step(other, hold_out=False)).any()
    assert (weights_after_one_step(PERTURBED, hold_out=True) == weights_after_one_step(other, hold_out=True)).all()


def test_hops_are_those_of_the_network_that_explains_held_out_validation_reports_best(tmp_path: Path) -> None:
    chosen = RGNN(epochs=10, num_clusters=4).fit(PERTURBED, SPLIT)
    scores = {
        hops: max(
            RGNN(feature_hops=hops[0], label_hops=hops[1], epochs=10, num_clusters=4, hold_out_validation=True)
            .fit(PERTURBED, SPLIT)
            .curve_.validation_score
        )
        for hops in ((1, 1), (2, 1), (4, 2), (8, 4), (16, 8))
    }
    assert chosen.hops == max(scores, key=lambda hops: scores[hops])
    given = RGNN(feature_hops=chosen.hops[0], label_hops=chosen.hops[1], epochs=10, num_clusters=4)
    assert (given.fit(PERTURBED, SPLIT).predict_proba() == chosen.predict_proba()).all()
    chosen.save(tmp_path)
    loaded = RGNN.load(tmp_path, device="cpu")
    assert loaded.hops == chosen.hops
    assert (loaded.predict_proba(PERTURBED) == chosen.predict_proba(PERTURBED)).all()


def test_given_hops_are_kept_and_only_the_others_are_chosen() -> None:
    tried = [method.hops for method in RGNN(feature_hops=3).tried()]
    assert tried == [(3, 1), (3, 2), (3, 4), (3, 8)]
    assert RGNN(feature_hops=3, label_hops=2).tried() == []


@pytest.mark.parametrize("hops", [[4], [4, -1], ["4", "2"]])
def test_a_saved_model_with_other_hops_than_two_numbers_is_refused(hops: list[object]) -> None:
    method = RGNN(epochs=1, num_clusters=4, feature_hops=1, label_hops=1).fit(PERTURBED, SPLIT)
    state = method.fitted_state()
    with pytest.raises(FitError, match="hops"):
        RGNN().restore(replace(state, values=state.values | {"hops": hops}))


def test_rgnn_beats_the_plain_gnn_on_a_block_model() -> None:
    # One report of a binary feature (m/d = 1/4, epsilon 1) has signal-to-noise (m/d) tanh(1/2) = 0.12 per feature, and
    # a label report (4 classes, epsilon 1) is right with p = 0.475: a node's own data says little. Its 2-hop
    # neighbourhood holds about 100 reports at homophily 0.8, of which a majority vote is almost always right, so
    # reconstruction is near the classes while raw reports stay near the noise. 3 draws, paired; a difference of 0.2 is
    # 4 standard errors of 250 test nodes at worst (0.03 sqrt 2) in each draw.
    differences = []
    for seed in range(3):
        private = csbm(1000, mean_degree=10, homophily=0.8, num_features=40, seed=seed)
        split = Split.random(1000, seed=seed)
        perturbed = simulate(private, PrivacyBudget(1.0, 1.0, 10), split, rng=np.random.default_rng(seed))
        rgnn = RGNN(feature_hops=4, label_hops=2, seed=seed).fit(perturbed, split)
        plain = PlainGNN(seed=seed).fit(perturbed, split)
        differences.append(
            accuracy(rgnn.predict(), private, split.test) - accuracy(plain.predict(), private, split.test)
        )
    assert min(differences) > 0.2
