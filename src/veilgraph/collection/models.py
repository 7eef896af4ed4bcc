"""The models of a collection, one folder for each training."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path

PREDICTIONS = "predictions.csv"
"""What a training in the folder of a collection writes last: with it, a model is finished."""


@dataclass(frozen=True)
class Models:
    """The folder of all models of a collection.

    Args:
        folder: the folder; the first training makes it.
    """

    folder: Path

    def new(self, day: date) -> Path:
        """Return the folder of the next model of a day: DATE, DATE-2, ...; of a training that was stopped, its own."""
        number, path = 1, self.folder / f"{day:%Y-%m-%d}"
        while (path / PREDICTIONS).is_file():
            number += 1
            path = self.folder / f"{day:%Y-%m-%d}-{number}"
        return path

    @property
    def newest(self) -> Path | None:
        """Folder of the newest finished model; None if there is none."""
        finished = max(self.folder.glob(f"*/{PREDICTIONS}"), key=lambda path: path.stat().st_mtime, default=None)
        return None if finished is None else finished.parent
