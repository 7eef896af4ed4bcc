"""Every method of the studies gives the numbers that it gave when they were last recorded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.reference.fingerprint import EPOCHS, graphs, registered, sample
from studies.methods import EQUAL_EPSILON, RIVALS

from tests.models.test_numbers import ROUNDING

RECORDED = Path(__file__).parent / "numbers.npz"


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("graph", graphs())
@pytest.mark.parametrize("method", [*RIVALS, *EQUAL_EPSILON])
def test_every_method_gives_the_recorded_numbers(graph: str, method: str) -> None:
    with np.load(RECORDED, allow_pickle=False) as arrays:
        recorded = arrays[f"{graph} {method}"]
    found = sample(registered(method, graph, graphs()[graph], EPOCHS))
    assert found.shape == recorded.shape
    assert np.allclose(found, recorded, rtol=0, atol=ROUNDING)
