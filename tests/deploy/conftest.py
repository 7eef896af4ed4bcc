"""Collections and a model that was trained on one, shared by the tests of a module."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.collected import Collected
from veilgraph.models.registry import methods_for_campaign
from veilgraph.privacy.mechanisms import GRRFS, JointGRR, Mechanism

KINDS: dict[str, dict[str, Any]] = {
    "GRR-FS": {},
    "joint GRR": {"joint": True},
    "label sets": {"features": 0},
}
MECHANISMS: dict[str, Mechanism | None] = {
    "GRR-FS": GRRFS((2,), sampled=1, epsilon=1.0),
    "joint GRR": JointGRR((2,), sampled=1, epsilon=1.0),
    "label sets": None,
}
CASES = [(name, kind) for kind, mechanism in MECHANISMS.items() for name in methods_for_campaign(mechanism)]


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Collected]:
    """Return the collection of each of `KINDS`, made once."""
    return cache(lambda kind: Collected(tmp_path_factory.mktemp("collected"), **KINDS[kind]))


@pytest.fixture(scope="module")
def collected(collection: Callable[[str], Collected]) -> Collected:
    return collection("GRR-FS")


@pytest.fixture(scope="module")
def trained(collected: Collected) -> Path:
    assert collected.train() == 0
    return collected.folder / "model"


@pytest.fixture(params=CASES, ids=lambda case: ", ".join(case))
def case(request: pytest.FixtureRequest, collection: Callable[[str], Collected]) -> tuple[str, Collected]:
    """Return the name of each method with each kind of collection that it fits."""
    name, kind = request.param
    return name, collection(kind)
