"""Every method gives the numbers that it gave when they were last recorded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from benchmarks.reference.fingerprint import VARIANTS, cases, graphs, sample

from veilgraph.models.registry import METHODS

RECORDED = Path(__file__).parent / "numbers.npz"

# Processors and versions of torch add up in different orders. Single precision rounds by 6e-8; sums of some hundred
# terms and five steps of Adam, each of at most the learning rate 0.01, leave probabilities within 1e-4 of each other.
ROUNDING = 1e-4


def test_every_method_gives_the_recorded_numbers() -> None:
    with np.load(RECORDED, allow_pickle=False) as arrays:
        recorded = dict(arrays)
    found = {name: sample(probabilities) for name, probabilities in cases()}
    assert found.keys() == {
        f"{graph} {case}" for graph in graphs() for case in (*METHODS, *(f"variant {name}" for name in VARIANTS))
    }
    assert [
        name
        for name, numbers in found.items()
        if numbers.shape != recorded[name].shape or not np.allclose(numbers, recorded[name], rtol=0, atol=ROUNDING)
    ] == []
