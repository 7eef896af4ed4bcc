"""Simulated collections, and experiments on them. Laboratory only: these modules hold true records."""

from veilgraph.experiments.simulation import simulate

__all__ = ["simulate"]
