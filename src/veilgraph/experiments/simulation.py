"""Mechanisms that differ in their budget alone: a simulation compares them with the same luck."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.datasets import PrivateGraph
from veilgraph.errors import BudgetError
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import GRR, GRRFS, Mechanism, MultiBit, RandomIntegers
from veilgraph.privacy.mechanisms.registry import FeatureRandomizer, grr_fs
from veilgraph.privacy.schema import NO_LABEL


def family_of(mechanism: Mechanism) -> Hashable:
    """The same for mechanisms that can share their luck: without privacy there is none to share.

    >>> family_of(GRRFS((2, 2), sampled=1, epsilon=1.0)) == family_of(GRRFS((2, 2), sampled=1, epsilon=0.1))
    True
    """
    if isinstance(mechanism, GRRFS) and math.isfinite(mechanism.epsilon):
        return GRRFS, mechanism.domain_sizes, mechanism.sampled
    if isinstance(mechanism, MultiBit) and math.isfinite(mechanism.epsilon):
        return MultiBit, mechanism.lower, mechanism.upper, mechanism.sampled
    return mechanism


def randomize_alike(
    mechanisms: Sequence[Mechanism], values: NDArray[Any], *, rng: RandomIntegers
) -> list[NDArray[Any]]:
    """The reports of mechanisms of one family, from words that are drawn once.

    Each has the reports that its `randomize` gives with such a generator for itself. Of one person only one of them may
    ever leave a device.
    """
    if len({family_of(each) for each in mechanisms}) != 1:
        raise BudgetError("mechanisms that share their luck must differ in nothing but a finite epsilon")
    first, *others = mechanisms
    if isinstance(first, GRRFS | MultiBit):
        return first.randomize_with(others, values, rng=rng)
    return [first.randomize(values, rng=rng)]


_LABEL_REPORTS, _FEATURE_REPORTS = 1, 2


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
