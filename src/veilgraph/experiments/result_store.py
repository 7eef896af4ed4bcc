"""Finished cells on disk: one small file each, named by the hash of what decided it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from veilgraph.atomic_files import write_whole
from veilgraph.errors import RunError


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


_CONFIGURATION = "configuration.json"


class RunFolder:
    """Finished fits are kept as they finish, so a run that was stopped goes on where it was.

    Args:
        path: the folder; made where it is not there.
        configuration: everything that decides the results. A folder of another configuration is refused.
    """

    def __init__(self, path: Path, configuration: dict[str, Any]) -> None:
        self.path = path
        self._configuration = configuration
        stored = path / _CONFIGURATION
        try:
            if stored.exists():
                self._check_same(configuration, json.loads(stored.read_text(encoding="utf-8")))
            elif path.exists() and (not path.is_dir() or any(path.iterdir())):
                raise RunError(f"{path} exists and is not a run's folder: choose another --out")
        except (OSError, ValueError) as error:
            raise RunError(f"{path} cannot be used as a run's folder: {error}; choose another --out") from error

    def claim(self) -> None:
        """Make the folder and write whose it is. Called with the first result, so that a mistake leaves nothing."""
        if not (self.path / _CONFIGURATION).exists():
            self._write(_CONFIGURATION, json.dumps(self._configuration, indent=2))

    def _check_same(self, configuration: dict[str, Any], stored: dict[str, Any]) -> None:
        differing = [key for key in configuration if configuration[key] != stored.get(key)]
        if differing:
            key = differing[0]
            raise RunError(
                f"{self.path} holds another run's result ({key} was {stored.get(key)}, now {configuration[key]}): "
                "choose another --out or delete it"
            )

    def finished_fit(self, method: str, seed: int) -> dict[str, Any] | None:
        """What `keep_fit` stored, or None."""
        path = self._fit_path(method, seed)
        if not path.exists():
            return None
        try:
            fit: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunError(f"{path} cannot be read: {error}; delete it and run again") from error
        return fit

    def keep_fit(self, method: str, seed: int, fit: dict[str, Any]) -> None:
        """Store a finished fit, whole or not at all."""
        self.write(f"fits/{method}-{seed}.json", json.dumps(fit))

    def write(self, name: str, content: str) -> None:
        """Store a file, whole or not at all."""
        self.claim()
        self._write(name, content)

    def _write(self, name: str, content: str) -> None:
        try:
            write_whole(self.path / name, content)
        except OSError as error:
            raise RunError(
                f"{self.path / name} cannot be written: {error.strerror}; free space and run again"
            ) from error

    def _fit_path(self, method: str, seed: int) -> Path:
        return self.path / "fits" / f"{method}-{seed}.json"
