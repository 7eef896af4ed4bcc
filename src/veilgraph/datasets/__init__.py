"""Data sets for simulations: private records on public graphs."""

from veilgraph.datasets.private_graph import PrivateGraph

__all__ = ["PrivateGraph"]
