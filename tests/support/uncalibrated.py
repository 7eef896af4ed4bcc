"""Probabilities of a GNN before its calibration, as its network gives them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from veilgraph.models.engine.gnn_method import GNNMethod


def uncalibrated(method: GNNMethod, probabilities: NDArray[np.float32]) -> NDArray[np.float64]:
    """Undo the doubt and the temperature of a fitted method in its probabilities, [nodes, classes]."""
    rows = probabilities.astype(np.float64)
    sharp = (rows - method.doubt_ / rows.shape[1]) / (1 - method.doubt_)
    found: NDArray[np.float64] = softmax(method.temperature_ * np.log(sharp), axis=1)
    return found
