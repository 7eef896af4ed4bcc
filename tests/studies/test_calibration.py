"""The study of calibration: one small case, and its sums."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from studies.calibration import draw, jackknife, summary, table


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
