"""Data sets for simulations: private records on public graphs."""

from veilgraph.datasets.csbm import csbm
from veilgraph.datasets.patients import patients
from veilgraph.datasets.private_graph import PrivateGraph, from_tables
from veilgraph.datasets.registry import EMBEDDED, load, register_dataset
from veilgraph.datasets.voters import voters

__all__ = ["EMBEDDED", "PrivateGraph", "csbm", "from_tables", "load", "patients", "register_dataset", "voters"]
