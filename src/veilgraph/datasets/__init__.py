"""Data sets for simulations: private records on public graphs."""

from veilgraph.datasets.csbm import csbm
from veilgraph.datasets.patients import patients
from veilgraph.datasets.private_graph import PrivateGraph
from veilgraph.datasets.tables import from_tables
from veilgraph.errors import RunError

__all__ = ["PrivateGraph", "csbm", "from_tables", "load", "patients"]

_EMBEDDED = {"csbm": csbm, "patients": patients}


def load(name: str) -> PrivateGraph:
    """An embedded data set by its name, with its default parameters.

    >>> load("atlantis")
    Traceback (most recent call last):
    veilgraph.errors.RunError: there is no data set 'atlantis': known are csbm, patients
    """
    if name not in _EMBEDDED:
        raise RunError(f"there is no data set '{name}': known are {', '.join(sorted(_EMBEDDED))}")
    return _EMBEDDED[name]()
