"""Columns that describe the answers of all waves, for each person and each class."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from veilgraph.graph.wave_answers import WaveAnswers


def answer_columns(waves: Sequence[WaveAnswers]) -> NDArray[np.float32]:
    r"""Return columns [nodes, classes, columns] that treat all classes alike; rows without an answer are zero.

    The mechanism of a wave says what its answers tell about a class. Each column comes with that of the strongest
    rival, the other class in which it is greatest. Waves are several looks at the same neighbours, so that the network
    gets the columns of all waves together.
    """
    own = [_columns_of(wave) for wave in waves]
    columns = np.concatenate([each for each, _ in own], axis=2)
    totals = np.concatenate([total for _, total in own], axis=1)
    everywhere = np.broadcast_to(totals[:, None], (*columns.shape[:2], totals.shape[1]))
    return np.concatenate([columns, _rivals(columns), everywhere], axis=2).astype(np.float32)


def share_columns(waves: Sequence[WaveAnswers]) -> NDArray[np.float32]:
    """Return the shares of all classes in each wave's answer [nodes, waves * classes], for affinities of classes."""
    return np.concatenate([_columns_of(wave)[0][:, :, -1] for wave in waves], axis=1).astype(np.float32)


def _columns_of(wave: WaveAnswers) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the columns of one wave [nodes, classes, columns], the share last, and its totals [nodes, totals]."""
    columns, totals = wave.mechanism.class_columns(wave.answers)
    answered = wave.has_answer[:, None]
    return np.where(answered[:, :, None], columns, 0.0), np.where(answered, totals, 0.0)


def _rivals(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the greatest value of the other classes, for each class and column."""
    order = np.sort(columns, axis=1)
    first, second = order[:, -1:], order[:, -2:-1]
    return np.where(columns == first, second, first)
