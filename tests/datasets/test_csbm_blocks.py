"""The block model by blocks has the asked edges, homophily and features, whoever draws which block."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from veilgraph.datasets.csbm_blocks import CsbmBlocks
from veilgraph.errors import GraphError
from veilgraph.graph.shards import node_keys, shard_of

MADE = CsbmBlocks(num_nodes=3000, blocks=5, mean_degree=12, homophily=0.7, num_features=6, seed=3)


def all_edges(made: CsbmBlocks) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.concatenate([made.edges(block) for block in range(made.blocks)], axis=1)


def test_edges_are_as_many_as_asked_all_different_and_homophilous() -> None:
    edges = all_edges(MADE)
    assert edges.shape == (2, 18_000) == (2, MADE.num_edges)
    assert (edges[0] < edges[1]).all()
    assert edges.max() < 3000
    assert len(np.unique(edges[0] * 3000 + edges[1])) == 18_000
    same = MADE.labels(edges[0]) == MADE.labels(edges[1])
    assert abs(same.mean() - 0.7) < 5 * math.sqrt(0.7 * 0.3 / 18_000)


def test_every_node_has_the_same_mean_degree() -> None:
    degrees = np.bincount(all_edges(MADE).ravel(), minlength=3000)
    # Thousand nodes each: five standard errors of the mean of Poisson degrees, and of the sizes of four classes.
    for part in np.split(degrees, 3):
        assert abs(part.mean() - 12) < 5 * math.sqrt(12 / 1000) + 12 * 2 / math.sqrt(3000 / 4)


def test_a_block_is_the_shard_of_its_ids_and_lower_ends_are_in_it() -> None:
    for block in range(MADE.blocks):
        numbers = MADE.numbers(block)
        keys = node_keys(pa.array(MADE.ids(numbers)))  # type: ignore[attr-defined]
        assert (shard_of(keys, MADE.blocks) == block).all()
        assert (np.diff(keys.astype(np.float64)) > 0).all()
        assert np.isin(MADE.edges(block)[0], numbers).all()


def test_features_depend_on_the_class_as_stated() -> None:
    labels = np.concatenate([MADE.labels(MADE.numbers(block)) for block in range(MADE.blocks)])
    features = np.concatenate([MADE.features(block) for block in range(MADE.blocks)])
    shares = np.stack([features[labels == label].mean(axis=0) for label in range(4)])
    # At signal 1/2 a binary feature is 1 with probability 3/4 or 1/4.
    assert (abs(abs(shares - 0.5) - 0.25) < 5 * math.sqrt(3 / 16 / 600)).all()


def test_blocks_do_not_depend_on_each_other_and_seeds_differ() -> None:
    again = CsbmBlocks(num_nodes=3000, blocks=5, mean_degree=12, homophily=0.7, num_features=6, seed=3)
    np.testing.assert_array_equal(again.edges(3), MADE.edges(3))
    np.testing.assert_array_equal(again.features(3), MADE.features(3))
    other = CsbmBlocks(num_nodes=3000, blocks=5, mean_degree=12, homophily=0.7, num_features=6, seed=4)
    assert not np.array_equal(other.labels(np.arange(100)), MADE.labels(np.arange(100)))


def test_too_dense_blocks_are_refused() -> None:
    with pytest.raises(GraphError, match="too many of its pairs as edges"):
        CsbmBlocks(num_nodes=40, blocks=4, mean_degree=30).edges(3)
