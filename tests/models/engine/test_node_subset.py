"""Selection and scattering of node values."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from veilgraph.graph import Graph
from veilgraph.graph.partition import Partition
from veilgraph.models.engine.node_subset import ALL_NODES, needed_nodes
from veilgraph.reconstruct.operators import GraphOperators, PartOperators


def operators(nodes: int) -> GraphOperators:
    return GraphOperators(Graph.from_edges([range(nodes - 1), range(1, nodes)], nodes))


@given(st.integers(1, 4), st.integers(2, 12), st.integers(0, 2**32 - 1))
def test_every_needed_value_is_selected_at_its_position(replicas: int, nodes: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    needed = [random.random(nodes) < 0.3 for _ in range(replicas)]
    subset = needed_nodes(needed, operators(nodes))
    values = torch.from_numpy(random.random((replicas, 2, nodes)))
    selected = subset.select(values)
    assert selected.shape == (replicas, 2, subset.size(nodes))
    for mask in needed:
        marked = torch.from_numpy(np.flatnonzero(mask))
        assert torch.equal(selected[..., subset.positions(marked)], values[..., marked])


def test_only_needed_values_are_selected() -> None:
    subset = needed_nodes([np.array([True, False, False]), np.array([False, False, True])], operators(3))
    assert subset.select(torch.tensor([[1, 2, 3], [4, 5, 6]])).tolist() == [[1, 3], [4, 6]]


def test_all_nodes_leave_values_and_positions_unchanged() -> None:
    values, nodes = torch.rand(2, 3, 4), torch.tensor([1, 3])
    assert ALL_NODES.select(values) is values
    assert ALL_NODES.positions(nodes) is nodes
    assert ALL_NODES.size(4) == 4


def test_parts_of_a_graph_and_gpus_need_all_nodes() -> None:
    graph = operators(3).graph
    assert needed_nodes([np.array([True, False, False])], PartOperators(Partition(graph, 1)[0])) is ALL_NODES
    assert needed_nodes([np.array([True, False, False])], GraphOperators(graph, "cuda")) is ALL_NODES
