"""The study of Veil: its counts, and one small case."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from studies.veil import SWEEP, Setting, fit, summary, table


def test_a_draw_scores_both_methods_and_bins_every_test_node() -> None:
    found = fit(Setting(name="small", model={"num_classes": 2}), 3.0, 0, None)
    assert 0.5 < found["veil"] <= 1
    assert 0.5 < found["control"] <= 1
    assert np.sum(found["bins"], axis=0)[0] == 250


def test_a_difference_is_clear_beyond_its_interval() -> None:
    bins: Any = [[1.0, 0.5, 1.0]]
    fits = [{"veil": 0.8 + step, "control": 0.7, "bins": bins} for step in (0.0, 0.01, 0.02, 0.01)]
    row = summary(SWEEP[0], 1.0, fits)
    assert (row["difference"], row["clear"]) == (pytest.approx(0.11), True)
    assert "+11.00 ± 0.41 *" in table([row])
    shifted = [each | {"control": each["veil"] + shift} for each, shift in zip(fits, (1, -1, 1, -1), strict=True)]
    level = summary(SWEEP[0], 1.0, shifted)
    assert not level["clear"]
