"""Feature reports in Veil: decisive and useful ones are let in, useless ones are kept out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.stats import binom

from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.evaluation import accuracy
from veilgraph.experiments import simulate
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models import LabelVeil, Veil
from veilgraph.models.base import FitTask
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms.registry import joint_grr_best


def joint_reports(private: PrivateGraph, seed: int) -> tuple[PerturbedGraph, Split]:
    """Return reports with joint GRR features at a total of 6, and the split."""
    split, rng = Split.random(private.graph.num_nodes, seed=seed), np.random.default_rng(seed)
    return simulate(private, TOTAL_OF_6, split, rng=rng, features=joint_grr_best), split


TOTAL_OF_6 = PrivacyBudget(1.0, 2.0, 4)
"""A label with an epsilon of 2 and features with 4, user level, any two records."""


def test_decisive_features_are_let_in() -> None:
    for seed in range(3):
        private = csbm(800, num_classes=2, homophily=0.5, feature_signal=0.8, seed=seed)
        reports, split = joint_reports(private, seed)
        veil, label_alone = Veil().fit(reports, split), LabelVeil().fit(reports, split)
        assert veil.feature_pool_ is not None
        gain = accuracy(veil.predict(), private, split.test) - accuracy(label_alone.predict(), private, split.test)
        # 200 test nodes: the difference has a standard error of at most sqrt(1/200) = 0.071.
        assert gain > 0.071


def test_useful_features_are_let_in_and_gain_something() -> None:
    gains = []
    for seed in range(5):
        private = csbm(800, homophily=0.45, feature_signal=0.6, seed=seed)
        reports, split = joint_reports(private, seed)
        veil, label_alone = Veil().fit(reports, split), LabelVeil().fit(reports, split)
        assert veil.feature_pool_ is not None
        gains.append(
            accuracy(veil.predict(), private, split.test) - accuracy(label_alone.predict(), private, split.test)
        )
    # Two standard errors of the paired differences, measured in the same draws.
    assert np.mean(gains) > 2 * np.std(gains, ddof=1) / len(gains) ** 0.5


def test_useless_features_are_kept_out_in_95_percent_of_draws() -> None:
    opened, draws = 0, 40
    for seed in range(2):
        reports, split = joint_reports(csbm(800, homophily=0.6, feature_signal=0.0, seed=seed), seed)
        rng = np.random.default_rng([seed, 1])
        permuted = [replace(reports, features=reports.features[rng.permutation(800)]) for _ in range(draws)]
        tasks = [FitTask(method=Veil(), perturbed=each, split=split) for each in permuted]
        for _ in Veil.fit_together(tasks):  # tasks with the same label reports share everything but features
            pass
        without = LabelVeil().fit(reports, split).predict_proba()
        for task in tasks:
            opened += (used := task.method.feature_pool_ is not None)
            assert used or np.allclose(task.method.predict_proba(), without, rtol=0, atol=1e-5)
    # If the rate were 5 %, more than 11 of 80 would be rarer than one in a thousand.
    assert binom.sf(opened - 1, 2 * draws, 0.05) > 1e-3
