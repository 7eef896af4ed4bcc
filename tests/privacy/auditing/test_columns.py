"""Reports of any kind become columns of numbers, the same in every process."""

from __future__ import annotations

import numpy as np
import pytest

from veilgraph.privacy.auditing.columns import Encoder, array_columns, row_keys, with_precision


def test_bit_masks_have_a_column_for_each_bit() -> None:
    masks = np.array([[1 << 63, 1], [0, 2]], dtype=np.uint64)
    assert np.argwhere(array_columns(masks)).tolist() == [[0, 63], [0, 64], [1, 65]]


def test_the_last_bit_of_a_float_tells_which_number_noise_was_added_to() -> None:
    noise = np.random.default_rng(0).laplace(size=(1000, 1))
    _, near_zero = with_precision(noise).T
    _, near_one = with_precision(1 + noise).T
    # A sum with 1 has no bit below 2**-53, wherever the noise is as coarse as the generator makes it.
    assert near_zero.min() < -53 <= near_one.min()


def test_many_values_become_ranges_and_new_values_have_a_code_of_their_own() -> None:
    column = np.arange(1000)[:, None]
    encoder = Encoder.fit(column, np.zeros(1000, dtype=np.int64))
    codes = encoder.codes(column)[:, 0]
    assert (np.diff(codes) >= 0).all()
    assert 32 <= len(np.unique(codes)) <= 64
    few = Encoder.fit(column % 3, np.zeros(1000, dtype=np.int64))
    assert few.codes(np.array([[0], [2], [9]]))[:, 0].tolist() == [0, 2, 3]


def test_of_many_columns_those_are_kept_that_differ_between_records() -> None:
    numbers = np.arange(400) % 2
    columns = np.random.default_rng(0).integers(0, 2, size=(400, 1000))
    columns[:, 777] = numbers
    assert 777 in Encoder.fit(columns, numbers).kept


@pytest.mark.parametrize("columns", [1, 2, 5])
def test_rows_that_differ_have_different_keys(columns: int) -> None:
    rows = np.array(np.meshgrid(*[np.arange(5)] * columns)).reshape(columns, -1).T
    assert len(np.unique(row_keys(rows))) == 5**columns
