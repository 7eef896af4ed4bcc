"""Calibration: temperature scaling undoes wrong confidence."""

from __future__ import annotations

import pytest
import torch

from tests.support.label_views import cross_fitted, true_log_probabilities
from veilgraph.models.veil.calibration import BeliefView, calibrate


@pytest.mark.parametrize("factor", [0.5, 2.0, 4.0])
def test_calibration_undoes_wrong_confidence(factor: float) -> None:
    private, labels = cross_fitted(3.0)
    rng = torch.Generator().manual_seed(0)
    evidence = true_log_probabilities(private, 0.6) + 0.8 * torch.randn(800, 3, generator=rng)
    right = calibrate(BeliefView(evidence.unsqueeze(1).expand(-1, 6, -1)), labels)[0]
    wrong = calibrate(BeliefView(evidence.unsqueeze(1).expand(-1, 6, -1) * factor), labels)[0]
    # The grid has steps of a factor 1.26, and the prior pulls a little.
    assert wrong * factor == pytest.approx(right, rel=0.35)
