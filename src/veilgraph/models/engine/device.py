"""Devices of computations, and threads inside operations on small graphs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from veilgraph.errors import RunError
from veilgraph.reconstruct.threads import max_torch_threads

_SMALL_GRAPH_NODES = 10_000
"""Operations on smaller graphs take less time than the synchronization of threads."""


def resolve_device(name: str) -> torch.device:
    """Return the device with a name; "auto" is a GPU if there is one, else the CPU.

    >>> resolve_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise RunError(f"device is '{name}': choose auto, cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise RunError("device is 'cuda', but there is no usable GPU here: choose cpu or auto")
    return torch.device(name)


@contextmanager
def torch_threads_for(nodes: int) -> Iterator[None]:
    """Limit torch to one thread on a small graph.

    On a busy machine, threads that wait for each other make small fits ten times slower.

    >>> with torch_threads_for(500):
    ...     torch.get_num_threads()
    1
    """
    with max_torch_threads(1 if nodes < _SMALL_GRAPH_NODES else torch.get_num_threads()):
        yield
