"""The registry of data sets: everything that a command, an experiment or `load` can name.

A data set has a name (embedded, registered, of the catalogue, or of a file NAME.npz in a data folder) or is a path: of
an archive, such as `./mine.npz`, or of a folder of tables, such as `./mine`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar, overload

import veilgraph.datasets.catalogue as catalogue
from veilgraph.datasets.archive import Archive
from veilgraph.datasets.catalogue import Dataset
from veilgraph.datasets.csbm import csbm
from veilgraph.datasets.patients import patients
from veilgraph.datasets.private_graph import PrivateGraph
from veilgraph.datasets.table_folder import TableFolder
from veilgraph.datasets.voters import voters
from veilgraph.errors import RunError, nearest_names

Source: TypeAlias = Callable[[], PrivateGraph]
"""Reads or makes the records of a data set."""

SourceT = TypeVar("SourceT", bound=Source)

EMBEDDED: Mapping[str, Source] = {"csbm": csbm, "patients": patients, "voters": voters}
"""Functions that make the data sets without a file, by name."""

REGISTERED: dict[str, Source] = {}
"""Data sets that `register_dataset` added in this process, by name."""

_ARCHIVE = ".npz"


@overload
def register_dataset(name: str) -> Callable[[SourceT], SourceT]: ...


@overload
def register_dataset(name: str, source: PrivateGraph) -> None: ...


def register_dataset(name: str, source: PrivateGraph | None = None) -> Callable[[SourceT], SourceT] | None:
    """Add a data set of your own: every command, experiment and table of this process can then name it.

    Without a source it is a decorator, for a function without arguments that returns the records when they are needed.
    A cell that is run again after an edit registers the name again; a name of this package is refused.

    Args:
        name: name in commands and experiments.
        source: the records.

    >>> @register_dataset("small_world")
    ... def small_world() -> PrivateGraph:
    ...     return csbm(300, seed=1)
    >>> load("small_world").graph.num_nodes, REGISTERED.pop("small_world") is small_world
    (300, True)
    """
    if is_path(name):
        raise RunError(f"'{name}' is a path: give the data set a name without '/' that does not end with {_ARCHIVE}")
    if name in EMBEDDED or name in catalogue.known_datasets():
        raise RunError(f"'{name}' is a data set of this package: give yours another name")
    if source is not None:
        REGISTERED[name] = lambda: source
        return None

    def register(function: SourceT) -> SourceT:
        REGISTERED[name] = function
        return function

    return register


def is_path(name: str) -> bool:
    """Return whether a data set is given by its path and not by its name.

    >>> [is_path(name) for name in ("cora", "./cora", "cora.npz")]
    [False, True, True]
    """
    return "/" in name or "\\" in name or name.endswith(_ARCHIVE)


def short_name(name: str) -> str:
    """Return the name of a data set in tables: its own, or the name of its file or folder.

    >>> short_name("cora"), short_name("data/mine.npz"), short_name("./tables")
    ('cora', 'mine', 'tables')
    """
    return Path(name).name.removesuffix(_ARCHIVE) if is_path(name) else name


def find_dataset_source(
    name: str,
    data_dir: Path | None = None,
    *,
    merge_columns: bool = True,
    public: Mapping[str, Dataset] | None = None,
) -> Source:
    """Return a function that reads a data set; refuse an unknown one with the nearest names.

    The arguments are as in `load`.
    """
    if is_path(name):
        return _source_of_path(name, Path(name).expanduser())
    known = catalogue.known_datasets() if public is None else public
    if name in EMBEDDED:
        return EMBEDDED[name]
    if name in REGISTERED:
        made = REGISTERED[name]
        return lambda: replace(made(), name=name)
    if name in known:
        group = known[name].group if merge_columns else 1
        return lambda: catalogue.open_archive(known[name], data_dir).private_graph(group=group)
    if (path := catalogue.search_archive(name, data_dir)) is not None:
        return partial(_read_archive, path)
    names = sorted([*EMBEDDED, *REGISTERED, *known])
    own = f"write ./{name} for the folder here" if Path(name).is_dir() else f"write the path of a file, ./{name}.npz"
    raise RunError(
        f"there is no data set '{name}': known are {', '.join(names)}; or put {name}.npz into the folder "
        f"that VEILGRAPH_DATA names; or {own}{nearest_names(name, names)}"
    )


def load(
    name: str | Path,
    data_dir: Path | None = None,
    *,
    merge_columns: bool = True,
    public: Mapping[str, Dataset] | None = None,
) -> PrivateGraph:
    """Load a data set by its name or path; an embedded one has its default parameters.

    A file that the catalogue lacks is one of your own. Nothing but its form is checked: it has no published checksum.

    Args:
        name: a name that `veilgraph lab data` lists or that was registered, the stem of a file NAME.npz in a data
            folder, or a path: of an archive, or of a folder with `nodes`, `edges` (.csv or .parquet) and
            `schema.toml`.
        data_dir: folder to search for names before VEILGRAPH_DATA and the user's cache folder.
        merge_columns: whether to merge adjacent columns of a public data set as the paper does.
        public: public data sets by name. Default: the catalogue of this package.

    >>> load("voter")
    Traceback (most recent call last):
    veilgraph.errors.RunError: there is no data set 'voter': known are citeseer, cora, csbm, dblp, facebook, \
flickr, german, lastfm, patients, pubmed, student, twitch_engb, voters; or put voter.npz into the folder \
that VEILGRAPH_DATA names; or write the path of a file, ./voter.npz; did you mean voters?
    """
    given = str(name) if isinstance(name, str) or is_path(str(name)) else f"./{name}"
    return find_dataset_source(given, data_dir, merge_columns=merge_columns, public=public)()


def _read_archive(path: Path) -> PrivateGraph:
    return Archive.read(path).private_graph(group=1)


def _source_of_path(given: str, path: Path) -> Source:
    if path.is_dir():
        return TableFolder.find(path).read
    if not path.is_file():
        raise RunError(f"there is no file or folder '{given}': give an archive, such as ./mine.npz, or a folder")
    if path.suffix != _ARCHIVE:
        raise RunError(f"'{given}' is neither an archive ({_ARCHIVE}) nor a folder with nodes, edges and schema.toml")
    return partial(_read_archive, path)
