"""Where converted data sets are kept: --data-dir, then VEILGRAPH_DATA, then the user's cache folder."""

from __future__ import annotations

import os
from pathlib import Path

from veilgraph.datasets.archive import Archive
from veilgraph.datasets.catalogue import Dataset
from veilgraph.errors import GraphError, RunError

VARIABLE = "VEILGRAPH_DATA"
"""Environment variable that names a folder of data sets."""


def data_folders(data_dir: Path | None = None) -> tuple[Path, ...]:
    """The folders that are looked in, in order. The first is the one that a fetched data set is written to."""
    named = [data_dir] if data_dir is not None else []
    if variable := os.environ.get(VARIABLE):
        named.append(Path(variable).expanduser())
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return (*named, Path(caches) / "veilgraph")


def find_archive(name: str, data_dir: Path | None = None) -> Path:
    """The file of a data set in the first folder that has it."""
    folders = data_folders(data_dir)
    for folder in folders:
        if (path := folder / f"{name}.npz").is_file():
            return path
    looked = ", ".join(str(folder) for folder in folders)
    raise RunError(
        f"{name}.npz is not in {looked}: run 'veilgraph data fetch {name}', "
        f"or set {VARIABLE} to a folder that has the file"
    )


def open_archive(dataset: Dataset, data_dir: Path | None = None) -> Archive:
    """The arrays of a data set, after their checksum."""
    path = find_archive(dataset.name, data_dir)
    archive = Archive.read(path)
    if archive.checksum != dataset.checksum:
        raise GraphError(
            f"{path} does not hold the catalogued {dataset.name} (its checksum differs): "
            f"run 'veilgraph data fetch {dataset.name} --force'"
        )
    return archive
