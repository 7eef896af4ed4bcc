"""The public graph, the reports collected on it, its clusterings and its partition over processes."""

from veilgraph.graph.graph import Adjacency, Graph
from veilgraph.graph.io import read_ids, read_table
from veilgraph.graph.perturbed_graph import PerturbedGraph
from veilgraph.graph.public_attributes import PublicAttributes, read_public
from veilgraph.graph.split import Split
from veilgraph.graph.wave_answers import WaveAnswers

__all__ = [
    "Adjacency",
    "Graph",
    "PerturbedGraph",
    "PublicAttributes",
    "Split",
    "WaveAnswers",
    "read_ids",
    "read_public",
    "read_table",
]
