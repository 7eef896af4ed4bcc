"""A simulated collection: private records in, reports out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.budget import PrivacyBudget
from veilgraph.datasets import PrivateGraph
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.mechanisms import GRR, GRRFS, JointGRR, Mechanism, MultiBit, RandomIntegers
from veilgraph.schema import NO_LABEL, FeatureSchema

LPGNN_BEST_EPSILON = 2.18
_LABEL_REPORTS, _FEATURE_REPORTS = 1, 2

FeatureRandomizer = Callable[[FeatureSchema, PrivacyBudget], Mechanism]
"""Which mechanism randomizes the features, given what is declared and what may be spent."""


def grr_fs(schema: FeatureSchema, budget: PrivacyBudget) -> Mechanism:
    """The paper's mechanism."""
    return GRRFS(schema.domain_sizes, sampled=budget.sampled, epsilon=budget.epsilon_x)


def grr_on_all(schema: FeatureSchema, budget: PrivacyBudget) -> Mechanism:
    """GRR on every feature at the same user-level epsilon m * epsilon_x: the best m for GRR-FS."""
    total = budget.sampled * budget.epsilon_x
    return GRRFS(schema.domain_sizes, sampled=schema.num_features, epsilon=total / schema.num_features)


def joint_grr_best(schema: FeatureSchema, budget: PrivacyBudget) -> Mechanism:
    """Joint GRR at the same user-level epsilon m * epsilon_x, with the m whose estimates vary least."""
    return JointGRR.best(schema.domain_sizes, budget.sampled * budget.epsilon_x)


def multi_bit(schema: FeatureSchema, budget: PrivacyBudget) -> Mechanism:
    """LPGNN's mechanism with the same m and the same epsilon_x per sampled feature; codes count as numbers."""
    lower, upper = (0.0,) * schema.num_features, tuple(size - 1.0 for size in schema.domain_sizes)
    return MultiBit(lower, upper, sampled=budget.sampled, epsilon=budget.epsilon_x)


def multi_bit_best(schema: FeatureSchema, budget: PrivacyBudget) -> Mechanism:
    """LPGNN's mechanism at the same user-level epsilon m * epsilon_x, with the m that its analysis prefers.

    The variance of an estimate is least where each sampled feature has a budget of about 2.18.
    """
    total = budget.sampled * budget.epsilon_x
    sampled = max(1, min(schema.num_features, round(total / LPGNN_BEST_EPSILON)))
    return multi_bit(schema, replace(budget, sampled=sampled, epsilon_x=total / sampled))


def label_rng(seed: int) -> np.random.Generator:
    """The generator of one draw's label reports, independent of the split that the same seed gives."""
    return np.random.default_rng([seed, _LABEL_REPORTS])


def feature_rng(seed: int) -> np.random.Generator:
    """The generator of one draw's feature reports, independent of its label reports."""
    return np.random.default_rng([seed, _FEATURE_REPORTS])


def simulate(
    private: PrivateGraph,
    budget: PrivacyBudget,
    split: Split,
    *,
    rng: RandomIntegers,
    features: FeatureRandomizer = grr_fs,
) -> PerturbedGraph:
    """Algorithm 3, lines 1 and 2: every node reports its features, labelled nodes their label by GRR.

    Test nodes report no label, so nothing that trains can see one. Labels are drawn first: with the same rng state
    they are the same whatever randomizes the features, so that methods are compared on the same labels.
    """
    mechanism = features(private.schema, budget)
    label = GRR(private.schema.num_classes, budget.epsilon_y)
    labels = randomize_labels(private, label, split, rng=rng)
    return collect(private, split, label, labels, mechanism, mechanism.randomize(private.features, rng=rng))


def randomize_labels(private: PrivateGraph, mechanism: GRR, split: Split, *, rng: RandomIntegers) -> NDArray[np.int64]:
    """y': the reported label of every labelled node that has one, 0 elsewhere."""
    reporting = _reporting(private, split)
    labels = np.zeros(private.graph.num_nodes, dtype=np.int64)
    labels[reporting] = mechanism.randomize(private.labels[reporting], rng=rng)
    return labels


def collect(
    private: PrivateGraph,
    split: Split,
    label_mechanism: GRR,
    labels: NDArray[np.int64],
    feature_mechanism: Mechanism,
    features: NDArray[Any] | None,
) -> PerturbedGraph:
    """The reports of everyone, as the server sees them; `features` is None where nobody was asked for them."""
    return PerturbedGraph(
        graph=private.graph,
        schema=private.schema,
        features=np.zeros_like(private.features) if features is None else features,
        labels=labels,
        has_features=np.full(private.graph.num_nodes, features is not None),
        has_label=_reporting(private, split),
        feature_mechanism=feature_mechanism,
        label_mechanism=label_mechanism,
    )


def _reporting(private: PrivateGraph, split: Split) -> NDArray[np.bool_]:
    return np.asarray(split.labelled & (private.labels != NO_LABEL))
