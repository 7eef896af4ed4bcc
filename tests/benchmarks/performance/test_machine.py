"""Limits of a machine are rates, and a lower bound is work divided by a rate."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from benchmarks.performance.floors import Sizes, Work
from benchmarks.performance.machine import Machine, measure_machine
from benchmarks.performance.timing import seconds

from benchmarks.performance import floors
from benchmarks.performance import machine as machine_module

SIZES = Sizes(nodes=10, edges=15, columns=4, classes=3, hidden=16)
MACHINE = Machine(
    name="a machine",
    cores=2,
    threads=2,
    torch="2",
    load=0.1,
    memory_bandwidth=10.0,
    cache_bandwidth=100.0,
    peak=1000.0,
    peak_one_thread=500.0,
)


def test_a_machine_is_measured_and_torch_keeps_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        machine_module, "seconds", lambda work, device, at_least: seconds(work, device=device, at_least=0)
    )
    threads = torch.get_num_threads()
    machine = measure_machine(torch.device("cpu"), scale=0.01)
    assert min(machine.memory_bandwidth, machine.cache_bandwidth, machine.peak, machine.peak_one_thread) > 0
    assert torch.get_num_threads() == threads
    assert machine.name
    assert machine.name in machine.in_words()


def test_a_machine_with_other_work_says_so() -> None:
    assert not MACHINE.busy
    assert replace(MACHINE, load=1.5).busy
    assert not replace(MACHINE, load=None).busy


def test_a_floor_is_work_divided_by_the_ceiling() -> None:
    work = Work(moved=50.0, touched=200.0, operations=3000.0)
    assert work.floors(MACHINE) == {"memory": 5.0, "cache": 2.0, "peak": 3.0}
    assert (work + work * 2).floors(MACHINE) == {"memory": 15.0, "cache": 6.0, "peak": 9.0}


def test_a_hop_reads_the_matrix_and_gathers_a_row_for_every_entry() -> None:
    entries = 2 * 15 + 10  # both directions, and every node itself
    matrix = 8 * entries + 4 * 10  # a number and a column each, and the starts of rows
    hop = floors.sparse_product(SIZES, 4, loops=True)
    assert hop.moved == matrix + 2 * 4 * 10 * 4
    assert hop.touched == matrix + 4 * entries * 4 + 4 * 10 * 4
    assert hop.operations == 2 * entries * 4


def test_replicas_that_share_have_a_lower_floor() -> None:
    alone, together = floors.sage_epoch(SIZES), floors.sage_epoch(SIZES, replicas=8, sharing=4)
    assert together.operations == pytest.approx(alone.operations)
    assert together.moved < alone.moved
    assert together.touched < alone.touched
