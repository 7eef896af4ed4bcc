"""The study of calibration: one small case, and its sums."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from studies.calibration import CALIBRATION_BINS, calibration_bins, calibration_error, draw, jackknife, summary, table

from veilgraph.datasets import csbm
from veilgraph.errors import GraphError


def test_a_draw_bins_every_silent_and_every_reporting_node() -> None:
    cell = ("csbm, 4 classes", 0.75, 3.0)
    draws = [draw(cell, seed, Path()) for seed in range(2)]
    for method in ("veil", "control"):
        assert draws[0][f"{method} accuracy"] > 0.5
        assert np.sum(draws[0][f"{method} silent"], axis=0)[0] == 250
        assert np.sum(draws[0][f"{method} reporting"], axis=0)[0] == 750
    row = summary(cell, draws)
    assert "| csbm, 4 classes | 75% | 3 |" in table([row])
    # The error counts each bin's distance; the gap lets bins cancel.
    assert abs(row["veil silent"]["gap"]) <= row["veil silent"]["ece"] + 1e-12


def test_the_jackknife_equals_the_standard_error_of_a_mean_where_bins_do_not_cross_zero() -> None:
    # One bin of 10 nodes with confidence 0.9: the ECE is 0.9 less the mean share of hits.
    hits = np.array([3.0, 5.0, 6.0, 8.0])
    bins = np.stack([np.array([[10.0, 9.0, each]]) for each in hits])
    assert jackknife(bins) == pytest.approx((hits / 10).std(ddof=1) / 2)


PRIVATE = csbm(400, num_features=(3,) * 20, seed=0)


def predictions(confidence: float, hits: int) -> np.ndarray:
    """Return probabilities of 400 nodes: all of one confidence, the first `hits` with the true class on top."""
    top = np.where(np.arange(400) < hits, PRIVATE.labels, (PRIVATE.labels + 1) % 4)
    return np.where(np.eye(4)[top] == 1, confidence, (1 - confidence) / 3)


@pytest.mark.parametrize(("confidence", "hits", "error"), [(0.7, 280, 0.0), (1.0, 280, 0.3), (0.5, 400, 0.5)])
def test_the_calibration_error_of_one_confidence_is_its_distance_to_the_share_of_hits(
    confidence: float, hits: int, error: float
) -> None:
    bins = calibration_bins(predictions(confidence, hits), PRIVATE, np.ones(400, dtype=np.bool_))
    assert calibration_error(bins) == pytest.approx(error, abs=1e-12)


def test_bins_hold_all_scored_nodes_and_certainty_is_in_the_last_one() -> None:
    nodes = np.arange(400) < 300
    bins = calibration_bins(predictions(1.0, 400), PRIVATE, nodes)
    assert bins.shape == (CALIBRATION_BINS, 3)
    assert bins[-1].tolist() == [300, 300, 300]
    assert bins[:-1].sum() == 0
    with pytest.raises(GraphError, match="none of the nodes"):
        calibration_bins(predictions(1.0, 400), PRIVATE, np.zeros(400, dtype=np.bool_))
