"""Private neighbours: classes from labels and answers about neighbour lists, without an edge."""

from veilgraph.models.neighbour_waves.model import NeighbourWaves

__all__ = ["NeighbourWaves"]
