"""Where training left off, in a file that is there whole or not at all."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.atomic_files import write_whole
from veilgraph.errors import RunError
from veilgraph.progress import say

_WORK = "work"


@dataclass(frozen=True, kw_only=True, eq=False)
class Checkpoint:
    """The state of a fit, written every few epochs. It holds weights and random numbers, no report.

    Attributes:
        work: what the fit is of; a file that was left by other work is not gone on from.
        path: the file; None for a process that goes on from a state but leaves writing to another.
        every: epochs between one writing and the next.
        saved: what the file held when it was opened; None if there was nothing to go on from.
    """

    work: str
    path: Path | None
    every: int = 10
    saved: Mapping[str, Tensor] | None = field(default=None, repr=False)

    @classmethod
    def open(cls, path: Path, work: str, *, every: int = 10) -> Checkpoint:
        """With what the file holds, if it is of the same work."""
        if every < 1:
            raise RunError(f"a checkpoint every {every} epochs: it must be at least 1")
        opened = cls(work=work, path=path, every=every, saved=_read(path, work))
        if opened.epochs:
            say(f"training goes on after epoch {opened.epochs:,}, where {path} was left")
        return opened

    @property
    def epochs(self) -> int:
        """How many were done when it was left."""
        return 0 if self.saved is None else int(self.saved["record.steps"])

    def reader(self) -> Checkpoint:
        """For another process of the same work, which does not write."""
        return replace(self, path=None)

    def write(self, state: Mapping[str, Tensor]) -> None:
        """Replace the file."""
        if self.path is None:
            return
        buffer = io.BytesIO()
        arrays: dict[str, Any] = {name: tensor.cpu().numpy() for name, tensor in state.items()}
        np.savez(buffer, **(arrays | {_WORK: np.array(self.work)}))
        write_whole(self.path, buffer.getvalue())


def work_of(settings: Mapping[str, Any], arrays: Iterable[NDArray[Any]]) -> str:
    """A name for work that depends on these settings and these data, and on nothing else.

    >>> work_of({"epochs": 1}, [np.arange(3)]) == work_of({"epochs": 2}, [np.arange(3)])
    False
    """
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _read(path: Path, work: str) -> dict[str, Tensor] | None:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        arrays = dict(np.load(io.BytesIO(content), allow_pickle=False))
    except (ValueError, EOFError, BadZipFile):
        raise RunError(f"{path} is not a checkpoint that can be read: remove it to begin anew") from None
    if str(arrays.pop(_WORK, None)) != work:
        say(f"{path} was left by other work (other reports, settings or graph): training begins anew")
        return None
    return {name: torch.from_numpy(array) for name, array in arrays.items()}
