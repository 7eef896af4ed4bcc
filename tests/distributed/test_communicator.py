"""Communicators: one process needs no exchange, and several are checked in tests of the distributed fit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import distributed

from tests.support.partition import Partition
from veilgraph.datasets import csbm
from veilgraph.distributed.communicator import LOCAL, Communicator, HaloCommunicator

NODES = 60


@pytest.fixture(params=["local", "halo of one process"])
def communicator(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Communicator]:
    if request.param == "local":
        yield LOCAL
        return
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        yield HaloCommunicator(Partition(csbm(NODES, seed=0).graph, 1)[0], torch.device("cpu"))
    finally:
        distributed.destroy_process_group()


def test_one_process_holds_everything(communicator: Communicator) -> None:
    rows = torch.rand(NODES, 3)
    assert torch.equal(communicator.exchange_halo(rows), rows)
    assert communicator.all_reduce_max(5) == 5
    assert communicator.global_nodes(NODES) == communicator.max_extended_rows(NODES) == NODES


def test_a_sum_over_processes_keeps_its_argument_and_passes_the_gradient_on(communicator: Communicator) -> None:
    values = torch.rand(4, 3, requires_grad=True)
    before = values.detach().clone()
    total = communicator.all_reduce_sum((2 * values).T)
    assert torch.equal(total, 2 * before.T)
    (gradient,) = torch.autograd.grad(total.square().sum(), values)
    assert torch.equal(values, before)
    assert torch.allclose(gradient, 8 * before)
