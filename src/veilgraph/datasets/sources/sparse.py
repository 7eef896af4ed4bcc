"""Compressed rows as others store them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def positive_entries(
    data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and columns of the positive entries of a matrix in compressed rows: counts and weights become 0 or 1.

    >>> rows, columns = positive_entries(np.array([0.2, 0, 3]), np.array([4, 1, 0]), np.array([0, 2, 3]))
    >>> rows.tolist(), columns.tolist()
    ([0, 1], [4, 0])
    """
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    positive = data > 0
    return rows[positive], indices[positive].astype(np.int64)
