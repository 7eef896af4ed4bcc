"""Feature likelihoods: those of each class, and close to none where classes do not differ."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from veilgraph.datasets import csbm
from veilgraph.experiments import simulate
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models.veil.feature_evidence import feature_log_likelihood
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms.registry import FeatureRandomizer, grr_fs, multi_bit


def collected(signal: float, randomizer: FeatureRandomizer = grr_fs) -> tuple[PerturbedGraph, torch.Tensor]:
    private = csbm(3000, num_classes=2, num_features=70, feature_signal=signal, seed=0)
    perturbed = simulate(
        private,
        PrivacyBudget(2.0, 1.0, 35),
        Split.random(3000, seed=0),
        rng=np.random.default_rng(0),
        features=randomizer,
    )
    return perturbed, torch.nn.functional.one_hot(torch.from_numpy(private.labels), 2).float().unsqueeze(1)


def test_with_true_classes_it_is_the_log_likelihood_ratio_of_the_rates() -> None:
    perturbed, classes = collected(0.6)
    rates = [perturbed.features[classes[:, 0, x] == 1].mean(0) for x in (0, 1)]
    ratio = sum(
        np.log(np.where(perturbed.features == 1, r, 1 - r)).sum(1) * sign
        for r, sign in zip(rates, (1, -1), strict=True)
    )
    found = feature_log_likelihood(perturbed, classes)[:, 0]
    # Shrinkage moves the rates of the classes slightly closer; with 1500 people per class it is small.
    assert np.corrcoef((found[:, 0] - found[:, 1]).numpy(), ratio)[0, 1] > 0.99


def test_the_true_class_is_more_likely_under_either_mechanism() -> None:
    for randomizer in (grr_fs, multi_bit):
        perturbed, classes = collected(0.6, randomizer)
        found = feature_log_likelihood(perturbed, classes)[:, 0]
        # Half of the 70 features differ between the classes; 3000 nodes give chance a standard error of 0.009.
        assert (found.argmax(1) == classes[:, 0].argmax(1)).float().mean() > 0.5 + 5 * 0.009


def test_uninformative_features_give_almost_no_evidence() -> None:
    uninformative, classes = collected(0.0)
    informative, _ = collected(0.6)
    spreads = [float(feature_log_likelihood(reports, classes).std()) for reports in (uninformative, informative)]
    assert spreads[0] < 0.25 * spreads[1]


def test_nodes_without_a_report_get_no_evidence_and_have_no_influence() -> None:
    perturbed, classes = collected(0.6)
    has_features = perturbed.has_features.copy()
    has_features[:1000] = False
    garbled = perturbed.features.copy()
    garbled[:1000] = 1
    one, other = (
        feature_log_likelihood(replace(perturbed, features=f, has_features=has_features), classes)
        for f in (perturbed.features, garbled)
    )
    assert torch.equal(one, other)
    assert (one[:1000] == 0).all()
