"""Checkpoints of a fit of Veil: the calibrated views so far, in a file for each kind of view and each process."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from veilgraph.atomic_files import write_atomically
from veilgraph.graph.array_files import digest_of_arrays, pack_arrays, unpack_arrays
from veilgraph.models.veil.calibration import Parameters
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.progress import say

CalibratedViews = dict[str, tuple[Parameters, Tensor]]
"""Parameters and log-probabilities [nodes, K + 1 or 1, classes] of the views of one kind, by name."""

_TASK, _CONTENT, _NAMES = "work", "content", "names"


@dataclass(kw_only=True, eq=False)
class ViewCheckpoint:
    """The views of an interrupted fit. It holds log-probabilities of nodes, made without their own report.

    Attributes:
        folder: Folder of the files, which may be of this machine alone.
        task_digest: Digest of the fit and of this process's nodes; views of another fit are not used.
        process: Name of this process, with the number of processes: another number has other files.
        restored: Kinds of views that were read instead of computed.
    """

    folder: Path
    task_digest: str
    process: str
    restored: list[str] = field(default_factory=list)

    def remember(self, labels: CrossFitting, kind: str, compute: Callable[[], CalibratedViews]) -> CalibratedViews:
        """Return the views of a kind: those of the file if all processes have theirs, otherwise computed and kept.

        Args:
            labels: Label reports in folds, with their contamination.
            kind: Kind of the views.
            compute: Computes the views.
        """
        stated = hashlib.sha256(repr((kind, labels.contamination)).encode()).hexdigest()[:16]
        path = self.folder / f"{stated}-{self.process}.npz"
        known = self._read(path)
        if labels.reports.communicator.all_reduce_max(int(known is None)) == 0 and known is not None:
            say(f"Veil: {kind}, from the checkpoint in {self.folder}")
            self.restored.append(kind)
            return {name: (parameters, terms.to(labels.device)) for name, (parameters, terms) in known.items()}
        found = compute()
        self._write(path, found)
        return found

    def remove(self) -> None:
        """Remove the files of this process, and the folder if it is empty then."""
        for path in self.folder.glob(f"*-{self.process}.npz"):
            path.unlink(missing_ok=True)
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _write(self, path: Path, views: CalibratedViews) -> None:
        arrays = {_NAMES: np.array(list(views))}
        for number, (parameters, terms) in enumerate(views.values()):
            arrays |= {f"parameters{number}": np.array(parameters), f"terms{number}": terms.cpu().numpy()}
        digests = {_TASK: np.array(self.task_digest), _CONTENT: np.array(digest_of_arrays(arrays))}
        write_atomically(path, pack_arrays(arrays | digests))

    def _read(self, path: Path) -> CalibratedViews | None:
        """Return the views of a file; None if there is none, or if it is of another fit or damaged."""
        try:
            arrays = unpack_arrays(path.read_bytes())
            task, content = str(arrays.pop(_TASK)), str(arrays.pop(_CONTENT))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError):
            task = content = ""
            arrays = {}
        if task != self.task_digest or content != digest_of_arrays(arrays):
            say(f"{path} is damaged or belongs to another fit: its views are computed again")
            return None
        return {
            str(name): (tuple(arrays[f"parameters{number}"].tolist()), torch.from_numpy(arrays[f"terms{number}"]))
            for number, name in enumerate(arrays[_NAMES])
        }
