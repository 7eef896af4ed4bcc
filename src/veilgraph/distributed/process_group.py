"""The process group of one run, as torchrun starts it: rendezvous, objects, and errors when a process is lost."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from types import FrameType
from typing import Any, TypeVar

import torch
from torch import distributed
from torch.distributed.rendezvous import rendezvous

from veilgraph.errors import RunError, VeilgraphError

_COLLECTIVE_TIMEOUT = timedelta(minutes=10)
"""Timeout of a collective operation: processes do equal work, so one that is this late is lost."""

_PREPARATION_TIMEOUT = timedelta(days=1)
"""Timeout of a message while rank 0 writes tables as shards. A process that ends is noticed at once."""

_REFUSED = "refused"
"""Key of the rendezvous store, which exists when a process ended with a message to the user."""

_EXIT_CODE = 2
"""Exit code of a process that ends after a message to the user, as everywhere on the command line."""

T = TypeVar("T")


class LostProcessError(RunError):
    """Another process ended or does not answer."""


def world_size() -> int:
    """Return the number of processes that torchrun started for this run; 1 without torchrun."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def leads() -> bool:
    """Return whether this process is the one that reads, writes and prints; True without torchrun."""
    return os.environ.get("RANK", "0") == "0"


@dataclass(frozen=True, kw_only=True, eq=False)
class ProcessGroup:
    """The processes of a run, seen from one of them.

    Attributes:
        rank: rank of this process.
        world_size: number of processes.
    """

    rank: int
    world_size: int
    _gloo_group: Any = field(default=None, repr=False)

    @property
    def is_leader(self) -> bool:
        """Whether this is rank 0, which reads, writes and prints; the other processes only compute."""
        return self.rank == 0

    @contextmanager
    def leader_first(self) -> Iterator[None]:
        """Surround work that the leader finishes before the others begin, so that a mistake is told once."""
        if not self.is_leader:
            self.broadcast(None)
        yield
        if self.is_leader:
            self.broadcast(None)

    def broadcast(self, message: T | None) -> T:
        """Return the leader's object in every process; what the others give is not used."""
        objects: list[Any] = [message]
        if self.world_size > 1:
            with communication():
                distributed.broadcast_object_list(objects, src=0, group=self._gloo_group)
        found: T = objects[0]
        return found

    def gather(self, message: T) -> list[T]:
        """Return the objects of all processes, in the order of their ranks, in the leader; nothing in the others."""
        if self.world_size == 1:
            return [message]
        objects: list[Any] | None = [None] * self.world_size if self.is_leader else None
        with communication():
            distributed.gather_object(message, objects, dst=0, group=self._gloo_group)
        return objects or []


@contextmanager
def join_process_group(device: torch.device) -> Iterator[ProcessGroup]:
    """Join the process group that torchrun describes: gloo on CPUs, NCCL on GPUs with one GPU for each process.

    Without torchrun the group has one process, and torch.distributed is not initialized.

    If a `VeilgraphError` ends one process, its message is the only one: the others end without any, with `SystemExit`.

    Args:
        device: device on which this run computes.
    """
    if world_size() == 1:
        yield ProcessGroup(rank=0, world_size=1)
        return
    _select_gpu(device)
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    with _sigterm_as_error():
        with communication():
            store = _initialize(backend)
            gloo_group = distributed.new_group(backend="gloo", timeout=_PREPARATION_TIMEOUT)
        with one_message(store):
            yield ProcessGroup(
                rank=distributed.get_rank(),
                world_size=distributed.get_world_size(),
                _gloo_group=gloo_group,
            )
        distributed.destroy_process_group()


def _initialize(backend: str) -> Any:
    """Initialize torch.distributed with the addresses that torchrun gives, and return the rendezvous store.

    The rendezvous store outlives the processes. After a restart by torchrun, keys get a new prefix: otherwise the
    new processes would find the addresses of the dead ones.
    """
    store, rank, size = next(rendezvous("env://", timeout=_COLLECTIVE_TIMEOUT))
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = distributed.PrefixStore(f"attempt {attempt}", store)  # type: ignore[attr-defined]
    distributed.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=_COLLECTIVE_TIMEOUT)
    return store


@contextmanager
def one_message(store: Any) -> Iterator[None]:
    """Surround the work of a process: if the input is refused in one process, the others end without a message.

    They lose the connection when that process ends, after it wrote a key into the store.

    Args:
        store: store of torch.distributed that all processes of this run share.
    """
    try:
        yield
    except LostProcessError:
        with suppress(RuntimeError):  # the store is lost too
            if store.check([_REFUSED]):
                raise SystemExit(_EXIT_CODE) from None
        raise
    except VeilgraphError:
        with suppress(RuntimeError):
            store.set(_REFUSED, "")
        raise


@contextmanager
def communication() -> Iterator[None]:
    """Surround every exchange: turn the loss of another process into a `LostProcessError` with a remedy."""
    try:
        yield
    except RuntimeError as error:  # raised by torch for failures of gloo and NCCL
        _ignore_sigterm()
        raise LostProcessError(f"{_lost_process()} ({_reason(error)})") from error


@contextmanager
def _sigterm_as_error() -> Iterator[None]:
    """Raise a `LostProcessError` on SIGTERM, which torchrun sends to the remaining processes when one ends."""

    def stop(number: int, frame: FrameType | None) -> None:
        _ignore_sigterm()
        raise LostProcessError(_lost_process())

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except BaseException:
        _ignore_sigterm()  # otherwise torchrun could end this process before it prints its message
        raise
    signal.signal(signal.SIGTERM, before)


def _ignore_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _lost_process() -> str:
    return (
        f"process {os.environ.get('RANK', '0')} of {world_size()} stops, since another one ended or did not "
        "answer: see its message, if there is one; with the same command, a training goes on from its last checkpoint, "
        "if there is one"
    )


def _reason(error: RuntimeError) -> str:
    """Return the first sentence of torch's message, without the position in torch's source."""
    return re.sub(r"^\[\S+\] ", "", str(error).splitlines()[0]).split(". ")[0][:200]


def _select_gpu(device: torch.device) -> None:
    if device.type != "cuda":
        return
    local_rank, gpus = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if local_rank >= gpus:
        raise RunError(
            f"process {local_rank} of this machine has no GPU of its own, there are {gpus}: "
            f"start {gpus} processes, or choose the device cpu"
        )
    torch.cuda.set_device(local_rank)
