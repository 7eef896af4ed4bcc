"""Rows for silent people: a constant one marks them, a drawn one is that of somebody who took part."""

from __future__ import annotations

import numpy as np
import pytest
from studies.silent_rows import filled

from veilgraph.privacy.belief_table import UNKNOWN, BeliefTable


@pytest.mark.parametrize(("rows", "marks"), [("unknown", True), ("shares", True), ("drawn", False)])
def test_a_constant_row_marks_silent_people_and_a_drawn_one_does_not(rows: str, marks: bool) -> None:
    rng = np.random.default_rng(0)
    silent = np.arange(300) % 3 == 0
    table = BeliefTable.of(np.eye(3)[rng.integers(0, 3, 300)] * 0.8 + 0.2 / 3, known=~silent)
    codes = filled(table, silent, rng.random(300), rows).codes
    assert bool(set(codes[silent].tolist()) <= set(codes[~silent].tolist())) is not marks
    assert (codes[~silent] == table.codes[~silent]).all()
    assert (codes[silent] == UNKNOWN).all() == (rows == "unknown")
