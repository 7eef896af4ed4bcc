"""The processes of one run, as torchrun starts them: who leads, how they talk, and what happens when one ends."""

from __future__ import annotations

import os
import pickle
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from types import FrameType
from typing import Any

import torch
from torch import distributed
from torch.distributed.rendezvous import rendezvous

from veilgraph.distributed.worker_process import unpickled
from veilgraph.errors import RunError

_ANSWER = timedelta(minutes=10)
"""How long one process waits for another in the middle of common work: they do equal work, so they are never far
apart, and whoever takes this long is lost."""

_PREPARATION = timedelta(days=1)
"""How long processes wait for the leader to read and partition; if it ends meanwhile, they know at once."""

_PIECE = 2**26
"""Bytes that are sent at once."""


def number_of_processes() -> int:
    """How many processes torchrun has started for this run; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


@dataclass(frozen=True, kw_only=True, eq=False)
class Processes:
    """A run's processes, as one of them sees them.

    Attributes:
        rank: of this one; rank 0 leads.
        count: how many there are.
    """

    rank: int
    count: int
    _patient: Any = field(default=None, repr=False)

    @property
    def leads(self) -> bool:
        """Whether this one reads, writes and speaks; the others compute what it hands out."""
        return self.rank == 0

    def send(self, what: object, to: int) -> None:
        """Hand something over to another process, which is waiting for it."""
        self.pass_on(pickle.dumps(what, protocol=pickle.HIGHEST_PROTOCOL), to)

    def pass_on(self, pickled: bytes, to: int) -> None:
        """The same with what is pickled already, without a second copy of it."""
        with talking():
            distributed.send(torch.tensor(len(pickled)), to, self._patient)
            for start in range(0, len(pickled), _PIECE):
                piece = bytearray(memoryview(pickled)[start : start + _PIECE])
                distributed.send(torch.frombuffer(piece, dtype=torch.uint8), to, self._patient)

    def receive(self, sender: int = 0) -> Any:
        """Wait for what another process hands over."""
        size = torch.tensor(0)
        with talking():
            distributed.recv(size, sender, self._patient)
            pickled = torch.empty(int(size), dtype=torch.uint8)
            for start in range(0, len(pickled), _PIECE):
                distributed.recv(pickled[start : start + _PIECE], sender, self._patient)
        return unpickled(pickled.numpy().data)


@contextmanager
def joined(device: torch.device) -> Iterator[Processes]:
    """Meet the other processes, if there are any: gloo between processors, NCCL between GPUs, one for each process.

    Args:
        device: where this run computes.
    """
    if number_of_processes() == 1:
        yield Processes(rank=0, count=1)
        return
    _take_gpu(device)
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    with _told_of_the_end():
        with talking():
            _meet(backend)
            patient = distributed.new_group(backend="gloo", timeout=_PREPARATION)
        yield Processes(rank=distributed.get_rank(), count=distributed.get_world_size(), _patient=patient)
        distributed.destroy_process_group()


def _meet(backend: str) -> None:
    """Find the others where torchrun says.

    What processes write down for each other to find them outlives them there; when torchrun starts them again, they
    look in a place of their own, lest they wait for the dead.
    """
    board, rank, count = next(rendezvous("env://", timeout=_ANSWER))
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    board = distributed.PrefixStore(f"attempt {attempt}", board)  # type: ignore[attr-defined]
    distributed.init_process_group(backend, store=board, rank=rank, world_size=count, timeout=_ANSWER)


@contextmanager
def talking() -> Iterator[None]:
    """Around every exchange: a process that has ended or does not answer is an error with a remedy."""
    try:
        yield
    except RuntimeError as error:  # what gloo and NCCL raise, by way of torch
        _ignore_termination()
        raise RunError(f"{_ended()} ({_reason(error)})") from error


@contextmanager
def _told_of_the_end() -> Iterator[None]:
    """torchrun asks the processes that are left to terminate: they say why."""

    def stop(number: int, frame: FrameType | None) -> None:
        _ignore_termination()
        raise RunError(_ended())

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except BaseException:
        _ignore_termination()  # the message is on its way, and torchrun would cut it short
        raise
    signal.signal(signal.SIGTERM, before)


def _ignore_termination() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _ended() -> str:
    return (
        f"process {os.environ.get('RANK', '0')} of {number_of_processes()} stops, since another one ended or did not "
        "answer; the same command goes on from the last checkpoint"
    )


def _reason(error: RuntimeError) -> str:
    """What the library says first, without the place in its own source."""
    return re.sub(r"^\[\S+\] ", "", str(error).splitlines()[0]).split(". ")[0][:200]


def _take_gpu(device: torch.device) -> None:
    if device.type != "cuda":
        return
    place, there = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if place >= there:
        raise RunError(
            f"process {place} of this machine has no GPU of its own, there are {there}: "
            f"start torchrun with --nproc-per-node {there}, or use --device cpu"
        )
    torch.cuda.set_device(place)
