"""Checkpoints of training: the state of an interrupted fit, in a file that is replaced atomically."""

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

from veilgraph.atomic_files import write_atomically
from veilgraph.errors import RunError
from veilgraph.progress import say

_DIGEST_KEY = "work"


@dataclass(frozen=True, kw_only=True, eq=False)
class Checkpoint:
    """The state of a fit, written every few epochs. It contains weights and generator states, no report.

    Attributes:
        task_digest: digest of the fit; the state of another fit is not used.
        path: the file; None for a process that resumes from the state but leaves writing to another process.
        every: number of epochs between two writes.
        saved_state: content of the file when it was opened; None if there is no state to resume from.
    """

    task_digest: str
    path: Path | None
    every: int = 10
    saved_state: Mapping[str, Tensor] | None = field(default=None, repr=False)

    @classmethod
    def open(cls, path: Path, task_digest: str, *, every: int = 10) -> Checkpoint:
        """Open a checkpoint with the state in the file, if the file belongs to the same fit."""
        if every < 1:
            raise RunError(f"a checkpoint every {every} epochs: it must be at least 1")
        opened = cls(task_digest=task_digest, path=path, every=every, saved_state=_read(path, task_digest))
        if opened.epochs:
            say(f"training resumes after epoch {opened.epochs:,}, from {path}")
        return opened

    @property
    def epochs(self) -> int:
        """Number of epochs that the saved state has seen."""
        return 0 if self.saved_state is None else int(self.saved_state["record.steps"])

    def reader(self) -> Checkpoint:
        """Return a checkpoint with the same state that writes nothing, for another process of the same fit."""
        return replace(self, path=None)

    def write(self, state: Mapping[str, Tensor]) -> None:
        """Replace the file."""
        if self.path is None:
            return
        buffer = io.BytesIO()
        arrays: dict[str, Any] = {name: tensor.cpu().numpy() for name, tensor in state.items()}
        np.savez(buffer, **(arrays | {_DIGEST_KEY: np.array(self.task_digest)}))
        write_atomically(self.path, buffer.getvalue())


def digest_of_task(settings: Mapping[str, Any], arrays: Iterable[NDArray[Any]]) -> str:
    """Return a digest that depends on these settings and these data, and on nothing else.

    >>> digest_of_task({"epochs": 1}, [np.arange(3)]) == digest_of_task({"epochs": 2}, [np.arange(3)])
    False
    """
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _read(path: Path, task_digest: str) -> dict[str, Tensor] | None:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        arrays = dict(np.load(io.BytesIO(content), allow_pickle=False))
    except (ValueError, EOFError, BadZipFile):
        raise RunError(f"{path} is not a readable checkpoint: remove it to start again") from None
    if str(arrays.pop(_DIGEST_KEY, None)) != task_digest:
        say(f"{path} belongs to another fit (other reports, settings or graph): training starts again")
        return None
    return {name: torch.from_numpy(array) for name, array in arrays.items()}
