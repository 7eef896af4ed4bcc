"""Comparison with the ground truth: accuracy, and coverage of the intervals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from veilgraph.datasets import csbm
from veilgraph.errors import GraphError
from veilgraph.evaluation import accuracy, compare_frequencies, majority_share
from veilgraph.experiments import simulate
from veilgraph.graph import Split
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms.registry import FeatureRandomizer, grr_fs, joint_grr_best
from veilgraph.privacy.schema import NO_LABEL

PRIVATE = csbm(400, num_features=(3,) * 20, seed=0)
SPLIT = Split.random(400, seed=0)


def test_only_nodes_with_a_true_label_are_scored() -> None:
    labels = PRIVATE.labels.copy()
    labels[:100] = NO_LABEL
    private = replace(PRIVATE, labels=labels)
    predicted = PRIVATE.labels.copy()
    predicted[:100] = (predicted[:100] + 1) % 4  # wrong, and not scored
    assert accuracy(predicted, private, np.ones(400, dtype=np.bool_)) == 1.0
    with pytest.raises(GraphError, match="none of the nodes"):
        accuracy(predicted, private, np.arange(400) < 100)


def test_the_majority_share_is_the_accuracy_of_the_largest_class() -> None:
    largest = np.bincount(PRIVATE.labels).argmax()
    always = np.full(400, largest)
    assert majority_share(PRIVATE) == accuracy(always, PRIVATE, np.ones(400, dtype=np.bool_))


@pytest.mark.parametrize("mechanism", [grr_fs, joint_grr_best])
def test_intervals_cover_the_truth_as_often_as_they_say(mechanism: FeatureRandomizer) -> None:
    covered = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        perturbed = simulate(PRIVATE, PrivacyBudget(1.0, 1.0, 10), SPLIT, rng=rng, features=mechanism)
        rows = compare_frequencies(PRIVATE, perturbed)
        assert len(rows) == 20 * 3
        covered += [abs(row.estimated - row.true) < 1.96 * row.standard_error for row in rows]
    # 300 intervals at 95%; values of one feature are dependent, so 100 independent ones are a safe count:
    # 5 standard errors are 5 sqrt(.95 x .05 / 100) = 0.11.
    assert abs(np.mean(covered) - 0.95) < 0.11
