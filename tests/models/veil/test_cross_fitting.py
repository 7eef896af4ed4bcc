"""Cross-fitting: what a training set leaves out, and how far noise shrinks the class prior."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from veilgraph.datasets import csbm
from veilgraph.experiments import simulate
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.privacy.budget import PrivacyBudget


def reports(epsilon_y: float, **population: object) -> PerturbedGraph:
    private = csbm(400, num_classes=3, num_features=2, **population)  # type: ignore[arg-type]
    split = Split.random(400, seed=0)
    return simulate(private, PrivacyBudget(1.0, epsilon_y, 1), split, rng=np.random.default_rng(0))


def test_every_report_is_left_out_of_exactly_one_training_set() -> None:
    labels = CrossFitting.random(reports(1.0), seed=0)
    assert labels.num_folds == 5
    whole = labels.training_sets[:, -1]
    missing = whole.unsqueeze(1) - labels.training_sets[:, :-1]
    assert torch.equal(missing.sum(1), whole)
    assert (labels.out_of_fold(labels.training_sets) == 0).all()
    assert torch.equal(whole.sum(1) > 0, torch.from_numpy(labels.perturbed.has_label))


def test_folds_have_equal_size_and_there_are_fewer_with_few_reports() -> None:
    perturbed = reports(1.0)
    sizes = torch.bincount(CrossFitting.random(perturbed, seed=0).folds + 1)[1:]
    assert sizes.max() - sizes.min() <= 1
    two = np.zeros(400, dtype=np.bool_)
    two[np.flatnonzero(perturbed.has_label)[:2]] = True
    assert CrossFitting.random(replace(perturbed, has_label=two), seed=0).num_folds == 2


def test_a_subsample_selects_reports_and_keeps_their_folds() -> None:
    labels = CrossFitting.random(reports(1.0), seed=0)
    some = labels.subsample(100)
    assert torch.equal(some.reporting_nodes, labels.reporting_nodes[::3])
    assert torch.equal(some.folds[some.reporting_nodes], labels.folds[some.reporting_nodes])


def test_the_likelihood_is_that_of_the_channel() -> None:
    labels = CrossFitting.random(reports(1.0), seed=0)
    sure = torch.nn.functional.one_hot(labels.reported_labels, 3).float().clamp(min=1e-30).log()
    assert torch.allclose(labels.log_likelihood(sure), torch.tensor(math.log(labels.keep)).expand(300))
    equal = torch.full((300, 3), math.log(1 / 3))
    assert torch.allclose(labels.log_likelihood(equal), torch.tensor(math.log(1 / 3)).expand(300))


def test_noise_is_not_mistaken_for_unequal_classes() -> None:
    # At epsilon 0.01 the debiased shares of 300 reports have a standard error of 8: nothing is known about them.
    assert CrossFitting.random(reports(0.01), seed=0).prior.tolist() == pytest.approx([1 / 3] * 3, abs=0.1)


def test_unequal_classes_are_found_in_reports_that_are_not_randomized() -> None:
    perturbed = reports(math.inf, class_shares=[0.7, 0.2, 0.1])
    shares = np.bincount(perturbed.labels[perturbed.has_label], minlength=3) / 300
    # 300 true labels against 100 pseudo-reports, and q (1 - q) is at least 0.01.
    assert CrossFitting.random(perturbed, seed=0).prior.numpy() == pytest.approx(shares, abs=0.02)
