"""Laboratory work: simulated collections, comparisons and their reports."""

from veilgraph.experiments.simulation import simulate

__all__ = ["simulate"]
