"""Finished cells on disk: one small file each, named by the hash of what decided it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from veilgraph.errors import RunError
from veilgraph.files import write_whole


class CellStore:
    """Results that are never computed twice and never lost: a file appears whole when its cell is finished.

    Args:
        folder: where the files are.
    """

    def __init__(self, folder: Path) -> None:
        self._cells = folder / "cells"

    def get(self, key: str) -> dict[str, Any] | None:
        """The result of a finished cell, or None."""
        path = self._path(key)
        try:
            result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise RunError(f"{path} cannot be read ({type(error).__name__}): delete it and run again") from error
        return result

    def put(self, key: str, result: dict[str, Any]) -> None:
        """Keep a result."""
        try:
            write_whole(self._path(key), json.dumps(result))
        except OSError as error:
            raise RunError(
                f"{self._path(key)} cannot be written: {error.strerror}; free space and run again"
            ) from error

    def has(self, key: str) -> bool:
        """Whether a cell is finished."""
        return self._path(key).exists()

    def _path(self, key: str) -> Path:
        return self._cells / key[:2] / f"{key}.json"
