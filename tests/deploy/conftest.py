"""Collections and a model that was trained on one, shared by the tests of a module."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.collected import Collected
from tests.support.trained import parameters_of, train_reports
from veilgraph.deploy import Model
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
# Joint reports reach every method by the same two ways: as inputs of a GNN, and as evidence of Veil.
CASES = [
    (name, kind)
    for kind, mechanism in MECHANISMS.items()
    for name in methods_for_campaign(mechanism)
    if kind != "joint GRR" or name in ("rgnn", "veil")
]


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


@pytest.fixture(scope="session")
def case_collection(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Collected]:
    """Return the collection of each of `KINDS`, made once for all modules; nobody writes to it."""
    return cache(lambda kind: Collected(tmp_path_factory.mktemp("collected"), **KINDS[kind]))


@pytest.fixture(scope="session")
def in_memory(case_collection: Callable[[str], Collected]) -> Callable[[str, str], Model]:
    """Return the model of a method from the reports of a kind of collection in memory, trained once."""

    @cache
    def train(name: str, kind: str) -> Model:
        made = case_collection(kind)
        return train_reports(made.campaign, made.perturbed, method=name, device="cpu", **parameters_of(name))

    return train


@pytest.fixture(params=CASES, ids=lambda case: ", ".join(case))
def case(
    request: pytest.FixtureRequest,
    case_collection: Callable[[str], Collected],
    in_memory: Callable[[str, str], Model],
) -> tuple[str, Collected, Model]:
    """Return the name of each method with each kind of collection that it fits, and its model of it."""
    name, kind = request.param
    return name, case_collection(kind), in_memory(name, kind)
