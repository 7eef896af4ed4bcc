"""Catalogue of public graphs: their origins, licences and published statistics, and their files on this machine."""

from __future__ import annotations

import importlib.resources
import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from veilgraph.datasets.archive import Archive, csr_rows
from veilgraph.errors import GraphError, RunError, nearest_names


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """One row of Table 1; shares are percentages.

    Attributes:
        nodes: |V|.
        edges: |E|, undirected, without self loops.
        average_degree: 2 |E| / |V|.
        columns: d, the raw columns.
        sparsity: share of zeros in the raw columns.
        classes: c.
        features: d', the number of reported features; None where the paper omits it because nothing is merged.
        feature_sparsity: share of zeros in the reported features; None where `features` is None.
    """

    nodes: int
    edges: int
    average_degree: float
    columns: int
    sparsity: float
    classes: int
    features: int | None = None
    feature_sparsity: float | None = None


def measure(archive: Archive, *, group: int) -> Statistics:
    """Compute the statistics of an archive, with `group` adjacent columns merged into one feature.

    Without columns there is no entry that is not zero, and the sparsity is 100 %.
    """
    nodes, width = (int(size) for size in archive.arrays["x_shape"])
    edges = archive.arrays["edge_index"].shape[1]
    columns = archive.arrays["x_indices"].astype(np.int64)
    rows = csr_rows(archive.arrays["x_indptr"])
    features = -(-width // group)
    merged = np.unique(rows * features + columns // group)
    return Statistics(
        nodes=nodes,
        edges=edges,
        average_degree=2 * edges / nodes,
        columns=width,
        sparsity=100 * (1 - columns.size / max(nodes * width, 1)),
        classes=int(archive.arrays["y"].max()) + 1,
        features=features,
        feature_sparsity=100 * (1 - merged.size / max(nodes * features, 1)),
    )


def differing(measured: Statistics, published: Statistics) -> tuple[str, ...]:
    """Return the fields that differ from the published ones after rounding to one decimal, as the paper does.

    >>> published = Statistics(nodes=4, edges=3, average_degree=1.5, columns=2, sparsity=49.9, classes=2)
    >>> differing(Statistics(nodes=4, edges=3, average_degree=1.5, columns=2, sparsity=50.0, classes=2), published)
    ('sparsity',)
    """
    ours = asdict(measured)
    return tuple(
        field for field, value in asdict(published).items() if value is not None and round(ours[field], 1) != value
    )


DATA_VARIABLE = "VEILGRAPH_DATA"
"""Environment variable that names a folder of data sets."""


@dataclass(frozen=True, kw_only=True)
class OriginalFile:
    """One original file of a data set.

    Attributes:
        part: role of the file in its format, such as "graph".
        url: address of the file.
        sha256: SHA-256 of its bytes; None where it is not known; then the file is refused unless asked for.
    """

    part: str
    url: str
    sha256: str | None = None


@dataclass(frozen=True, kw_only=True)
class Origin:
    """One public source of a data set: its files and their format."""

    format: str
    files: tuple[OriginalFile, ...]


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """One entry of the catalogue.

    Attributes:
        name: name in commands and in `load`.
        title: description of nodes, edges and labels.
        group: number of adjacent columns that are merged into one feature; 1 keeps all columns.
        nodes: |V| of the converted arrays.
        edges: |E| of the converted arrays.
        columns: d of the converted arrays.
        classes: c of the converted arrays.
        checksum: checksum of the converted arrays; files with another checksum are refused.
        licence: licence of the source.
        citation: publications to cite.
        note: caveats for reading results.
        origins: public sources, the preferred one first.
        published: row of the data set in the paper's Table 1.
        published_accuracy: published mean and standard deviation without privacy, in percent.
        differences: reason for each published number that the arrays do not reproduce.
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
        """Number of reported features, d'."""
        return -(-self.columns // self.group)


@cache
def known_datasets() -> Mapping[str, Dataset]:
    """Return all entries of the catalogue, by name.

    >>> known_datasets()["cora"].features
    58
    """
    resource = importlib.resources.files("veilgraph.datasets").joinpath("catalogue.toml")
    return read_catalogue(resource.read_text(encoding="utf-8"))


def find_dataset(name: str) -> Dataset:
    """Return the entry of a data set.

    >>> find_dataset("atlantis")
    Traceback (most recent call last):
    veilgraph.errors.RunError: there is no public data set 'atlantis': known are citeseer, cora, dblp, facebook, \
flickr, german, lastfm, pubmed, student, twitch_engb
    """
    if name not in (known := known_datasets()):
        raise RunError(
            f"there is no public data set '{name}': known are {', '.join(sorted(known))}{nearest_names(name, known)}"
        )
    return known[name]


def read_catalogue(text: str) -> Mapping[str, Dataset]:
    """Parse the entries of a catalogue in TOML."""
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
    """Parse one origin; addresses are relative to `base` if it is given."""
    base = entry.get("base", "")
    files = (
        OriginalFile(part=part, url=base + file["path"], sha256=file.get("sha256"))
        for part, file in entry["files"].items()
    )
    return Origin(format=entry["format"], files=tuple(files))


# Files on this machine.


def data_folders(data_dir: Path | None = None) -> tuple[Path, ...]:
    """Return the folders to search, in order; fetched data sets are written to the first one."""
    folders = [data_dir] if data_dir is not None else []
    if variable := os.environ.get(DATA_VARIABLE):
        folders.append(Path(variable).expanduser())
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return (*folders, Path(caches) / "veilgraph")


def search_archive(name: str, data_dir: Path | None = None) -> Path | None:
    """Return the file of a data set in the first folder that has it; None if no folder has it."""
    paths = (folder / f"{name}.npz" for folder in data_folders(data_dir))
    return next((path for path in paths if path.is_file()), None)


def find_archive(name: str, data_dir: Path | None = None) -> Path:
    """Return the file of a data set in the first folder that has it, or say how to get it."""
    if (path := search_archive(name, data_dir)) is not None:
        return path
    searched = ", ".join(str(folder) for folder in data_folders(data_dir))
    raise RunError(
        f"{name}.npz is not in {searched}: run 'veilgraph lab data {name} --fetch', "
        f"or set {DATA_VARIABLE} to a folder that has the file"
    )


def open_archive(dataset: Dataset, data_dir: Path | None = None) -> Archive:
    """Read the file of a data set and verify its checksum."""
    path = find_archive(dataset.name, data_dir)
    archive = Archive.read(path)
    if archive.checksum != dataset.checksum:
        raise GraphError(
            f"{path} does not hold the catalogued {dataset.name} (its checksum differs): "
            f"run 'veilgraph lab data {dataset.name} --fetch'"
        )
    return archive
