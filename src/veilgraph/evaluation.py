"""Comparisons with the truth. Laboratory only: nothing that trains or selects can import this."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from veilgraph.datasets import PrivateGraph
from veilgraph.errors import GraphError
from veilgraph.frequency import estimate_frequencies, fixed_people_variance
from veilgraph.graph import PerturbedGraph
from veilgraph.mechanisms import GRRFS
from veilgraph.schema import NO_LABEL


def accuracy(predicted: NDArray[np.int64], private: PrivateGraph, nodes: NDArray[np.bool_]) -> float:
    """The share of `nodes` whose true class was predicted; nodes without a true class do not count."""
    scored = nodes & (private.labels != NO_LABEL)
    if not scored.any():
        raise GraphError("none of the nodes to score has a true label")
    return float((predicted[scored] == private.labels[scored]).mean())


def majority_share(private: PrivateGraph) -> float:
    """The accuracy of always answering with the largest class."""
    known = private.labels[private.labels != NO_LABEL]
    return float(np.bincount(known).max() / len(known))


@dataclass(frozen=True, kw_only=True)
class FrequencyComparison:
    """One value of one feature: the true share among all people, and what the reports say of it.

    Attributes:
        feature: its name.
        value: what the code stands for.
        true: the share of people who hold the value.
        estimated: the unbiased estimate from reports.
        standard_error: of the estimate, over the randomizer alone (these very people).
    """

    feature: str
    value: str
    true: float
    estimated: float
    standard_error: float


def compare_frequencies(private: PrivateGraph, perturbed: PerturbedGraph) -> list[FrequencyComparison]:
    """Every value of every feature over the whole graph; of a binary feature, value 1."""
    mechanism = perturbed.feature_mechanism
    if not isinstance(mechanism, GRRFS):
        raise GraphError(f"frequencies are estimated from GRR-FS reports, not from {type(mechanism).__name__}")
    codes = private.schema.code_names
    rows: list[FrequencyComparison] = []
    for i, (name, size) in enumerate(zip(private.schema.feature_names, mechanism.domain_sizes, strict=True)):
        values = np.arange(size) if size > 2 else np.array([1])
        true, observed = (
            torch.from_numpy((column[:, None] == values).mean(axis=0))
            for column in (private.features[:, i], perturbed.features[perturbed.has_features, i])
        )
        channel = mechanism.channel(i)
        estimated = estimate_frequencies(observed, channel)
        errors = fixed_people_variance(estimated, channel, float(perturbed.has_features.sum())).sqrt()
        rows += [
            FrequencyComparison(
                feature=name, value=codes[i][v], true=float(t), estimated=float(e), standard_error=float(s)
            )
            for v, t, e, s in zip(values, true, estimated, errors, strict=True)
        ]
    return rows
