"""Tests of label reports that were not randomized: the channel with contamination."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from veilgraph.models.veil.contamination import Contamination
from veilgraph.privacy.mechanisms import SubsetSelection


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_contaminated_channel_is_a_distribution(size: int) -> None:
    mechanism = SubsetSelection(5, 1.0, size)
    contamination = Contamination(share=0.3, targets=(0.5, 0.0, 0.5, 0.0, 0.0), set_size=size)
    sets = list(itertools.combinations(range(5), size))
    named = torch.tensor(mechanism.named(mechanism.masks(sets)))
    lies = contamination.likelihood(named).double().numpy() * 0.7 / math.comb(4, size - 1)
    for record in mechanism.records():
        honest = np.array([float(mechanism.probability(report, record)) for report in sets])
        assert (0.7 * honest + lies).sum() == pytest.approx(1.0, abs=1e-6)
