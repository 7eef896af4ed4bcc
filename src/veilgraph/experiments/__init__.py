"""Laboratory work: simulated collections, comparisons and their reports."""

from veilgraph.experiments.simulate import simulate

__all__ = ["simulate"]
