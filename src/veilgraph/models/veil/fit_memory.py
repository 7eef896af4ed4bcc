"""The memory of a fit of Veil, and the fastest plan within a limit."""

from __future__ import annotations

import torch

from veilgraph.errors import FitError
from veilgraph.graph import PerturbedGraph
from veilgraph.graph.relations import relations
from veilgraph.models.naive_bayes import num_sparse_answers
from veilgraph.models.veil.attribute_views import HOPS, SIZES
from veilgraph.models.veil.cross_fitting import any_features, max_folds
from veilgraph.models.veil.fit_plan import FitPlan
from veilgraph.reconstruct.operators import operators_of

_VIEWS = 17
"""Number of views without public attributes, each of which leaves one array of log-probabilities."""

_VIEWS_OF_RELATION = 2
"""Number of views of each relation of the graph."""

_COLUMNS = 176
"""Columns [nodes] of the widest other view: sums of 16 random signs for eight ranges of PageRank, and signs at work.

The space in which eigenvectors of a large graph are searched has 128.
"""

_EIGENVECTORS, _REPORT_COLUMNS, _MAX_REPORTS = 128, 256, 2**21
"""Columns [nodes] of eigenvectors and their means, and columns of the reports to which spectral views are fitted."""

_ATTRIBUTE_COLUMNS = 720
"""Columns [nodes] of the components of public attributes at work: bases of a subspace, scores and shrunk scores."""

_NODE_ARRAYS = 10
"""Arrays [nodes, sets, classes] of one view at work: evidence, beliefs, sums of messages and temporary ones."""

_EDGE_ARRAYS = 3
"""Numbers for each edge beside messages: its strength, and its place among the messages that arrive at both ends."""

_ANSWER_ARRAYS = 16
"""Arrays with an entry for each answer in a feature report, while their sparse matrix is built."""


def plan_within(memory: int, perturbed: PerturbedGraph, *, threads: int) -> FitPlan:
    """Return the fastest plan within a memory limit in bytes; raise FitError if there is none.

    Processes that share the graph take one view after another, so that they exchange in the same order. They agree on
    a plan for the largest part and the least memory.

    Args:
        memory: Limit in bytes of each process, beside the graph itself.
        perturbed: The graph and its reports.
        threads: Number of threads.
    """
    own_only, sets = not any_features(perturbed), num_sets(perturbed)
    communicator = operators_of(perturbed.graph, torch.device("cpu")).communicator
    memory = -communicator.all_reduce_max(-memory)
    if communicator.is_local and bytes_needed(perturbed, views_at_once=threads) <= memory:
        return FitPlan(own_only=own_only)
    for at_once in range(sets, 0, -1):
        if bytes_needed(perturbed, sets_at_once=at_once) <= memory:
            return FitPlan(own_only=own_only, sets_at_once=at_once, views_at_once=1)
    least = bytes_needed(perturbed, sets_at_once=1)
    raise FitError(
        f"one fit needs about {least / 2**20:.1f} MiB and {memory / 2**20:.1f} MiB are allowed: allow more memory, "
        "or choose another method"
    )


def bytes_needed(perturbed: PerturbedGraph, *, sets_at_once: int | None = None, views_at_once: int = 1) -> int:
    """Estimate the memory of one fit beside the graph: views at work, log-probabilities of all views, and answers.

    Args:
        perturbed: The graph and its reports.
        sets_at_once: Number of training sets that are computed at once; default: all.
        views_at_once: Number of kinds of views that are computed at once.
    """
    sets, operators = num_sets(perturbed), operators_of(perturbed.graph, torch.device("cpu"))
    communicator, classes = operators.communicator, perturbed.schema.num_classes
    nodes = communicator.max_extended_rows(perturbed.graph.num_nodes)
    edges = communicator.all_reduce_max(operators.message_graph.num_edges)
    reports = communicator.all_reduce_max(int(perturbed.has_label.sum()))
    public, related = perturbed.public is not None, relations(perturbed.graph)
    views = _VIEWS + public * len(HOPS) * len(SIZES) + _VIEWS_OF_RELATION * len(related)
    edges = max([edges, *(graph.num_edges for graph in related.values())])
    kept = views * nodes * classes * (sets if any_features(perturbed) else 1)
    columns = classes * (sets_at_once or sets)
    messages = columns * (2 * edges + _NODE_ARRAYS * nodes) + _EDGE_ARRAYS * edges
    spectral = _EIGENVECTORS * nodes + _REPORT_COLUMNS * min(reports, _MAX_REPORTS)
    others = max(_COLUMNS * nodes + 2 * edges, spectral, public * _ATTRIBUTE_COLUMNS * nodes)
    # Log-probabilities exist twice while the views are joined, and a part of them while views are at work.
    working = max(views_at_once * max(messages, others) + kept // 2, 2 * kept)
    return 4 * (working + _ANSWER_ARRAYS * communicator.all_reduce_max(num_sparse_answers(perturbed)))


def num_sets(perturbed: PerturbedGraph) -> int:
    """Return the number of training sets on a graph with enough label reports, K + 1."""
    return max_folds(perturbed) + 1
