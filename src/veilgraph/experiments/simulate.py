"""A simulated collection: private records in, reports out."""

from __future__ import annotations

import numpy as np

from veilgraph.budget import PrivacyBudget
from veilgraph.datasets import PrivateGraph
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.mechanisms import GRR, GRRFS, RandomIntegers
from veilgraph.schema import NO_LABEL


def simulate(private: PrivateGraph, budget: PrivacyBudget, split: Split, *, rng: RandomIntegers) -> PerturbedGraph:
    """Algorithm 3, lines 1 and 2: every node reports its features by GRR-FS, labelled nodes their label by GRR.

    Test nodes report no label, so nothing that trains can see one.
    """
    schema = private.schema
    feature_mechanism = GRRFS(schema.domain_sizes, sampled=budget.sampled, epsilon=budget.epsilon_x)
    label_mechanism = GRR(schema.num_classes, epsilon=budget.epsilon_y)
    has_label = split.labelled & (private.labels != NO_LABEL)
    labels = np.zeros(private.graph.num_nodes, dtype=np.int64)
    labels[has_label] = label_mechanism.randomize(private.labels[has_label], rng=rng)
    return PerturbedGraph(
        graph=private.graph,
        schema=schema,
        features=feature_mechanism.randomize(private.features, rng=rng),
        labels=labels,
        has_features=np.ones(private.graph.num_nodes, dtype=np.bool_),
        has_label=has_label,
        feature_mechanism=feature_mechanism,
        label_mechanism=label_mechanism,
    )
