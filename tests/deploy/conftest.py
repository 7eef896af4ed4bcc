"""Collections and a model that was trained on one, shared by the tests of a module."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.support.collected import Collected
from veilgraph.models.registry import methods_for_campaign
from veilgraph.privacy.mechanisms import GRRFS

FEATURES = dict.fromkeys(methods_for_campaign(GRRFS((2,), sampled=1, epsilon=1.0)), 32)
NO_FEATURES = dict.fromkeys(methods_for_campaign(None), 0)
CASES = [*FEATURES.items(), *NO_FEATURES.items()]


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Collected]:
    """Return the collection with a number of features, made once."""
    return cache(lambda features: Collected(tmp_path_factory.mktemp("collected"), features=features))


@pytest.fixture(scope="module")
def collected(collection: Callable[[int], Collected]) -> Collected:
    return collection(32)


@pytest.fixture(scope="module")
def trained(collected: Collected) -> Path:
    assert collected.train() == 0
    return collected.folder / "model"


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]}, {'features' if case[1] else 'label sets'}")
def case(request: pytest.FixtureRequest, collection: Callable[[int], Collected]) -> tuple[str, Collected]:
    """Return the name of each method with a collection that it fits: with features, and of label sets alone."""
    name, features = request.param
    return name, collection(features)
