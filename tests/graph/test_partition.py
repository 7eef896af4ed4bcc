"""Partition: halos are complete, and products of parts are rows of the product of the whole graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.support.partition import Partition
from veilgraph.datasets import csbm
from veilgraph.errors import ReconstructionError
from veilgraph.graph import Graph
from veilgraph.reconstruct.operators import GraphOperators, PartOperators
from veilgraph.reconstruct.sparse import sparse_product

LINKED = 120
# Nodes without edges at the end.
GRAPH = Graph.from_edges(csbm(LINKED, seed=1).graph.edges, LINKED + 10)
PRODUCTS = ["neighbours", "symmetric", "closed_symmetric"]


def exchanged(parts: Partition, rows: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """Do the halo exchange of all parts in this process; return the extended rows of each part."""
    extended_rows = []
    for rank, part in enumerate(parts):
        extended = np.full((part.extended.num_nodes, rows.shape[1]), np.nan, dtype=rows.dtype)
        extended[part.own_rows] = rows[part.global_ids]
        start = np.cumsum([0, *part.send_counts])  # checked against the receivers' counts below
        assert start[-1] == len(part.send_rows)
        arriving = []
        for sender in parts:
            ends = np.cumsum([0, *sender.send_counts])
            arriving.append(rows[sender.global_ids][sender.send_rows[ends[rank] : ends[rank + 1]]])
        assert tuple(len(each) for each in arriving) == part.receive_counts
        extended[part.halo_rows] = np.concatenate(arriving)
        extended_rows.append(extended)
    return extended_rows


@pytest.mark.parametrize("num_parts", [1, 2, 3, 8])
def test_every_node_is_in_one_part_and_every_edge_in_the_extended_parts_of_its_ends(num_parts: int) -> None:
    parts = Partition(GRAPH, num_parts)
    assert sorted(np.concatenate([part.global_ids for part in parts])) == list(range(GRAPH.num_nodes))
    crossing = sum(part.extended.num_edges - part.num_edges for part in parts)
    assert sum(part.num_edges for part in parts) + crossing / 2 == GRAPH.num_edges
    assert all(part.halo_size == sum(part.receive_counts) for part in parts)
    assert all(part.receive_counts[rank] == part.send_counts[rank] == 0 for rank, part in enumerate(parts))


@pytest.mark.parametrize("num_parts", [1, 2, 5])
def test_products_of_parts_are_the_rows_of_the_whole_product_to_the_last_bit(num_parts: int) -> None:
    rows = np.random.default_rng(0).random((GRAPH.num_nodes, 3), dtype=np.float32)
    whole = GraphOperators(GRAPH)
    parts = Partition(GRAPH, num_parts)
    for part, extended in zip(parts, exchanged(parts, rows), strict=True):
        here, extended_rows = PartOperators(part), torch.from_numpy(extended)
        pairs = [(here.mean.matrix, whole.mean.matrix)]
        for name in PRODUCTS:
            product, expected = getattr(here, name), getattr(whole, name)
            pairs += [(product.matrix, expected.matrix), (product.transposed, expected.transposed)]
        for matrix, expected in pairs:
            assert torch.equal(
                sparse_product(matrix, extended_rows), sparse_product(expected, torch.from_numpy(rows))[part.global_ids]
            )


def test_bags_are_those_of_the_whole_graph() -> None:
    expected = GraphOperators(GRAPH).decompositions.clusters(4)
    for part in Partition(GRAPH, 3, clusters={4: expected}):
        np.testing.assert_array_equal(PartOperators(part).decompositions.clusters(4), expected[part.global_ids])


def test_what_needs_the_whole_graph_is_refused() -> None:
    operators = PartOperators(Partition(GRAPH, 2)[0])
    with pytest.raises(ReconstructionError, match="one process"):
        operators.mean.effective_sample_size(torch.ones(operators.graph.num_nodes, dtype=torch.bool), 2)
    with pytest.raises(ReconstructionError, match="one process"):
        _ = operators.edge_index
