"""A collection and a model that was trained on it, shared by the tests of a module."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.collected import Collected


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Collected:
    return Collected(tmp_path_factory.mktemp("collected"))


@pytest.fixture(scope="module")
def trained(collected: Collected) -> Path:
    assert collected.train() == 0
    return collected.folder / "model"
