"""RTGNN with a known channel: its loss by hand, and accuracy against chance."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from studies.rivals import RTGNN
from veilgraph.errors import FitError
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.models.base import FitTask
from veilgraph.models.engine.output_layer import ALL_NODES
from veilgraph.privacy.mechanisms import GRR
from veilgraph.privacy.schema import FeatureSchema
from veilgraph.reconstruct.operators import GraphOperators

SPLIT = Split(
    train=np.array([True, True, False]),
    validation=np.array([False, False, True]),
    test=np.array([False, False, False]),
)
# Labels 0, 1, 0 on a path were reported by GRR with p = 3/4, q = 1/4.
REPORTS = PerturbedGraph(
    graph=Graph.from_edges([[0, 1], [1, 2]], num_nodes=3),
    schema=FeatureSchema(classes=("a", "b")),
    features=np.zeros((3, 0), dtype=np.uint8),
    labels=np.array([0, 1, 0]),
    has_features=np.zeros(3, dtype=np.bool_),
    has_label=np.ones(3, dtype=np.bool_),
    feature_mechanism=None,
    label_mechanism=GRR(2, epsilon=math.log(3)),
)
PREDICTED = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
FORWARD = -(math.log(0.7) + math.log(0.65)) / 2
"""The likelihood of two reports: 3/4 * .9 + 1/4 * .1 and 3/4 * .8 + 1/4 * .2."""


def losses_of(*methods: RTGNN) -> list[float]:
    tasks = [FitTask(method=method, perturbed=REPORTS, split=SPLIT) for method in methods]
    loss = RTGNN.make_loss(tasks, GraphOperators(REPORTS.graph), ALL_NODES)
    return list(loss(PREDICTED.log().T.expand(len(methods), 2, 3)).tolist())


def test_without_its_own_terms_the_loss_is_forward_correction() -> None:
    assert losses_of(RTGNN(consistency=0, threshold=1)) == pytest.approx([FORWARD])


def test_pseudo_labels_are_those_of_confident_nodes_that_do_not_train() -> None:
    # The third node alone does not train, and its class has the probability 0.6.
    with_label, without = losses_of(RTGNN(consistency=0, threshold=0.55), RTGNN(consistency=0, threshold=0.65))
    assert with_label == pytest.approx(FORWARD - math.log(0.6))
    assert without == pytest.approx(FORWARD)


def test_training_nodes_agree_with_the_mean_of_their_neighbours() -> None:
    # The first node hears (.2, .8); the second one hears the mean of (.9, .1) and (.6, .4).
    first = -(0.2 * math.log(0.9) + 0.8 * math.log(0.1))
    second = -(0.75 * math.log(0.2) + 0.25 * math.log(0.8))
    expected = [FORWARD + weight * (first + second) / 2 for weight in (0.1, 0.3)]
    assert losses_of(*(RTGNN(consistency=weight, threshold=1) for weight in (0.1, 0.3))) == pytest.approx(expected)


@pytest.mark.parametrize("method", [RTGNN(consistency=-1), RTGNN(threshold=0), RTGNN(threshold=1.5)])
def test_impossible_settings_are_refused(method: RTGNN) -> None:
    with pytest.raises(FitError, match=r"^(consistency|threshold) is"):
        method.fit(REPORTS, SPLIT)
