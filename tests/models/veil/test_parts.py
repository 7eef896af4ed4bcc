"""Veil in several processes gives the answers of one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.torchrun import torchrun
from tests.support.veil_cases import answers, perturbed

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    out: Path = tmp_path_factory.mktemp("spread") / "found.npz"
    started = torchrun(4, "tests.support.veil_cases", out)
    said, _ = started.communicate(timeout=240)
    assert started.returncode == 0, said
    return dict(np.load(out))


@pytest.fixture(scope="module")
def alone() -> dict[str, np.ndarray]:
    return answers(perturbed())


def test_eigenvectors_are_the_same_bit_for_bit(found: dict[str, np.ndarray], alone: dict[str, np.ndarray]) -> None:
    assert np.array_equal(found["eigenvectors"], alone["eigenvectors"])


@pytest.mark.parametrize("name", ["probabilities", "predicted", "public", "public predicted"])
def test_probabilities_with_features_and_with_public_columns_are_the_same(
    name: str, found: dict[str, np.ndarray], alone: dict[str, np.ndarray]
) -> None:
    np.testing.assert_allclose(found[name], alone[name], rtol=0, atol=1e-5)


def test_sets_are_the_same_but_for_classes_at_the_threshold(
    found: dict[str, np.ndarray], alone: dict[str, np.ndarray]
) -> None:
    """Thresholds are steps of 1/64 in the log-odds; a probability that rounding moves over one changes a count by 1."""
    assert (found["sets"] != alone["sets"]).mean() < 1e-3


def test_communities_of_a_large_graph_are_the_same(found: dict[str, np.ndarray], alone: dict[str, np.ndarray]) -> None:
    """The limit of large graphs is lowered to 0: all processes bisect the graph by its eigenvectors."""
    np.testing.assert_allclose(found["communities"], alone["communities"], rtol=0, atol=1e-5)
