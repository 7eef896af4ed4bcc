"""Calibration: temperature scaling undoes wrong confidence, and the prior decides where reports cannot."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.support.label_views import cross_fitted, true_log_probabilities
from veilgraph.models.veil.calibration import FACTORS, BeliefView, calibrate


@pytest.mark.parametrize("factor", [0.5, 2.0, 4.0])
def test_calibration_undoes_wrong_confidence(factor: float) -> None:
    private, labels = cross_fitted(3.0)
    rng = torch.Generator().manual_seed(0)
    evidence = true_log_probabilities(private, 0.6) + 0.8 * torch.randn(800, 3, generator=rng)
    right = calibrate(BeliefView(evidence.unsqueeze(1).expand(-1, 6, -1)), labels)[0]
    wrong = calibrate(BeliefView(evidence.unsqueeze(1).expand(-1, 6, -1) * factor), labels)[0]
    # The grid has steps of a factor 1.26, and the prior pulls a little.
    assert wrong * factor == pytest.approx(right, rel=0.35)


@pytest.mark.parametrize("make", [BeliefView, BeliefView.of_model])
def test_uninformative_reports_leave_the_prior_mean_of_the_log_factor(make: Callable[[Tensor], BeliefView]) -> None:
    private, labels = cross_fitted(1e-6)
    view = make(true_log_probabilities(private, 0.9).unsqueeze(1).expand(-1, 6, -1))
    density = np.exp([-view.negative_log_prior((factor,)) for factor in FACTORS])
    mean = math.exp(float(density @ np.log(FACTORS)) / density.sum())
    # 600 log-likelihoods differ by at most epsilon each, and log-factors by at most ln 200 = 5.3.
    assert calibrate(view, labels)[0] == pytest.approx(mean, rel=2 * 600e-6 * 5.3)


def test_a_factor_between_two_candidates_is_found_where_reports_are_informative() -> None:
    private, labels = cross_fitted(3.0)
    (factor,) = calibrate(BeliefView(true_log_probabilities(private, 0.6).unsqueeze(1).expand(-1, 6, -1)), labels)
    # The true labels have probability 0.6 in all log-beliefs and 1 in truth: the greatest factor explains them best.
    assert FACTORS[-3] < factor <= FACTORS[-1]


def test_the_order_of_classes_does_not_change_the_calibration() -> None:
    private, labels = cross_fitted(1.0)
    order = torch.tensor([2, 0, 1])
    noise = torch.randn(800, 3, generator=torch.Generator().manual_seed(0))
    beliefs = (true_log_probabilities(private, 0.6) + noise).unsqueeze(1).expand(-1, 6, -1)
    renamed = replace(labels.perturbed, labels=order.argsort().numpy()[labels.perturbed.labels])
    moved = calibrate(BeliefView(beliefs[:, :, order]), replace(labels, perturbed=renamed))
    assert moved == pytest.approx(calibrate(BeliefView(beliefs), labels), rel=1e-5)


def test_the_posterior_of_a_model_keeps_its_confidence_until_reports_contradict_it() -> None:
    private, labels = cross_fitted(0.1)
    beliefs = true_log_probabilities(private, 0.6).unsqueeze(1).expand(-1, 6, -1)
    (free,), (of_model,) = (calibrate(make(beliefs), labels) for make in (BeliefView, BeliefView.of_model))
    # Their priors are centred at 0.3 and 1, with standard deviations of 1 and 1/2 of the logarithm.
    assert free < 1 / 2 < of_model < 2
