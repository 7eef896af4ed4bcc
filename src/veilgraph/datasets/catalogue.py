"""What is known of each public benchmark graph: where it comes from, how it is used, and what the paper says of it."""

from __future__ import annotations

import importlib.resources
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from veilgraph.datasets.archive import Archive
from veilgraph.datasets.statistics import Statistics
from veilgraph.errors import GraphError, RunError


@dataclass(frozen=True, kw_only=True)
class OriginalFile:
    """One file of a data set's public home.

    Attributes:
        part: what the file is to its format, such as "graph".
        url: where it is.
        sha256: of its bytes, where they could be had; None where only the converted result is checked.
    """

    part: str
    url: str
    sha256: str | None = None


@dataclass(frozen=True, kw_only=True)
class Origin:
    """One public home of a data set: its files and the format that they are in."""

    format: str
    files: tuple[OriginalFile, ...]


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """One entry of the catalogue.

    Attributes:
        name: by which commands and `load` know it.
        title: what its nodes, edges and labels are.
        group: how many adjacent columns are merged into one feature; 1 keeps them.
        nodes: |V| of the converted arrays.
        edges: |E|, likewise.
        columns: d, likewise.
        classes: c, likewise.
        checksum: of the converted arrays; no file is used that has another one.
        licence: under which its home distributes it.
        citation: whom to cite.
        note: what a user should know before reading results.
        origins: public homes, the preferred one first.
        published: its row in the paper's table.
        published_accuracy: mean and standard deviation without privacy, in percent.
        differences: for each published figure that the arrays do not reproduce, the reason.
    """

    name: str
    title: str
    group: int
    nodes: int
    edges: int
    columns: int
    classes: int
    checksum: str
    licence: str
    citation: str
    note: str = ""
    origins: tuple[Origin, ...]
    published: Statistics | None = None
    published_accuracy: tuple[float, float] | None = None
    differences: Mapping[str, str] = field(default_factory=dict)

    @property
    def features(self) -> int:
        """d', the number of reported features."""
        return -(-self.columns // self.group)


@cache
def known_datasets() -> Mapping[str, Dataset]:
    """Every entry of the catalogue, by name.

    >>> known_datasets()["cora"].features
    58
    """
    resource = importlib.resources.files("veilgraph.datasets").joinpath("catalogue.toml")
    return read_catalogue(resource.read_text(encoding="utf-8"))


def find_dataset(name: str) -> Dataset:
    """The entry of that name.

    >>> find_dataset("atlantis")
    Traceback (most recent call last):
    veilgraph.errors.RunError: there is no public data set 'atlantis': known are citeseer, cora, dblp, facebook, \
german, pubmed, student, twitch_engb
    """
    if name not in (known := known_datasets()):
        raise RunError(f"there is no public data set '{name}': known are {', '.join(sorted(known))}")
    return known[name]


def read_catalogue(text: str) -> Mapping[str, Dataset]:
    """Entries from TOML."""
    entries = tomllib.loads(text)
    return MappingProxyType({name: _dataset(name, entry) for name, entry in entries.items()})


def _dataset(name: str, entry: dict[str, Any]) -> Dataset:
    accuracy = entry.pop("published_accuracy", None)
    published = entry.pop("published", None)
    return Dataset(
        name=name,
        origins=tuple(_origin(origin) for origin in entry.pop("origins")),
        published=None if published is None else Statistics(**published),
        published_accuracy=None if accuracy is None else (accuracy[0], accuracy[1]),
        **entry,
    )


def _origin(entry: dict[str, Any]) -> Origin:
    """Addresses are written relative to `base`, where there is one."""
    base = entry.get("base", "")
    files = (
        OriginalFile(part=part, url=base + file["path"], sha256=file.get("sha256"))
        for part, file in entry["files"].items()
    )
    return Origin(format=entry["format"], files=tuple(files))


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
