"""Worker processes: results and errors reach the parent, and no worker outlives its use."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.support.torchrun import ROOT
from veilgraph.distributed.worker_process import stream_from_worker_process, unpickle_trusted
from veilgraph.errors import GraphError, MissingExtraError, RunError

TIMEOUT = 60  # seconds; the cores may be busy with other tests


def numbers_and_process() -> Iterator[object]:
    yield from range(3)
    yield os.getpid()


def failing(error: Exception) -> Iterator[object]:
    yield "something"
    raise error


def greedy() -> Iterator[object]:
    yield np.empty(2**57)


def killed() -> Iterator[object]:
    yield "something"
    os.kill(os.getpid(), signal.SIGKILL)


def ending() -> Iterator[object]:
    os._exit(3)
    yield


def sleeping(file: Path) -> Iterator[object]:
    file.touch()
    try:
        yield os.getpid()
        time.sleep(10 * TIMEOUT)
    finally:
        file.unlink()


def ignoring_sigterm() -> Iterator[object]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    yield os.getpid()
    time.sleep(10 * TIMEOUT)


def test_results_arrive_in_order_and_pickled() -> None:
    *numbers, process = stream_from_worker_process(numbers_and_process, "counting")
    assert list(map(unpickle_trusted, numbers)) == [0, 1, 2]
    assert unpickle_trusted(process) != os.getpid()


@pytest.mark.parametrize(
    "error", [GraphError("no edges"), MissingExtraError("sqlalchemy", "collector"), FileNotFoundError(2, "no", "a.csv")]
)
def test_expected_errors_of_the_worker_are_raised_here(error: Exception) -> None:
    made = stream_from_worker_process(partial(failing, error), "failing")
    assert unpickle_trusted(next(made)) == "something"
    with pytest.raises(type(error)) as raised:
        next(made)
    assert str(raised.value) == str(error)


@pytest.mark.parametrize(
    ("make", "fate"),
    [
        (killed, "cutting: its process was killed, as happens when memory runs out"),
        (ending, "ended with status 3 before"),
        (greedy, "cutting: memory ran out .*; use a machine with more"),
    ],
)
def test_a_worker_that_ends_early_is_an_error(make: Callable[[], Iterable[object]], fate: str) -> None:
    with pytest.raises(RunError, match=fate):
        list(stream_from_worker_process(make, "cutting"))


def test_closing_ends_the_worker_which_runs_its_finally_blocks(tmp_path: Path) -> None:
    with closing(stream_from_worker_process(partial(sleeping, tmp_path / "used"), "sleeping")) as made:
        process = unpickle_trusted(next(made))
        os.kill(process, 0)
        assert (tmp_path / "used").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    assert not (tmp_path / "used").exists()


def test_a_worker_that_ignores_sigterm_is_killed() -> None:
    with closing(stream_from_worker_process(ignoring_sigterm, "sleeping", termination_timeout=0.1)) as made:
        process = unpickle_trusted(next(made))
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_a_worker_ends_with_its_parent() -> None:
    program = (
        "import os, signal\nimport tests.distributed.test_worker_process as t\n"
        "made = t.stream_from_worker_process(t.ignoring_sigterm, 'sleeping')\n"
        "next(made)\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    # Both processes write to one pipe, which is at its end when neither is left.
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        timeout=TIMEOUT,
    )
    assert ended.returncode == -signal.SIGKILL
