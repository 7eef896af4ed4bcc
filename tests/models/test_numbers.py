"""Every method gives the numbers that it gave when they were last recorded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.reference.fingerprint import VARIANTS, cases, graphs, sample
from numpy.typing import NDArray

from veilgraph.models.registry import METHODS

RECORDED = Path(__file__).parent / "numbers.npz"
NAMES = [f"{graph} {case}" for graph in graphs() for case in (*METHODS, *(f"variant {name}" for name in VARIANTS))]

# Processors and versions of torch add up in different orders. Single precision rounds by 6e-8; sums of some hundred
# terms and five steps of Adam, each of at most the learning rate 0.01, leave probabilities within 1e-4 of each other.
ROUNDING = 1e-4


@pytest.fixture(scope="module")
def recorded() -> Mapping[str, NDArray[Any]]:
    with np.load(RECORDED, allow_pickle=False) as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def found() -> Mapping[str, NDArray[Any]]:
    return {name: sample(probabilities) for name, probabilities in cases()}


@pytest.mark.parametrize("name", NAMES)
def test_every_method_gives_the_recorded_numbers(
    name: str, recorded: Mapping[str, NDArray[Any]], found: Mapping[str, NDArray[Any]]
) -> None:
    assert found[name].shape == recorded[name].shape
    assert np.allclose(found[name], recorded[name], rtol=0, atol=ROUNDING)
