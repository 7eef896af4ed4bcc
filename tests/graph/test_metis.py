"""METIS finds the same partitions in worker processes, and this process replaces workers that fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.torchrun import ROOT
from veilgraph.datasets import csbm
from veilgraph.graph.metis import (
    PartitionRequest,
    metis_partitions,
    start_metis_partitions,
    start_workers,
    submit,
)

GRAPH = csbm(300, seed=0).graph
STARTS, NEIGHBOURS = (each.astype(np.int32) for each in GRAPH.adjacency)
REQUESTS = [
    PartitionRequest(parts, recursive=recursive, seed=seed)
    for parts, recursive in ((4, True), (9, False))
    for seed in (0, 1)
]
EXPECTED = metis_partitions(STARTS, NEIGHBOURS, REQUESTS)
HERE = os.getpid()
TIMEOUT = 60  # seconds; the cores may be busy with other tests


def same(found: list[NDArray[np.int64]]) -> bool:
    return len(found) == len(EXPECTED) and all((a == b).all() for a, b in zip(EXPECTED, found, strict=True))


def killed_unless_in(process: int) -> int:
    """Return the number of the process, unless this is another one."""
    if os.getpid() != process:
        os.kill(os.getpid(), signal.SIGKILL)
    return process


def loaded_modules() -> set[str]:
    return set(sys.modules)


def start(program: str) -> subprocess.Popen[str]:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    program = f"import os, sys, time\nfrom veilgraph.graph.metis import submit, start_workers\n{program}"
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def errors_of(program: str) -> str:
    """Run a program; return its standard error if it fails."""
    process = start(program)
    _, errors = process.communicate(timeout=TIMEOUT)
    return errors or "failed" if process.returncode else ""


@pytest.mark.parametrize("workers", [2, 3, 10])
def test_several_processes_give_the_parts_of_one_in_the_same_order(workers: int) -> None:
    assert same(start_metis_partitions(STARTS, NEIGHBOURS, REQUESTS, workers=workers, min_neighbours=0)())
    assert [len(set(found.tolist())) for found in EXPECTED] == [each.num_parts for each in REQUESTS]


def test_partitions_that_were_started_are_the_same() -> None:
    assert same(start_metis_partitions(STARTS, NEIGHBOURS, REQUESTS)())


def test_workers_stay_for_the_next_graph_and_do_not_load_torch() -> None:
    start_workers()
    workers = {submit(os.getpid)() for _ in range(20)}
    assert HERE not in workers
    assert len(workers) <= (os.cpu_count() or 1)
    assert "torch" not in submit(loaded_modules)()


def test_this_process_does_the_work_of_a_worker_that_is_killed_and_new_workers_start() -> None:
    pending = [submit(killed_unless_in, HERE), *(submit(os.getpid) for _ in range(3))]
    assert pending[0]() == HERE
    assert all(isinstance(each(), int) for each in pending[1:])
    assert submit(os.getpid)() != HERE


def test_an_error_of_the_work_itself_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        submit(divmod, 1, 0)()


@pytest.mark.parametrize("executable", ["/nonexistent/python", "/bin/false"])
def test_where_no_process_can_be_started_this_one_does_the_work(executable: str) -> None:
    assert not errors_of(f"sys.executable = {executable!r}\nstart_workers()\nassert submit(os.getpid)() == os.getpid()")


def test_small_graphs_start_no_process() -> None:
    program = (
        "import tests.graph.test_metis as t\n"
        "assert t.same(t.start_metis_partitions(t.STARTS, t.NEIGHBOURS, t.REQUESTS, workers=4)())\n"
        "assert 'loky.backend.popen_loky_posix' not in sys.modules"
    )
    assert not errors_of(program)


def test_a_forked_process_does_the_work_itself() -> None:
    program = (
        "assert submit(os.getpid)() != os.getpid()\nchild = os.fork()\n"
        "if child == 0:\n    os._exit(submit(os.getpid)() != os.getpid())\n"
        "assert os.waitpid(child, 0)[1] == 0\nassert submit(os.getpid)() != os.getpid()"
    )
    assert not errors_of(program)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_the_process_that_started_them(number: signal.Signals) -> None:
    """Ctrl-C reaches all processes of a terminal; SIGKILL only the one it is sent to."""
    began = start("submit(os.getpid)()\npending = submit(time.sleep, 600)\nprint('working', flush=True)\npending()")
    assert began.stdout is not None
    assert began.stdout.readline() == "working\n"
    time.sleep(0.5)  # until the worker sleeps
    (os.killpg if number == signal.SIGINT else os.kill)(began.pid, number)
    # All processes write to one pipe, which is at its end when none of them is left.
    began.communicate(timeout=TIMEOUT)
    assert began.returncode != 0
