"""Comparisons with the truth. Laboratory only: nothing that trains or selects can import this."""

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
from veilgraph.reconstruct.report_codes import answers_of


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
    answers = answers_of(perturbed)
    codes = private.schema.code_names
    rows: list[FrequencyComparison] = []
    for i, (name, channel) in enumerate(zip(private.schema.feature_names, answers.channels, strict=True)):
        values = np.arange(channel.domain_size) if channel.domain_size > 2 else np.array([1])
        asked = answers.asked[:, i]
        if not asked.any():  # of few people, none may have been asked about a feature
            continue
        true, observed = (
            torch.from_numpy((column[:, None] == values).mean(axis=0))
            for column in (private.features[:, i], answers.codes[asked, i])
        )
        estimated = estimate_frequencies(observed, channel)
        people = float(asked.sum())
        # Those who are asked are drawn from these people: the fewer, the more it matters who they are.
        errors = torch.lerp(
            population_variance(estimated, channel, people),
            fixed_people_variance(estimated, channel, people),
            answers.rate,
        ).sqrt()
        rows += [
            FrequencyComparison(
                feature=name, value=codes[i][v], true=float(t), estimated=float(e), standard_error=float(s)
            )
            for v, t, e, s in zip(values, true, estimated, errors, strict=True)
        ]
    return rows
