"""A simulated collection: every node of a private graph randomizes its record once.

Mechanisms that differ in epsilon alone can be coupled: they read the same random words. Differences between their
results then come from the budgets and not from chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.datasets import PrivateGraph
from veilgraph.errors import BudgetError
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import (
    FeatureMechanism,
    LabelMechanism,
    RandomIntegers,
)
from veilgraph.privacy.mechanisms.registry import FeatureRandomizer, LabelRandomizer, best_label_mechanism, grr_fs
from veilgraph.privacy.schema import NO_LABEL


def randomize_coupled(
    mechanisms: Sequence[FeatureMechanism], values: NDArray[Any], *, rng: RandomIntegers
) -> list[NDArray[Any]]:
    """Return the reports of each mechanism, [nodes, columns] each, from random words that are drawn once.

    Each mechanism gives the same reports as its `randomize` with a generator of the same state. Only one of these
    reports may ever leave a person's device: several together reveal more than each epsilon says.
    """
    if len({mechanism.coupling for mechanism in mechanisms}) != 1:
        raise BudgetError("coupled mechanisms must differ in nothing but a finite epsilon")
    first, *others = mechanisms
    return first.randomize_coupled(others, values, rng=rng)


_LABEL_REPORTS, _FEATURE_REPORTS = 1, 2


def label_rng(seed: int) -> np.random.Generator:
    """Return the generator of a seed's label reports, independent of the split of the same seed."""
    return np.random.default_rng([seed, _LABEL_REPORTS])


def feature_rng(seed: int) -> np.random.Generator:
    """Return the generator of a seed's feature reports, independent of its label reports."""
    return np.random.default_rng([seed, _FEATURE_REPORTS])


def simulate(
    private: PrivateGraph,
    budget: PrivacyBudget,
    split: Split,
    *,
    rng: RandomIntegers,
    features: FeatureRandomizer = grr_fs,
    label: LabelRandomizer = best_label_mechanism,
) -> PerturbedGraph:
    """Randomize every record as in Algorithm 3, lines 1 and 2: features of all nodes, labels of labelled nodes.

    A budget for the label alone collects no features.

    Test nodes report no label, so nothing that trains can see one. Labels are drawn first: with the same state of
    `rng` they do not depend on the feature mechanism, and methods are compared on the same labels.

    Args:
        private: the true records.
        budget: epsilons and number of sampled features.
        split: nodes that report a label are its training and validation nodes.
        rng: source of randomness.
        features: makes the feature mechanism from schema and budget.
        label: makes the label mechanism from the number of classes and epsilon_y. The paper's is `GRR`.
    """
    _check_simulation(private, budget, split, rng)
    mechanism = features(private.schema, budget) if budget.collects_features else None
    label_mechanism = label(private.schema.num_classes, budget.epsilon_y)
    labels = randomize_labels(private, label_mechanism, split, rng=rng)
    reports = None if mechanism is None else mechanism.randomize(private.features, rng=rng)
    return simulated_collection(private, split, label_mechanism, labels, mechanism, reports)


def _check_simulation(private: PrivateGraph, budget: object, split: object, rng: object) -> None:
    if not isinstance(budget, PrivacyBudget):
        raise BudgetError(f"the budget is of type {type(budget).__name__}: give a PrivacyBudget, and no number")
    if not isinstance(split, Split) or split.train.shape != (private.graph.num_nodes,):
        raise BudgetError(f"the split does not fit: give a Split of the {private.graph.num_nodes} nodes")
    if not hasattr(rng, "integers"):
        raise BudgetError(f"rng is of type {type(rng).__name__}: give a generator, such as numpy.random.default_rng(0)")


def randomize_labels(
    private: PrivateGraph, mechanism: LabelMechanism, split: Split, *, rng: RandomIntegers
) -> NDArray[Any]:
    """Return y', [nodes, ...]: the report of each labelled node that has a label, blank elsewhere."""
    reporting = _reporting(private, split)
    labels = mechanism.blank(private.graph.num_nodes)
    labels[reporting] = mechanism.randomize(private.labels[reporting], rng=rng)
    return labels


def simulated_collection(
    private: PrivateGraph,
    split: Split,
    label_mechanism: LabelMechanism,
    labels: NDArray[Any],
    feature_mechanism: FeatureMechanism | None = None,
    features: NDArray[Any] | None = None,
) -> PerturbedGraph:
    """Return the reports of all nodes as a server sees them.

    Args:
        private: the true records.
        split: nodes that report a label are its training and validation nodes.
        label_mechanism: that randomized the labels.
        labels: reported labels, [nodes, ...].
        feature_mechanism: that randomized the features; None for a collection without features.
        features: reported features, [nodes, features]; None for a collection without features.
    """
    return PerturbedGraph(
        graph=private.graph,
        schema=private.schema,
        features=np.zeros_like(private.features) if features is None else features,
        labels=labels,
        has_features=np.full(private.graph.num_nodes, features is not None),
        has_label=_reporting(private, split),
        feature_mechanism=feature_mechanism,
        label_mechanism=label_mechanism,
        public=private.public,
    )


def _reporting(private: PrivateGraph, split: Split) -> NDArray[np.bool_]:
    return np.asarray(split.labelled & (private.labels != NO_LABEL))
