"""Results of finished cells on disk: one small file for each cell, named by the hash of everything that decides it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from veilgraph.atomic_files import write_atomically
from veilgraph.errors import RunError
from veilgraph.experiments.cells import DataSource, key_of
from veilgraph.experiments.grid import Cell, Experiment


class ResultStore:
    """Results of cells by key. A file appears whole when its cell is finished, so no result is computed twice.

    Args:
        folder: the files are in its subfolder `cells`.
    """

    def __init__(self, folder: Path) -> None:
        self._cells = folder / "cells"

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the result of a cell, or None if it is not finished."""
        path = self._path(key)
        try:
            result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise RunError(f"{path} cannot be read ({type(error).__name__}): delete it and run again") from error
        return result

    def put(self, key: str, result: dict[str, Any]) -> None:
        """Store the result of a cell."""
        write_result(self._path(key), json.dumps(result))

    def has(self, key: str) -> bool:
        """Return whether a cell is finished."""
        return self._path(key).exists()

    def finished(self, experiment: Experiment, data: DataSource) -> Iterator[tuple[Cell, dict[str, Any]]]:
        """Yield each finished cell of an experiment with its result, in the order of the experiment."""
        for cell in experiment.cells:
            result = self.get(key_of(cell, data))
            if result is not None:
                yield cell, result

    def _path(self, key: str) -> Path:
        return self._cells / key[:2] / f"{key}.json"


def write_result(path: Path, content: str) -> None:
    """Write a file whole or not at all; raise RunError with the remedy if it cannot be written."""
    try:
        write_atomically(path, content)
    except OSError as error:
        raise RunError(f"{path} cannot be written: {error.strerror}; free space and run again") from error
