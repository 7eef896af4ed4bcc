"""Exchanges of one process return what was sent; tests/cli/test_torchrun_shards.py runs them in four."""

from __future__ import annotations

import numpy as np

from veilgraph.distributed.exchange import Exchange

ALONE = Exchange(rank=0, world_size=1)


def test_answers_come_back_in_the_order_of_the_questions() -> None:
    arrived, answer = ALONE.ask(np.array([30, 10, 20]), np.zeros(3, dtype=np.int64))
    np.testing.assert_array_equal(answer(arrived * 2), [60, 20, 40])


def test_sums_and_rows_of_one_process_are_its_own() -> None:
    assert ALONE.max(5) == 5
    np.testing.assert_array_equal(ALONE.sum(np.array([1, 2])), [1, 2])
    np.testing.assert_array_equal(ALONE.gather(np.array([[1, 2]])), [[1, 2]])
