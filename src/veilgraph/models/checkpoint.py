"""Checkpoints of training: the state of an interrupted fit, in a file that is replaced atomically."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.atomic_files import write_atomically
from veilgraph.errors import FitError, RunError
from veilgraph.graph.array_files import digest_of_arrays, pack_arrays, unpack_arrays
from veilgraph.models.saved_state import check_layout
from veilgraph.progress import say

_TASK_DIGEST = "work"
_CONTENT_DIGEST = "content"
_STEPS = "record.steps"
_REMEDY = "remove it to start again"


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
        return 0 if self.saved_state is None else int(self.saved_state[_STEPS])

    def reader(self) -> Checkpoint:
        """Return a checkpoint with the same state that writes nothing, for another process of the same fit."""
        return replace(self, path=None)

    def write(self, state: Mapping[str, Tensor]) -> None:
        """Replace the file."""
        if self.path is None:
            return
        arrays = {name: tensor.cpu().numpy() for name, tensor in state.items()}
        digests = {_TASK_DIGEST: self.task_digest, _CONTENT_DIGEST: digest_of_arrays(arrays)}
        write_atomically(self.path, pack_arrays(arrays | {name: np.array(each) for name, each in digests.items()}))

    def state_like(self, expected: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the saved state; refuse one of other names, shapes or types.

        Args:
            expected: any state of this fit.
        """
        state = self.saved_state or {}
        try:
            check_layout(state, expected)
        except FitError as error:
            raise RunError(f"the checkpoint of this fit is damaged: {error}; {_REMEDY}") from error
        return state


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
        arrays = unpack_arrays(content)
    except ValueError as error:
        raise RunError(f"{path} is not a readable checkpoint: {error}; {_REMEDY}") from error
    if str(arrays.pop(_TASK_DIGEST, None)) != task_digest:
        say(f"{path} belongs to another fit (other reports, settings or graph): training starts again")
        return None
    _check(path, arrays)
    try:
        return {name: torch.from_numpy(array) for name, array in arrays.items()}
    except TypeError:
        raise RunError(f"{path} is not a readable checkpoint: it holds text or other values; {_REMEDY}") from None


def _check(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Refuse content that is not what was written."""
    if str(arrays.pop(_CONTENT_DIGEST, None)) != digest_of_arrays(arrays):
        raise RunError(f"{path} was changed after it was written, by its digest; {_REMEDY}")
    steps = arrays.get(_STEPS)
    if steps is None or steps.size != 1 or steps.dtype.kind != "i" or steps.item() < 0:
        raise RunError(f"{path} is not a readable checkpoint: it has no number of epochs; {_REMEDY}")
