"""Data sets for simulations: private records on public graphs."""

from collections.abc import Mapping
from pathlib import Path

from veilgraph.datasets import catalogue
from veilgraph.datasets.archive import Archive
from veilgraph.datasets.catalogue import Dataset
from veilgraph.datasets.csbm import csbm
from veilgraph.datasets.patients import patients
from veilgraph.datasets.private_graph import PrivateGraph, from_tables
from veilgraph.datasets.voters import voters
from veilgraph.errors import RunError

__all__ = ["EMBEDDED", "PrivateGraph", "csbm", "from_tables", "load", "patients", "voters"]

EMBEDDED = {"csbm": csbm, "patients": patients, "voters": voters}
"""Functions that make the data sets without a file, by name."""


def load(
    name: str,
    data_dir: Path | None = None,
    *,
    merge_columns: bool = True,
    public: Mapping[str, Dataset] | None = None,
) -> PrivateGraph:
    """Load an embedded data set with its default parameters, or another one from its file.

    A name that the catalogue lacks is that of a file of your own, NAME.npz, in the same folders and format. Nothing but
    its form is checked: it has no published checksum.

    Args:
        name: name of the data set, as `veilgraph data list` shows it, or of your own file.
        data_dir: folder to search before VEILGRAPH_DATA and the user's cache folder.
        merge_columns: whether to merge adjacent columns of a public data set as the paper does.
        public: public data sets by name. Default: the catalogue of this package.

    >>> load("atlantis")
    Traceback (most recent call last):
    veilgraph.errors.RunError: there is no data set 'atlantis': known are citeseer, cora, csbm, dblp, facebook, \
flickr, german, lastfm, patients, pubmed, student, twitch_engb, voters; or put atlantis.npz into the folder of \
--data-dir
    """
    if name in EMBEDDED:
        return EMBEDDED[name]()
    known = catalogue.known_datasets() if public is None else public
    if name not in known:
        if (path := catalogue.search_archive(name, data_dir)) is not None:
            return Archive.read(path).private_graph(group=1)
        raise RunError(
            f"there is no data set '{name}': known are {', '.join(sorted([*EMBEDDED, *known]))}; "
            f"or put {name}.npz into the folder of --data-dir"
        )
    archive = catalogue.open_archive(known[name], data_dir)
    return archive.private_graph(group=known[name].group if merge_columns else 1)
