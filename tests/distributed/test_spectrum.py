"""The Lanczos method on rows finds the leading eigenvectors of the whole matrix."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.distributed.test_label_propagation import halo_of
from veilgraph.datasets import csbm
from veilgraph.distributed.graph_rows import whole_rows
from veilgraph.distributed.spectrum import leading_row_eigenvectors
from veilgraph.graph import Graph


def regularised(graph: Graph) -> NDArray[np.float64]:
    scale = 1 / np.sqrt(graph.degrees + max(graph.degrees.mean(), 1.0))
    matrix = np.zeros((graph.num_nodes, graph.num_nodes))
    matrix[graph.edges[0], graph.edges[1]] = 1
    return np.asarray((matrix + matrix.T) * np.outer(scale, scale))


def test_eigenvectors_that_show_classes_are_found() -> None:
    graph = csbm(600, num_classes=4, mean_degree=20, homophily=0.8, seed=0).graph
    found = leading_row_eigenvectors(whole_rows(graph), halo_of(graph), 16)
    values, vectors = np.linalg.eigh(regularised(graph))
    leading = vectors[:, np.argsort(-np.abs(values))[:4]]
    np.testing.assert_allclose(np.abs(leading.T @ found[:, :4]), np.eye(4), atol=1e-3)
    np.testing.assert_allclose(found.T @ found, np.eye(16), atol=1e-4)


@pytest.mark.parametrize("graph", [Graph.from_edges([[0, 1], [1, 2]], num_nodes=4), csbm(50, seed=1).graph])
def test_a_space_that_is_complete_early_goes_on_from_a_new_direction(graph: Graph) -> None:
    found = leading_row_eigenvectors(whole_rows(graph), halo_of(graph), 64)
    assert found.shape == (graph.num_nodes, graph.num_nodes)
    values = np.linalg.eigvalsh(regularised(graph))
    rayleigh = np.diag(found.T @ regularised(graph) @ found)
    np.testing.assert_allclose(np.sort(rayleigh), values, atol=1e-3)
