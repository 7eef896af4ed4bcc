"""The public graph, the reports on it, and partitions of it."""

from veilgraph.graph.graph import Adjacency, Graph, PerturbedGraph, Split, read_ids, read_table

__all__ = ["Adjacency", "Graph", "PerturbedGraph", "Split", "read_ids", "read_table"]
