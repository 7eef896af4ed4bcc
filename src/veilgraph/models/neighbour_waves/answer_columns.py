"""Columns that describe the answers of all waves, for each person and each class."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import FitError
from veilgraph.graph.neighbour_wave import NeighbourWave
from veilgraph.privacy.mechanisms import NeighbourhoodClass, NeighbourhoodHistogram

_LARGEST_RATE = 2.0
"""Histograms are scaled by their epsilon up to this value; beyond it neighbours, not noise, set the scale."""

_CLIP = 3.0


def answer_columns(waves: Sequence[NeighbourWave]) -> NDArray[np.float32]:
    r"""Return columns [nodes, classes, columns] that treat all classes alike; rows without an answer are zero.

    A histogram h, in neighbours, gives three columns for a class: :math:`\mathrm{asinh}(\epsilon h_c)`, the share
    :math:`h_c^+ / (1 + \sum_x h_x^+)`, and h itself, clipped. A set of classes gives one: whether it names the class.
    Each column comes with that of the strongest rival, the other class in which it is greatest. Waves are several looks
    at the same neighbours, so that the network gets the columns of all waves together.
    """
    own = [_columns_of(wave) for wave in waves]
    columns = np.concatenate([each for each, _ in own], axis=2)
    totals = np.concatenate([total for _, total in own], axis=1)
    everywhere = np.broadcast_to(totals[:, None], (*columns.shape[:2], totals.shape[1]))
    return np.concatenate([columns, _rivals(columns), everywhere], axis=2).astype(np.float32)


def share_columns(waves: Sequence[NeighbourWave]) -> NDArray[np.float32]:
    """Return the shares of all classes in each wave's answer [nodes, waves * classes], for affinities of classes."""
    return np.concatenate([_columns_of(wave)[0][:, :, -1] for wave in waves], axis=1).astype(np.float32)


def _columns_of(wave: NeighbourWave) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the columns of one wave [nodes, classes, columns], the share last, and its totals [nodes, totals]."""
    mechanism = wave.mechanism
    if isinstance(mechanism, NeighbourhoodHistogram):
        counts = np.where(wave.has_answer[:, None], wave.answers / mechanism.scale, 0.0)
        rate, positive = min(mechanism.epsilon, _LARGEST_RATE), np.maximum(counts, 0)
        share = positive / (1 + positive.sum(axis=1, keepdims=True))
        total = np.arcsinh(counts.sum(axis=1, keepdims=True) * rate / np.sqrt(mechanism.num_classes))
        return np.stack([np.arcsinh(counts * rate), np.clip(counts, -_CLIP, _CLIP), share], axis=2), total
    if isinstance(mechanism, NeighbourhoodClass):
        named = mechanism.sets.named(wave.answers) & wave.has_answer[:, None]
        return named[:, :, None].astype(np.float64), np.zeros((len(named), 0))
    raise FitError(f"answers by {type(mechanism).__name__} cannot be read: use a histogram or a class")


def _rivals(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the greatest value of the other classes, for each class and column."""
    order = np.sort(columns, axis=1)
    first, second = order[:, -1:], order[:, -2:-1]
    return np.where(columns == first, second, first)
