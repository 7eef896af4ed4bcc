"""The block model has the stated distribution. Tolerances are 5 standard errors of that distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.errors import GraphError


def edges_within(private: PrivateGraph) -> NDArray[np.int64]:
    """For each class, its number of inner edges."""
    low, high = private.labels[private.graph.edges]
    return np.bincount(low[low == high], minlength=private.schema.num_classes)


def five_errors(probability: float, trials: int) -> float:
    return 5 * math.sqrt(probability * (1 - probability) / trials)


@pytest.mark.parametrize("mean_degree", [0.5, 3.3, 10.0, 40.0])
def test_the_graph_is_simple_with_exactly_the_edges_asked_for(mean_degree: float) -> None:
    graph = csbm(600, mean_degree=mean_degree, seed=1).graph
    assert graph.num_edges == round(600 * mean_degree / 2)
    assert graph.dropped_duplicates == graph.dropped_self_loops == 0
    assert (graph.edges[0] < graph.edges[1]).all()


@pytest.mark.parametrize("homophily", [0.0, 0.1, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("num_classes", [2, 7])
def test_homophily_is_the_share_of_a_binomial(homophily: float, num_classes: int) -> None:
    private = csbm(3000, num_classes=num_classes, homophily=homophily, seed=2)
    tolerance = five_errors(homophily, private.graph.num_edges)
    assert private.homophily == pytest.approx(homophily, abs=tolerance)


def test_homophily_holds_at_scale() -> None:
    private = csbm(100_000, num_features=1, seed=3)
    assert private.graph.num_edges == 500_000
    assert private.homophily == pytest.approx(0.8, abs=five_errors(0.8, 500_000))


def test_labels_follow_the_class_shares() -> None:
    shares = (0.6, 0.3, 0.1)
    private = csbm(20_000, num_classes=3, class_shares=shares, mean_degree=2, num_features=1, seed=4)
    for found, share in zip(np.bincount(private.labels) / 20_000, shares, strict=True):
        assert found == pytest.approx(share, abs=five_errors(share, 20_000))


def test_all_pairs_within_classes_are_equally_likely() -> None:
    """Given K inner edges, a class with N_c of the N inner pairs gets a hypergeometric number of them."""
    private = csbm(2000, num_classes=3, class_shares=(0.6, 0.3, 0.1), num_features=1, seed=5)
    sizes = np.bincount(private.labels)
    pairs = sizes * (sizes - 1) // 2
    found = edges_within(private)
    for inner, room in zip(found, pairs, strict=True):
        share = room / pairs.sum()
        finite = (pairs.sum() - found.sum()) / (pairs.sum() - 1)
        deviation = math.sqrt(found.sum() * share * (1 - share) * finite)
        assert inner == pytest.approx(found.sum() * share, abs=5 * deviation)


def test_every_inner_and_every_outer_pair_can_be_drawn() -> None:
    """As many edges as there are inner pairs, all within: each class is a complete graph."""
    sizes = np.bincount(csbm(60, mean_degree=1, seed=6).labels)
    pairs = sizes * (sizes - 1) // 2
    private = csbm(60, mean_degree=2 * pairs.sum() / 60, homophily=1, seed=6)
    np.testing.assert_array_equal(edges_within(private), pairs)
    labels = csbm(60, mean_degree=1, seed=6).labels
    outer = int(np.triu(labels[:, None] != labels[None, :]).sum())
    private = csbm(60, mean_degree=2 * outer / 60, homophily=0, seed=6)
    assert private.graph.num_edges == outer
    assert private.homophily == 0


@pytest.mark.parametrize(("homophily", "kind"), [(1, "within"), (0, "between")])
def test_more_edges_than_pairs_are_refused(homophily: float, kind: str) -> None:
    with pytest.raises(GraphError, match=f"edges {kind} classes where .* possible: lower mean_degree"):
        csbm(60, num_classes=2, mean_degree=45, homophily=homophily)


@pytest.mark.parametrize("signal", [0.0, 0.3, 0.9])
def test_a_binary_feature_is_a_fair_coin_shifted_by_half_the_signal(signal: float) -> None:
    private = csbm(8000, feature_signal=signal, seed=7)
    ups = 0
    for label in range(4):
        records = private.features[private.labels == label]
        ones = records.mean(axis=0)
        tolerance = five_errors((1 + signal) / 2, len(records))
        assert (np.abs(np.abs(ones - 0.5) - signal / 2) <= tolerance).all()
        ups += int((ones > 0.5).sum())
    assert ups / (4 * 32) == pytest.approx(0.5, abs=five_errors(0.5, 4 * 32))


@pytest.mark.parametrize("domain_size", [3, 5])
@pytest.mark.parametrize("signal", [0.0, 0.4])
def test_a_categorical_feature_prefers_one_value_and_is_uniform_otherwise(domain_size: int, signal: float) -> None:
    private = csbm(8000, feature_signal=signal, num_features=(domain_size,) * 10, seed=8)
    rest = (1 - signal) / domain_size
    for label in range(4):
        records = private.features[private.labels == label]
        for codes in records.T:
            frequencies = np.sort(np.bincount(codes, minlength=domain_size) / len(codes))
            assert frequencies[-1] == pytest.approx(signal + rest, abs=five_errors(signal + rest, len(codes)))
            assert frequencies[:-1] == pytest.approx(rest, abs=five_errors(rest, len(codes)))


@pytest.mark.parametrize("domain_size", [2, 4, 300])
def test_at_full_signal_features_are_a_function_of_the_class(domain_size: int) -> None:
    private = csbm(400, feature_signal=1, num_features=(domain_size,) * 32, seed=9)
    for label in range(4):
        assert (np.ptp(private.features[private.labels == label].astype(int), axis=0) == 0).all()


@pytest.mark.parametrize("domain_size", [2, 256, 257])
def test_every_code_is_in_the_declared_domain(domain_size: int) -> None:
    private = csbm(500, num_features=(domain_size,) * 3, seed=10)
    assert private.schema.domain_sizes == (domain_size,) * 3
    assert private.features.dtype == private.schema.code_dtype
    assert private.features.max() < domain_size


@pytest.mark.parametrize("seed", range(20))
def test_every_class_is_present_even_where_chance_would_miss_it(seed: int) -> None:
    private = csbm(12, num_classes=6, class_shares=(0.95, *(0.01,) * 5), mean_degree=1, homophily=0.5, seed=seed)
    assert set(private.labels.tolist()) == set(range(6))


def test_as_many_classes_as_nodes_have_outer_edges_only() -> None:
    private = csbm(5, num_classes=5, mean_degree=2, homophily=0)
    assert sorted(private.labels.tolist()) == [0, 1, 2, 3, 4]
    with pytest.raises(GraphError, match="5 edges within classes where 0 are possible"):
        csbm(5, num_classes=5, mean_degree=2, homophily=1)


def test_a_seed_gives_one_population_whose_parts_are_drawn_apart_and_leaves_global_randomness_alone() -> None:
    first, again, other = csbm(seed=11), csbm(seed=11), csbm(seed=12)
    for name in ("features", "labels"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
        assert (getattr(first, name) != getattr(other, name)).any()
    np.testing.assert_array_equal(first.graph.edges, again.graph.edges)
    assert (first.graph.edges != other.graph.edges).any()
    first, weaker, sparser = csbm(seed=13), csbm(feature_signal=0.1, seed=13), csbm(mean_degree=4, seed=13)
    np.testing.assert_array_equal(first.graph.edges, weaker.graph.edges)
    np.testing.assert_array_equal(first.features, sparser.features)
    before = str(np.random.get_state())
    csbm(50)
    assert str(np.random.get_state()) == before


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_nodes": 3}, "num_nodes is 3: give a whole number, from 4 to 40000000"),
        ({"num_nodes": 40_000_001}, "num_nodes is 40000001: give a whole number, from 4 to 40000000"),
        ({"num_nodes": 10.5}, "num_nodes is 10.5: give a whole number"),
        ({"num_classes": 1}, "num_classes is 1: give a whole number, from 2 to 40000000"),
        ({"num_classes": "4"}, "num_classes is 4: give a whole number"),
        ({"mean_degree": 0}, "mean_degree is 0: give a number above 0, at most 999"),
        ({"mean_degree": -1.0}, "mean_degree is -1.0"),
        ({"mean_degree": 1000}, "mean_degree is 1000"),
        ({"mean_degree": math.nan}, "mean_degree is nan"),
        ({"mean_degree": math.inf}, "mean_degree is inf"),
        ({"mean_degree": 0.0001}, "mean_degree is 0.0001: 1000 nodes then have no edge"),
        ({"homophily": 1.2}, "homophily is 1.2: give a number in 0..1"),
        ({"homophily": -0.1}, "homophily is -0.1: give a number in 0..1"),
        ({"homophily": math.nan}, "homophily is nan"),
        ({"homophily": "high"}, "homophily is high"),
        ({"num_features": -1}, "num_features is -1: give a whole number, 0 or more"),
        ({"feature_signal": 1.5}, "feature_signal is 1.5: give a number in 0..1"),
        ({"feature_signal": math.nan}, "feature_signal is nan"),
        ({"class_shares": (0.5, 0.5)}, "class_shares has shape (2,): give one number for each of 4 classes"),
        ({"class_shares": (0.5, 0.5, 0.5, 0.5)}, "class_shares is [0.5, 0.5, 0.5, 0.5]: give numbers above 0 that sum"),
        ({"class_shares": (0.5, 0.5, 0.0, 0.0)}, "give numbers above 0 that sum to 1"),
        ({"class_shares": (0.5, 0.7, -0.1, -0.1)}, "give numbers above 0 that sum to 1"),
        ({"class_shares": (math.nan, 0.5, 0.25, 0.25)}, "give numbers above 0 that sum to 1"),
        ({"class_shares": ("a", "b", "c", "d")}, "give 4 numbers"),
        ({"num_features": (2, 1)}, "num_features is 1: give a whole number, from 2 to 65536"),
        ({"num_features": [65537]}, "num_features is 65537: give a whole number, from 2 to 65536"),
        ({"seed": -1}, "seed is -1: give a whole number, 0 or more"),
        ({"seed": None}, "seed is None: give a whole number"),
    ],
)
def test_a_wrong_parameter_is_refused_on_one_line(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError) as caught:
        csbm(**wrong)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
