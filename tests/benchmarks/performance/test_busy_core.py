"""Times beside a busy process."""

from __future__ import annotations

from benchmarks.performance.busy_core import seconds_of_epoch, seconds_of_veil


def test_an_epoch_and_a_fit_take_time() -> None:
    assert seconds_of_epoch(200, 2) > 0
    assert seconds_of_veil(60, 1) > 0
