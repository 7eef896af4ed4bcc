"""Data sets for simulations: private records on public graphs."""

from pathlib import Path

from veilgraph.datasets.csbm import csbm
from veilgraph.datasets.patients import patients
from veilgraph.datasets.private_graph import PrivateGraph
from veilgraph.datasets.user_tables import from_tables
from veilgraph.errors import RunError

__all__ = ["EMBEDDED", "PrivateGraph", "csbm", "from_tables", "load", "patients"]

EMBEDDED = {"csbm": csbm, "patients": patients}
"""Data sets that need no file, by name."""


def load(name: str, data_dir: Path | None = None, *, merge_columns: bool = True) -> PrivateGraph:
    """A data set by its name: an embedded one with its default parameters, or a public one from its file.

    Args:
        name: as `veilgraph data list` shows it.
        data_dir: a folder to look in before VEILGRAPH_DATA and the user's cache folder.
        merge_columns: merge adjacent columns of a public data set as the paper does; False keeps all of them.

    >>> load("atlantis")
    Traceback (most recent call last):
    veilgraph.errors.RunError: there is no data set 'atlantis': known are citeseer, cora, csbm, dblp, facebook, \
german, patients, pubmed, student, twitch_engb
    """
    if name in EMBEDDED:
        return EMBEDDED[name]()
    from veilgraph.datasets.catalogue import known_datasets, open_archive

    if name not in (known := known_datasets()):
        raise RunError(f"there is no data set '{name}': known are {', '.join(sorted([*EMBEDDED, *known]))}")
    archive = open_archive(known[name], data_dir)
    return archive.private_graph(group=known[name].group if merge_columns else 1)
