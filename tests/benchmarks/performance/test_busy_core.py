"""Times beside a busy process."""

from __future__ import annotations

import pytest
from benchmarks.performance.busy_core import seconds_of_epoch, seconds_of_veil, times_of


def test_an_epoch_and_a_fit_take_time() -> None:
    assert seconds_of_epoch(200, 2) > 0
    assert seconds_of_veil(60, 1) > 0


@pytest.mark.slow
def test_times_of_a_process_beside_a_busy_one_are_read() -> None:
    options = ["--nodes=200", "--veil-nodes=60", "--epochs=2", "--threads=1"]
    assert list(times_of(True, 1, options)) == ["one epoch of RGNN", "one fit of Veil"]
