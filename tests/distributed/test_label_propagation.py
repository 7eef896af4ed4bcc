"""Label propagation cuts about as few edges as METIS, and no part is heavier than allowed."""

from __future__ import annotations

import numpy as np
import pytest

from veilgraph.datasets import csbm
from veilgraph.distributed.exchange import Exchange
from veilgraph.distributed.graph_rows import Halo, whole_rows
from veilgraph.distributed.label_propagation import SLACK, measure_cut, partition_rows
from veilgraph.errors import ReconstructionError
from veilgraph.graph import Graph
from veilgraph.graph.clustering import cluster

NOBODY = np.empty(0, dtype=np.int64)


def halo_of(graph: Graph) -> Halo:
    return Halo.of(Exchange(rank=0, world_size=1), np.arange(graph.num_nodes), NOBODY, NOBODY)


@pytest.mark.parametrize("parts", [2, 4, 16])
def test_parts_are_balanced_and_cut_little_more_than_those_of_metis(parts: int) -> None:
    graph = csbm(2000, mean_degree=12, seed=0).graph
    rows, halo = whole_rows(graph), halo_of(graph)
    found = measure_cut(rows, halo, partition_rows(rows, halo, parts), parts)
    metis = measure_cut(rows, halo, cluster(graph, parts), parts)
    random = measure_cut(rows, halo, np.random.default_rng(0).integers(parts, size=2000), parts)
    assert found.cut < 1.2 * metis.cut < random.cut
    # Moves are accepted at random up to the room that is left: a part of 2000 / 16 nodes may exceed it by a few.
    assert found.balance < SLACK + 3 / np.sqrt(2000 / parts)


def test_pieces_that_no_region_reaches_are_spread_over_the_parts() -> None:
    graph = Graph.from_edges([[2 * i for i in range(500)], [2 * i + 1 for i in range(500)]], num_nodes=1100)
    rows, halo = whole_rows(graph), halo_of(graph)
    found = measure_cut(rows, halo, partition_rows(rows, halo, 4), 4)
    assert found.balance < SLACK + 3 / np.sqrt(1100 / 4)


def test_more_parts_than_nodes_are_refused() -> None:
    graph = Graph.from_edges([[0], [1]], num_nodes=2)
    with pytest.raises(ReconstructionError, match="2 nodes in 3 parts"):
        partition_rows(whole_rows(graph), halo_of(graph), 3)
