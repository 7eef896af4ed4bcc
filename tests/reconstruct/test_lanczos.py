"""The Lanczos method without restarts finds leading eigenvectors, the same bit for bit in any number of parts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.support.thread_communicator import ThreadCommunicator, in_threads
from veilgraph.datasets import csbm
from veilgraph.distributed.communicator import LOCAL
from veilgraph.graph import Graph
from veilgraph.graph.spectrum import leading_eigenvectors
from veilgraph.reconstruct.lanczos import lanczos_eigenvectors
from veilgraph.reconstruct.sparse import RowSums


def regularised(graph: Graph) -> NDArray[np.float64]:
    scale = 1 / np.sqrt(graph.degrees + max(graph.degrees.mean(), 1.0))
    matrix = np.zeros((graph.num_nodes, graph.num_nodes))
    matrix[graph.edges[0], graph.edges[1]] = 1
    return np.asarray((matrix + matrix.T) * np.outer(scale, scale))


def sums_of(graph: Graph) -> RowSums:
    return RowSums(*(torch.from_numpy(each) for each in graph.adjacency))


def found_in(graph: Graph, count: int) -> NDArray[np.float32]:
    degrees = torch.from_numpy(graph.degrees)
    return np.asarray(lanczos_eigenvectors(sums_of(graph), degrees, LOCAL, count).numpy())


@pytest.mark.parametrize("homophily", [0.05, 0.8])
def test_eigenvectors_that_show_classes_are_found(homophily: float) -> None:
    graph = csbm(600, num_classes=4, mean_degree=20, homophily=homophily, seed=0).graph
    found = found_in(graph, 32)
    values, vectors = np.linalg.eigh(regularised(graph))
    leading = vectors[:, np.argsort(-np.abs(values))[:4]]
    np.testing.assert_allclose(np.abs(leading.T @ found[:, :4]), np.eye(4), atol=1e-3)
    np.testing.assert_allclose(found.T @ found, np.eye(32), atol=1e-5)


def test_without_restarts_classes_show_as_well_as_with_them() -> None:
    private = csbm(2000, num_classes=3, homophily=0.7, mean_degree=20, num_features=0, seed=0)
    classes = np.eye(3)[private.labels]
    classes /= np.linalg.norm(classes, axis=0)
    once, restarted = found_in(private.graph, 16), leading_eigenvectors(private.graph, 16)
    # The two eigenvectors that show classes are outside the bulk. A space of 32 steps finds them up to a few percent.
    one, other = (np.linalg.norm(each.T @ classes, axis=0) for each in (once, restarted))
    assert one == pytest.approx(other, abs=0.03)


@pytest.mark.parametrize(
    "graph",
    [
        Graph.from_edges([[0, 1], [1, 2]], num_nodes=4),
        csbm(50, seed=1).graph,
        csbm(90, seed=1).graph,
        Graph.from_edges([[0], [1]], num_nodes=500),
        Graph.from_edges([range(0, 400, 2), range(1, 400, 2)], num_nodes=500),
        Graph.from_edges([[0] * 400, range(1, 401)], num_nodes=500),
    ],
)
def test_a_space_that_is_complete_early_goes_on_from_a_new_direction(graph: Graph) -> None:
    found = found_in(graph, 64).astype(np.float64)
    assert found.shape == (graph.num_nodes, min(64, graph.num_nodes))
    np.testing.assert_allclose(found.T @ found, np.eye(found.shape[1]), atol=1e-5)
    values = np.linalg.eigvalsh(regularised(graph))
    rayleigh = np.diag(found.T @ regularised(graph) @ found)
    assert np.abs(rayleigh).max() == pytest.approx(np.abs(values).max(), rel=1e-3)
    if graph.num_nodes <= 64:
        np.testing.assert_allclose(np.sort(rayleigh), values, atol=1e-3)


@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("added", [True, False])
def test_any_number_of_parts_finds_the_same_numbers(parts: int, added: bool) -> None:
    graph = csbm(20_000, mean_degree=8, homophily=0.6, num_features=0, seed=0).graph
    sums, degrees = sums_of(graph), torch.from_numpy(graph.degrees)
    whole = lanczos_eigenvectors(sums, degrees, LOCAL, 8, regularised=added)
    part_of = torch.from_numpy(np.random.default_rng(0).integers(parts, size=graph.num_nodes))

    def one(communicator: ThreadCommunicator) -> torch.Tensor:
        own = communicator.counted_nodes
        some = sums.select(own)
        return lanczos_eigenvectors(
            lambda column: some(communicator.exchange_halo(column)), degrees[own], communicator, 8, regularised=added
        )

    for rank, found in enumerate(in_threads(part_of, one)):
        assert torch.equal(found, whole[part_of == rank])
