"""Where the cells of an experiment find their data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from veilgraph.datasets import PrivateGraph, load
from veilgraph.experiments.grid import Cell

DataSource: TypeAlias = Callable[[Cell], PrivateGraph]
"""Returns the data of a cell. Cells share reports only if their data are the same object."""


@dataclass(frozen=True)
class DatasetLoader:
    """Data sets of the catalogue by name, each read once in a process. It is a `DataSource`.

    Attributes:
        data_dir: folder to look in first.
        read: reads a data set by name.
    """

    data_dir: Path | None = None
    read: Callable[..., PrivateGraph] = field(default=load, kw_only=True)

    def __call__(self, cell: Cell) -> PrivateGraph:
        """Return the data of a cell."""
        return self.load(cell.dataset, original_columns=cell.original_columns)

    def load(self, dataset: str, *, original_columns: bool = False) -> PrivateGraph:
        """Return a data set by name, with columns merged as in the paper or as they were published."""
        return _read_once(self.read, dataset, self.data_dir, not original_columns)


@lru_cache(maxsize=8)
def _read_once(
    read: Callable[..., PrivateGraph], dataset: str, data_dir: Path | None, merge_columns: bool
) -> PrivateGraph:
    return read(dataset, data_dir=data_dir, merge_columns=merge_columns)


def key_of(cell: Cell, data: DataSource) -> str:
    """Return the key of a cell's result in a store. It depends on the data too."""
    return cell.key(data(cell).fingerprint)


def forget_datasets() -> None:
    """Drop the data sets that this process has read, so that the next use reads them again."""
    _read_once.cache_clear()
