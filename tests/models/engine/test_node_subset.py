"""Which nodes' logits are asked for."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from veilgraph.graph import Graph
from veilgraph.graph.partition import Partition
from veilgraph.models.engine.node_subset import EVERYWHERE, asked_by
from veilgraph.reconstruct.operators import GraphOperators, PartOperators


def operators(nodes: int) -> GraphOperators:
    return GraphOperators(Graph.from_edges([range(nodes - 1), range(1, nodes)], nodes))


@given(st.integers(1, 4), st.integers(2, 12), st.integers(0, 2**32 - 1))
def test_every_wanted_value_is_picked_where_its_place_says(replicas: int, nodes: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    wanted = [random.random(nodes) < 0.3 for _ in range(replicas)]
    asked = asked_by(wanted, operators(nodes))
    values = torch.from_numpy(random.random((replicas, 2, nodes)))
    picked = asked.pick(values)
    assert picked.shape == (replicas, 2, asked.count(nodes))
    for mask in wanted:
        marked = torch.from_numpy(np.flatnonzero(mask))
        assert torch.equal(picked[..., asked.places(marked)], values[..., marked])


def test_nothing_else_is_picked() -> None:
    asked = asked_by([np.array([True, False, False]), np.array([False, False, True])], operators(3))
    assert asked.pick(torch.tensor([[1, 2, 3], [4, 5, 6]])).tolist() == [[1, 3], [4, 6]]


def test_everywhere_leaves_values_and_places_alone() -> None:
    values, nodes = torch.rand(2, 3, 4), torch.tensor([1, 3])
    assert EVERYWHERE.pick(values) is values
    assert EVERYWHERE.places(nodes) is nodes
    assert EVERYWHERE.count(4) == 4


def test_parts_of_a_graph_and_gpus_are_asked_for_all() -> None:
    graph = operators(3).graph
    assert asked_by([np.array([True, False, False])], PartOperators(Partition(graph, 1)[0])) is EVERYWHERE
    assert asked_by([np.array([True, False, False])], GraphOperators(graph, "cuda")) is EVERYWHERE
