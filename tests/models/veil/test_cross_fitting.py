"""Folds of label reports: what a version leaves out, and what the noise leaves of the class shares."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from veilgraph.datasets import csbm
from veilgraph.experiments import simulate
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models.veil.cross_fitting import HeldOutLabels
from veilgraph.privacy.budget import PrivacyBudget


def reports(epsilon_y: float, **population: object) -> PerturbedGraph:
    private = csbm(400, num_classes=3, num_features=2, **population)  # type: ignore[arg-type]
    split = Split.random(400, seed=0)
    return simulate(private, PrivacyBudget(1.0, epsilon_y, 1), split, rng=np.random.default_rng(0))


def test_every_report_is_left_out_of_exactly_one_version() -> None:
    labels = HeldOutLabels.of(reports(1.0), seed=0)
    assert labels.num_folds == 5
    whole = labels.versions[:, -1]
    missing = whole.unsqueeze(1) - labels.versions[:, :-1]
    assert torch.equal(missing.sum(1), whole)
    assert (labels.out_of_fold(labels.versions) == 0).all()
    assert torch.equal(whole.sum(1) > 0, torch.from_numpy(labels.perturbed.has_label))


def test_folds_are_of_equal_size_and_fewer_where_there_are_few_reports() -> None:
    perturbed = reports(1.0)
    sizes = torch.bincount(HeldOutLabels.of(perturbed, seed=0).folds + 1)[1:]
    assert sizes.max() - sizes.min() <= 1
    two = np.zeros(400, dtype=np.bool_)
    two[np.flatnonzero(perturbed.has_label)[:2]] = True
    assert HeldOutLabels.of(replace(perturbed, has_label=two), seed=0).num_folds == 2


def test_the_likelihood_is_that_of_the_channel() -> None:
    labels = HeldOutLabels.of(reports(1.0), seed=0)
    sure = torch.nn.functional.one_hot(labels.reports, 3).float().clamp(min=1e-30).log()
    assert torch.allclose(labels.log_likelihood(sure), torch.tensor(math.log(labels.keep)).expand(300))
    equal = torch.full((300, 3), math.log(1 / 3))
    assert torch.allclose(labels.log_likelihood(equal), torch.tensor(math.log(1 / 3)).expand(300))


def test_noise_is_not_taken_for_unequal_classes() -> None:
    # At epsilon 0.01 the debiased shares of 300 reports have standard error 8: nothing is known of them.
    assert HeldOutLabels.of(reports(0.01), seed=0).prior.tolist() == pytest.approx([1 / 3] * 3, abs=0.1)


def test_unequal_classes_are_found_where_reports_tell() -> None:
    perturbed = reports(math.inf, class_shares=[0.7, 0.2, 0.1])
    shares = np.bincount(perturbed.labels[perturbed.has_label], minlength=3) / 300
    # 300 clean reports against 100 that say nothing, and q (1 - q) is floored.
    assert HeldOutLabels.of(perturbed, seed=0).prior.numpy() == pytest.approx(shares, abs=0.02)
