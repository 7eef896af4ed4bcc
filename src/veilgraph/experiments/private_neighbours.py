"""A simulated collection with private neighbours: labels and features, then waves, each with its published table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from veilgraph.datasets import PrivateGraph
from veilgraph.experiments.simulation import feature_rng, label_rng, randomize_labels, simulated_collection
from veilgraph.graph import Graph, PerturbedGraph, Split, WaveAnswers
from veilgraph.models.neighbour_waves import NeighbourWaves
from veilgraph.privacy.mechanisms import FeatureMechanism, LabelMechanism, NeighbourMechanism

_ANSWERS, _TURNS = 3, 4


def simulate_neighbour_waves(
    private: PrivateGraph,
    split: Split,
    label: LabelMechanism,
    waves: Sequence[NeighbourMechanism],
    *,
    seed: int,
    in_turn: bool = False,
    features: FeatureMechanism | None = None,
) -> tuple[PerturbedGraph, NeighbourWaves]:
    """Simulate labels, features if asked, and all waves; return what the server knows, and the method that it fitted.

    Args:
        private: the true records; its edges are the neighbour lists.
        split: nodes that report a label are its training and validation nodes.
        label: mechanism of the labels.
        waves: mechanism of each wave.
        seed: seed of labels, answers and method.
        in_turn: each person answers one wave, drawn at random, and not all of them.
        features: mechanism of the features, which everybody reports; None if none are asked.
    """
    labels = randomize_labels(private, label, split, rng=label_rng(seed))
    reports = None if features is None else features.randomize(private.features, rng=feature_rng(seed))
    labelled = simulated_collection(private, split, label, labels, features, reports)
    known = ask_neighbours(private, labelled, split, waves, seed=seed, in_turn=in_turn)
    return known, NeighbourWaves(seed=seed).fit(known, split)


def ask_neighbours(
    private: PrivateGraph,
    labelled: PerturbedGraph,
    split: Split,
    waves: Sequence[NeighbourMechanism],
    *,
    seed: int,
    in_turn: bool = False,
) -> PerturbedGraph:
    """Simulate all waves after labels and features; return what the server knows at the end, which has no edge.

    Before each wave the server fits `NeighbourWaves` to all reports so far and publishes its table. Then every device
    adds up the beliefs of its own neighbours and answers. The server has no edge at any time.

    Args:
        private: the true records; its edges are the neighbour lists.
        labelled: the label and feature reports; its graph is not read.
        split: split of the label reports.
        waves: mechanism of each wave.
        seed: seed of answers and method.
        in_turn: each person answers one wave, drawn at random, and not all of them. Everybody spends the budget of one
            wave, and later waves know the answers of earlier ones.
    """
    known = without_edges(labelled)
    turns = np.random.default_rng([seed, _TURNS]).permutation(private.graph.num_nodes) % max(len(waves), 1)
    ends = private.graph.edge_index
    rng = np.random.default_rng([seed, _ANSWERS])
    for number, mechanism in enumerate(waves):
        answering = turns == number if in_turn else np.ones(len(turns), dtype=np.bool_)
        table = NeighbourWaves(seed=seed).fit(known, split).next_table(known)
        answers = mechanism.blank(len(table))
        answers[answering] = mechanism.randomize(table.sums_over(ends[0], ends[1])[answering], rng=rng)
        wave = WaveAnswers(mechanism=mechanism, table=table, answers=answers, has_answer=answering)
        known = replace(known, neighbour_waves=(*known.neighbour_waves, wave))
    return known


def without_edges(labelled: PerturbedGraph) -> PerturbedGraph:
    """Return the same reports of people whose neighbours nobody knows."""
    graph = labelled.graph
    return replace(labelled, graph=Graph.without_edges(graph.num_nodes, node_ids=graph.node_ids))
