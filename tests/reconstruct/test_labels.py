"""Algorithm 2: masked propagation equal to the paper's loops, with the cases that the paper leaves open."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from benchmarks.reference import literal
from veilgraph.errors import ReconstructionError
from veilgraph.graph import Graph, PerturbedGraph
from veilgraph.privacy.frequency import estimate_frequencies
from veilgraph.privacy.mechanisms import GRR, GRRFS, SubsetSelection
from veilgraph.privacy.schema import FeatureSchema
from veilgraph.reconstruct import NeighbourhoodMean, reconstruct_labels
from veilgraph.reconstruct.labels import decode_label_draws, named_classes, project_to_simplex

CLASSES = 3


def labelled_graph(graph: Graph, labels: np.ndarray, labelled: np.ndarray, *, epsilon: float = 1.0) -> PerturbedGraph:
    nodes = graph.num_nodes
    return PerturbedGraph(
        graph=graph,
        schema=FeatureSchema.binary(1, classes=[f"c{k}" for k in range(CLASSES)]),
        features=np.zeros((nodes, 1), dtype=np.uint8),
        labels=labels,
        has_features=np.zeros(nodes, dtype=np.bool_),
        has_label=labelled,
        feature_mechanism=GRRFS((2,), sampled=1, epsilon=1.0),
        label_mechanism=GRR(CLASSES, epsilon),
    )


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.integers(0, 4), st.floats(0.1, 5))
def test_equal_to_algorithm_2_as_printed(seed: int, hops: int, epsilon: float) -> None:
    rng = np.random.default_rng(seed)
    graph = Graph.from_edges(np.concatenate([rng.integers(0, 14, (2, 20)), [[0], [1]]], axis=1), 14)
    labels, labelled = rng.integers(0, CLASSES, 14), rng.random(14) < 0.5
    labelled[0] = True
    hop, known = literal.node_hop(graph), torch.from_numpy(labelled).to(torch.float64).unsqueeze(1)
    observed = literal.propagate(torch.eye(CLASSES, dtype=torch.float64)[torch.from_numpy(labels)] * known, hop, hops)
    literal_estimate = observed.numpy() @ np.linalg.inv(literal.transitions(CLASSES, epsilon).double().numpy()).T
    for_labelled = literal.label_frequencies(hop, labels, labelled, CLASSES, epsilon, hops).numpy()
    found = reconstruct_labels(
        labelled_graph(graph, labels, labelled, epsilon=epsilon), hops, mean=NeighbourhoodMean.of(graph)
    )
    # Algorithm 2 leaves lambda' unnormalised; P^-1 is linear, so ours is its estimate divided by the labelled mass.
    weights = literal.propagate(known, hop, hops).numpy()
    reached = weights[:, 0] > 0
    assert (found.in_reach.numpy() == reached).all()
    scale = 1 / float(GRR(CLASSES, epsilon).channel.gain)
    ours, printed = found.distribution.numpy()[reached], (literal_estimate / weights.clip(1e-30))[reached]
    assert np.allclose(ours, printed, atol=2e-5 * scale)
    assert np.allclose(for_labelled[labelled], literal_estimate[labelled], atol=2e-5 * scale)


def test_each_of_256_classes_is_named_as_it_was_reported_and_none_by_who_reported_nothing() -> None:
    reported, schema = np.arange(256) != 7, FeatureSchema.binary(1, classes=[f"c{k}" for k in range(256)])
    few = labelled_graph(Graph.from_edges([[0], [1]], num_nodes=256), np.zeros(256, dtype=np.int64), reported)
    many = replace(few, schema=schema, label_mechanism=GRR(256, 1.0), labels=np.arange(256))
    assert torch.equal(named_classes(many), torch.eye(256) * torch.from_numpy(reported).unsqueeze(1))


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000))
def test_decoding_is_a_plain_majority_vote(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = Graph.from_edges(np.concatenate([rng.integers(0, 14, (2, 30)), [[0], [1]]], axis=1), 14)
    perturbed = labelled_graph(graph, rng.integers(0, CLASSES, 14), np.ones(14, dtype=np.bool_))
    mean = NeighbourhoodMean.of(graph)
    votes = reconstruct_labels(perturbed, 2, mean=mean, estimate=False).distribution
    ordered = votes.sort(dim=1, descending=True).values
    clear = ordered[:, 0] - ordered[:, 1] > 1e-5
    assert (reconstruct_labels(perturbed, 2, mean=mean).distribution.argmax(1) == votes.argmax(1))[clear].all()


def test_label_sets_estimate_the_same_distribution_without_bias() -> None:
    graph = Graph.from_edges([[0] * 40, range(1, 41)], num_nodes=41)
    truths = np.repeat([0, 1, 2], [20, 12, 9])
    mechanism, rng, draws = SubsetSelection(CLASSES, 1.0, 2), np.random.default_rng(0), 400
    everyone = np.ones(41, dtype=np.bool_)
    single = labelled_graph(graph, truths, everyone)
    reports = [
        replace(single, labels=mechanism.randomize(truths, rng=rng), label_mechanism=mechanism) for _ in range(draws)
    ]
    mean = NeighbourhoodMean.of(graph)
    found = [reconstruct_labels(each, 1, mean=mean) for each in reports]
    centre = torch.stack([each.distribution[0] for each in found])
    assert torch.allclose(centre.sum(1), torch.ones(draws), atol=1e-4)
    expected = np.bincount(truths, minlength=CLASSES) / 41
    # The standard errors are those of people drawn from a population: an upper bound for fixed people.
    allowed = 5 * float(found[0].standard_errors[0].max()) / draws**0.5
    assert centre.mean(0).numpy() == pytest.approx(expected, abs=allowed)
    observed = reconstruct_labels(reports[0], 1, mean=mean, estimate=False)
    assert float(observed.distribution[0].sum()) == pytest.approx(1, abs=1e-6)
    assert torch.equal(observed.distribution.argmax(1), found[0].distribution.argmax(1))
    assert torch.equal(decode_label_draws(reports[:3], 1, mean=mean)[0], found[0].distribution.argmax(1))


def test_distributions_sum_to_one_however_few_nodes_are_labelled() -> None:
    graph = Graph.from_edges([[0, 1, 2, 3], [1, 2, 3, 4]], num_nodes=5)
    labelled = np.array([True, False, False, False, False])
    found = reconstruct_labels(
        labelled_graph(graph, np.array([2, 0, 0, 0, 0]), labelled), 2, mean=NeighbourhoodMean.of(graph)
    )
    assert torch.allclose(found.distribution.sum(1), torch.ones(5), atol=1e-5)
    assert found.in_reach.tolist() == [True, True, True, False, False]


def test_a_node_out_of_reach_has_the_distribution_of_all_reports_and_not_class_0() -> None:
    graph = Graph.from_edges([[0, 1, 3], [1, 2, 4]], num_nodes=5)
    labels, labelled = np.array([2, 2, 1, 0, 0]), np.array([True, True, True, False, False])
    found = reconstruct_labels(labelled_graph(graph, labels, labelled), 3, mean=NeighbourhoodMean.of(graph))
    everyone = estimate_frequencies(torch.tensor([0, 1 / 3, 2 / 3]), GRR(CLASSES, 1.0).channel)
    assert torch.allclose(found.distribution[3], everyone, atol=1e-5)
    assert found.distribution.argmax(1)[3] == 2


def test_a_label_of_an_unlabelled_node_is_never_read() -> None:
    graph = Graph.from_edges([[0, 1], [1, 2]], num_nodes=3)
    labelled = np.array([True, False, True])
    one, other = (
        reconstruct_labels(
            labelled_graph(graph, np.array([0, label, 1]), labelled), 2, mean=NeighbourhoodMean.of(graph)
        )
        for label in (0, 2)
    )
    assert torch.equal(one.distribution, other.distribution)


def test_errors_shrink_with_the_neighbourhood_and_never_vanish() -> None:
    graph = Graph.from_edges([[0, 0, 0, 0], [1, 2, 3, 4]], num_nodes=6)
    perturbed = labelled_graph(graph, np.zeros(6, dtype=np.int64), np.ones(6, dtype=np.bool_))
    errors = reconstruct_labels(perturbed, 1, mean=NeighbourhoodMean.of(graph)).standard_errors
    assert (errors > 0).all()
    assert (errors[5] > errors[0]).all()


def test_no_labelled_node_is_refused() -> None:
    graph = Graph.from_edges([[0], [1]], num_nodes=2)
    perturbed = labelled_graph(graph, np.zeros(2, dtype=np.int64), np.ones(2, dtype=np.bool_))
    with pytest.raises(ReconstructionError, match="no labelled nodes"):
        reconstruct_labels(
            replace(perturbed, has_label=np.zeros(2, dtype=np.bool_)), 1, mean=NeighbourhoodMean.of(graph)
        )


def test_draws_that_share_a_product_are_decoded_as_each_on_its_own() -> None:
    rng = np.random.default_rng(0)
    graph = Graph.from_edges(rng.integers(0, 60, (2, 150)), 60)
    draws = [
        labelled_graph(graph, rng.integers(0, CLASSES, 60), rng.random(60) < share, epsilon=epsilon)
        for share, epsilon in ((0.2, 0.5), (0.6, 1.0), (1.0, 3.0))
    ]
    mean = NeighbourhoodMean.of(graph)
    for estimate in (True, False):
        alone = [reconstruct_labels(each, 2, mean=mean, estimate=estimate).distribution.argmax(1) for each in draws]
        assert torch.equal(decode_label_draws(draws, 2, mean=mean, estimate=estimate), torch.stack(alone))


rows = st.integers(2, 8).flatmap(
    lambda size: st.lists(st.floats(-100, 100), min_size=size, max_size=size).map(
        lambda row: torch.tensor([row], dtype=torch.float64)
    )
)


@settings(deadline=None)
@given(estimates=rows)
def test_a_projection_is_a_distribution_and_its_own_projection(estimates: Tensor) -> None:
    projected = project_to_simplex(estimates)
    assert float(projected.min()) >= 0
    assert float(projected.sum()) == pytest.approx(1.0, abs=1e-12)
    torch.testing.assert_close(project_to_simplex(projected), projected, rtol=0, atol=1e-12)


@settings(deadline=None)
@given(estimates=rows, seed=st.integers(0, 2**32 - 1))
def test_no_distribution_is_nearer_than_the_projection(estimates: Tensor, seed: int) -> None:
    projected = project_to_simplex(estimates)
    size = estimates.shape[1]
    rng = np.random.default_rng(seed)
    others = np.concatenate([np.eye(size), rng.dirichlet(np.ones(size), 20), rng.dirichlet(np.full(size, 0.1), 20)])
    # Nearest in a convex set: from it, every other point lies at a right angle to the estimate or behind.
    beyond = (torch.from_numpy(others) - projected) @ (estimates - projected).T
    assert float(beyond.max()) <= 1e-9
    assert (torch.cdist(torch.from_numpy(others), estimates) >= torch.dist(projected, estimates) - 1e-9).all()


def test_a_projection_is_a_distribution_at_any_precision_and_leaves_its_argument_as_it_is() -> None:
    estimates = torch.tensor([[1e8, 0.0, 1.0], [-3e7, -3e7, -3e7], [1e30, -1e30, 0.0]])
    expected = torch.tensor([[1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3], [1.0, 0.0, 0.0]])
    torch.testing.assert_close(project_to_simplex(estimates), expected)
    estimates = torch.tensor([[1.2, -0.2]])
    project_to_simplex(estimates)
    assert estimates.tolist() == torch.tensor([[1.2, -0.2]]).tolist()
