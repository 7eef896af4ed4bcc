"""Estimation of contamination: derivatives, standard errors, several targets, degrees, and renamed classes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.graph import Graph, PerturbedGraph
from veilgraph.models.veil.contamination import Contamination
from veilgraph.models.veil.contamination_estimate import (
    MixtureLikelihood,
    estimate_contamination,
    evidence_needed,
    greatest_contamination,
)
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.privacy.mechanisms import GRR, SubsetSelection
from veilgraph.privacy.mechanisms.base import LabelMechanism
from veilgraph.privacy.schema import FeatureSchema

NODES, CLASSES = 3000, 5
MECHANISMS: list[LabelMechanism] = [GRR(CLASSES, 1.5), SubsetSelection(CLASSES, 1.0, 2)]


def star_graph() -> Graph:
    """Return a graph in which every tenth node has a degree of ten or more."""
    hubs = np.arange(0, NODES, 10)
    leaves = np.setdiff1d(np.arange(NODES), hubs)
    spokes = np.stack([np.repeat(hubs, 9), leaves])
    ring = np.stack([hubs, np.roll(hubs, 1)])
    return Graph.from_edges(np.concatenate([spokes, ring], axis=1), NODES)


def draw(
    mechanism: LabelMechanism, share: float, targets: tuple[int, ...], seed: int, liars: NDArray[np.int64] | None = None
) -> tuple[Tensor, CrossFitting]:
    """Return calibrated class log-probabilities, and reports of classes drawn from them; some reports are lies."""
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.full(CLASSES, 0.2), NODES).clip(1e-6)
    probabilities /= probabilities.sum(1, keepdims=True)
    truth = (rng.random((NODES, 1)) > probabilities.cumsum(1)[:, :-1]).sum(1)
    reports = mechanism.randomize(truth, rng=rng)
    chosen = rng.permutation(NODES)[: round(share * NODES)] if liars is None else liars
    target = np.array(targets)[rng.integers(0, len(targets), len(chosen))] if targets else np.zeros(0, dtype=np.int64)
    if isinstance(mechanism, SubsetSelection):
        order = rng.random((len(chosen), CLASSES))
        order[np.arange(len(chosen)), target] = -1
        reports[chosen] = mechanism.encode(np.argsort(order, axis=1)[:, : mechanism.set_size].tolist())
    else:
        reports[chosen] = target
    perturbed = PerturbedGraph(
        graph=star_graph(),
        schema=FeatureSchema(classes=tuple("abcde")),
        features=np.zeros((NODES, 0), dtype=np.int64),
        labels=reports,
        has_features=np.zeros(NODES, dtype=np.bool_),
        has_label=np.ones(NODES, dtype=np.bool_),
        feature_mechanism=None,
        label_mechanism=mechanism,
    )
    return torch.from_numpy(probabilities).log(), CrossFitting.random(perturbed, seed=0)


def standard_errors(log_probabilities: Tensor, labels: CrossFitting, shares: dict[int, float]) -> Tensor:
    """Return the standard errors of the shares, from the Hessian of the likelihood written out."""
    named, stated = labels.reports.named.double(), labels.perturbed.label_mechanism.likelihood
    targets = list(shares)

    def negative_log_likelihood(point: Tensor) -> Tensor:
        lies, temperature, bias = point[: len(targets)], point[len(targets)].exp(), point[len(targets) + 1 :]
        classes = (temperature * log_probabilities + bias).softmax(1)
        honest = float(stated.other) + float(stated.keep - stated.other) * (classes * named).sum(1)
        likelihood = (1 - lies.sum()) * honest + named[:, targets] @ lies
        return -likelihood.log().sum() + bias.square().sum() / 8 + 5 * point[len(targets)] ** 2

    truth = torch.tensor([*shares.values(), 0.0, *[0.0] * CLASSES], dtype=torch.float64)
    truth.requires_grad_()
    (gradient,) = torch.autograd.grad(negative_log_likelihood(truth), truth, create_graph=True)
    hessian = torch.stack([torch.autograd.grad(each, truth, retain_graph=True)[0] for each in gradient])
    errors: Tensor = torch.linalg.inv(hessian).diagonal()[: len(targets)].sqrt()
    return errors


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("targets", [(1,), (0, 3)])
@pytest.mark.parametrize("share", [0.15, 0.3, 0.5])
def test_shares_and_targets_are_estimated_within_their_standard_errors(
    mechanism: LabelMechanism, targets: tuple[int, ...], share: float
) -> None:
    log_probabilities, labels = draw(mechanism, share, targets, seed=1)
    found = estimate_contamination(log_probabilities, labels)
    assert found is not None
    errors = standard_errors(log_probabilities, labels, dict.fromkeys(targets, share / len(targets)))
    for target, error in zip(targets, errors.tolist(), strict=True):
        assert found.share * found.targets[target] == pytest.approx(share / len(targets), abs=4 * error)
    assert sum(found.targets[target] for target in targets) == pytest.approx(1.0)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_scores_are_the_derivatives_of_the_log_likelihood(mechanism: LabelMechanism) -> None:
    log_probabilities, labels = draw(mechanism, 0.2, (1,), seed=2)
    stated = mechanism.likelihood
    model = MixtureLikelihood(
        log_probabilities, labels.reports.named, float(stated.keep) - float(stated.other), float(stated.other)
    )
    groups = torch.nn.functional.one_hot(torch.arange(NODES) % 2, 2).double()
    point = torch.tensor([0.1, 0.05, 0.2, 0.0, 0.1, *torch.linspace(-1, 1, CLASSES)], dtype=torch.float64)
    _, scores = model.scores(point, [1, 4], groups)
    point.requires_grad_()
    (gradient,) = torch.autograd.grad(model.scores(point, [1, 4], groups)[0].log().sum(), point)
    assert torch.allclose(scores.sum(1), gradient)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_stated_channel_is_hardly_ever_suspected(mechanism: LabelMechanism) -> None:
    """A gain of 3 has a probability of at most 5 P(chi-squared > 6) / 2 = 3.6 %: 5 or more of 40 have one of 1.5 %."""
    suspected = sum(estimate_contamination(*draw(mechanism, 0.0, (), seed=seed)) is not None for seed in range(40))
    assert suspected < 5


def test_liars_at_hubs_are_found_there() -> None:
    log_probabilities, labels = draw(MECHANISMS[0], 0.0, (1,), seed=3, liars=np.arange(0, NODES, 10))
    found = estimate_contamination(log_probabilities, labels)
    assert found is not None
    assert found.share == pytest.approx(0.1, abs=0.01)  # 300 liars among 300 hubs
    assert found.group_shares[-1] > 0.8
    assert max(found.group_shares[:-1]) < 0.05


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("targets", [(1,), (0, 3)])
def test_the_greatest_share_leaves_honest_people_no_target(mechanism: LabelMechanism, targets: tuple[int, ...]) -> None:
    _, labels = draw(mechanism, 0.3, targets, seed=1)
    equal = tuple(1 / len(targets) if each in targets else 0.0 for each in range(CLASSES))
    greatest = greatest_contamination(
        Contamination(share=0.01, targets=equal, set_size=labels.reports.set_size), labels
    )
    assert 0.3 < greatest.share < 1
    # Honest people who have another class name each target with probability q, liars as `named_shares` says.
    for target in targets:
        expected = (1 - greatest.share) * labels.reports.other + greatest.share * greatest.named_shares[target]
        assert expected == pytest.approx(float(labels.reports.report_shares[target]), abs=0.01)
    total = (1 - greatest.share) * len(targets) * labels.reports.other
    total += greatest.share * sum(greatest.named_shares[target] for target in targets)
    assert total == pytest.approx(float(labels.reports.report_shares[list(targets)].sum()), rel=1e-5)


def test_renamed_classes_are_found_under_their_new_names() -> None:
    log_probabilities, labels = draw(MECHANISMS[0], 0.2, (1, 3), seed=4)
    order = np.array([3, 0, 4, 1, 2])  # class c becomes order[c]
    renamed = replace(labels, perturbed=replace(labels.perturbed, labels=order[labels.perturbed.labels]))
    first = estimate_contamination(log_probabilities, labels)
    second = estimate_contamination(log_probabilities[:, np.argsort(order)], renamed)
    assert first is not None
    assert second is not None
    assert second.share == pytest.approx(first.share, rel=1e-6)
    assert np.array(second.targets)[order] == pytest.approx(np.array(first.targets), rel=1e-6)


def test_more_classes_need_more_evidence() -> None:
    assert evidence_needed(18) > evidence_needed(2) > np.log(100)
