"""Comparison with the ground truth. Laboratory only: code that trains or selects cannot import this module."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from veilgraph.datasets import PrivateGraph
from veilgraph.errors import GraphError
from veilgraph.graph import PerturbedGraph
from veilgraph.privacy.frequency import estimate_frequencies, fixed_people_variance, population_variance
from veilgraph.privacy.schema import NO_LABEL
from veilgraph.reconstruct.features import ReportCodes


def accuracy(predicted: NDArray[np.int64], private: PrivateGraph, nodes: NDArray[np.bool_]) -> float:
    """Return the share of `nodes` whose true class was predicted; nodes without a true class are left out.

    Args:
        predicted: class codes, [nodes].
        private: the ground truth.
        nodes: mask of the nodes to score, [nodes].
    """
    scored = nodes & (private.labels != NO_LABEL)
    if not scored.any():
        raise GraphError("none of the nodes to score has a true label")
    return float((predicted[scored] == private.labels[scored]).mean())


def majority_share(private: PrivateGraph) -> float:
    """Return the accuracy of always predicting the largest class."""
    known = private.labels[private.labels != NO_LABEL]
    return float(np.bincount(known).max() / len(known))


@dataclass(frozen=True, kw_only=True)
class FrequencyComparison:
    """True and estimated share of one value of one feature, among all people.

    Attributes:
        feature: name of the feature.
        value: name of the value.
        true: share of people who hold the value.
        estimated: unbiased estimate from the reports.
        standard_error: standard error of the estimate, for these people: over the randomizer and the choice of
            whom it asks.
    """

    feature: str
    value: str
    true: float
    estimated: float
    standard_error: float


def compare_frequencies(private: PrivateGraph, perturbed: PerturbedGraph) -> list[FrequencyComparison]:
    """Compare all values of all features over the whole graph; of a binary feature, only value 1.

    Features that no person was asked about are left out; without features there is nothing to compare.
    """
    if perturbed.feature_mechanism is None:
        return []
    answers = ReportCodes.of(perturbed)
    codes = private.schema.code_names
    rows: list[FrequencyComparison] = []
    for i, (name, channel) in enumerate(zip(private.schema.feature_names, answers.channels, strict=True)):
        values = np.arange(channel.domain_size) if channel.domain_size > 2 else np.array([1])
        asked = answers.asked[:, i]
        if not asked.any():
            continue
        true, observed = (
            torch.from_numpy((column[:, None] == values).mean(axis=0))
            for column in (private.features[:, i], answers.codes[asked, i])
        )
        estimated = estimate_frequencies(observed, channel)
        people = float(asked.sum())
        # The people who are asked are a sample of all people: the smaller, the more its choice adds to the variance.
        errors = torch.lerp(
            population_variance(estimated, channel, people),
            fixed_people_variance(estimated, channel, people),
            answers.answering_rate,
        ).sqrt()
        rows += [
            FrequencyComparison(
                feature=name, value=codes[i][v], true=float(t), estimated=float(e), standard_error=float(s)
            )
            for v, t, e, s in zip(values, true, estimated, errors, strict=True)
        ]
    return rows
