"""The adjacency as tensors is that of the graph, in the same order."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from veilgraph.graph import Graph
from veilgraph.reconstruct import adjacency
from veilgraph.reconstruct.adjacency import AdjacencyRows, arriving_edges

SETTINGS = settings(deadline=None, max_examples=25)


def random_graph(seed: int, nodes: int = 12) -> Graph:
    rng = np.random.default_rng(seed)
    return Graph.from_edges(np.array([[0, *rng.integers(nodes, size=20)], [1, *rng.integers(nodes, size=20)]]), nodes)


def rows_of(graph: Graph, dtype: torch.dtype = torch.int64) -> AdjacencyRows:
    edges = torch.from_numpy(graph.edges).to(dtype)
    return AdjacencyRows.of_arriving(edges, arriving_edges(edges, graph.num_nodes))


@SETTINGS
@given(st.integers(0, 10_000), st.sampled_from([torch.int32, torch.int64]))
def test_neighbours_are_those_of_the_graph(seed: int, dtype: torch.dtype) -> None:
    graph = random_graph(seed)
    starts, neighbours, _ = rows_of(graph, dtype)
    assert starts.tolist() == graph.adjacency.starts.tolist()
    assert neighbours.tolist() == graph.adjacency.neighbours.tolist()


@SETTINGS
@given(st.integers(0, 10_000))
def test_a_stable_sort_by_target_gives_the_order_of_a_gpu(seed: int) -> None:
    graph = random_graph(seed)
    targets = torch.from_numpy(graph.edges[1])
    leaving = torch.tensor([0, *np.cumsum(np.bincount(graph.edges[0], minlength=graph.num_nodes))])
    on_cpu = adjacency._order_by_target(targets, leaving, torch.int64)
    assert on_cpu.tolist() == torch.sort(targets, stable=True).indices.tolist()


@SETTINGS
@given(st.integers(0, 10_000))
def test_self_loops_keep_lists_sorted(seed: int) -> None:
    graph = random_graph(seed)
    closed = rows_of(graph).with_self_loops()
    expected = rows_of(graph).scaled().to_dense() + torch.eye(graph.num_nodes)
    assert torch.equal(closed.scaled().to_dense(), expected)
    lists = torch.tensor_split(closed.neighbours, closed.starts[1:-1].tolist())
    assert all(bool((each.diff() > 0).all()) for each in lists)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, scale = random_graph(3), torch.rand(12)
    whole = rows_of(graph).with_self_loops().scaled(rows=scale, columns=scale)
    monkeypatch.setattr(adjacency, "BLOCK_ENTRIES", 3)
    in_blocks = rows_of(graph).with_self_loops().scaled(rows=scale, columns=scale)
    assert torch.equal(whole.to_dense(), in_blocks.to_dense())
