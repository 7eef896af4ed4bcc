"""The embedded patients: declared bins, and a graph of similar patients that does not use labels."""

from __future__ import annotations

import importlib
import sys
from functools import cache
from typing import Any

import numpy as np
import pytest

from veilgraph.datasets import PrivateGraph, patients
from veilgraph.errors import MissingExtraError

NEIGHBOURS = 8


@cache
def embedded() -> PrivateGraph:
    return patients()


@cache
def raw() -> Any:
    return importlib.import_module("sklearn.datasets").load_breast_cancer()


def test_every_record_of_the_source_is_there_in_order() -> None:
    private = embedded()
    assert private.graph.num_nodes == 569
    assert private.schema.feature_names == tuple(raw().feature_names)
    np.testing.assert_array_equal(np.array(private.schema.classes)[private.labels], raw().target_names[raw().target])


def test_every_code_is_inside_its_domain_and_every_value_in_the_bin_of_its_code() -> None:
    private = embedded()
    assert set(private.schema.domain_sizes) == {2, 3, 4}
    for codes, size in zip(private.features.T, private.schema.domain_sizes, strict=True):
        assert set(np.unique(codes).tolist()) == set(range(size))
    for i, column in enumerate(private.schema.columns):
        edges, codes, values = np.array(column.edges), private.features[:, i], raw().data[:, i]
        assert (edges[codes] <= values).all()
        assert (values < edges[codes + 1]).all()
    for column, values in zip(embedded().schema.columns, raw().data.T, strict=True):
        assert column.edges[0] <= values.min()
        assert values.max() < column.edges[-1]


def test_the_schema_says_where_its_edges_come_from() -> None:
    assert "by hand" in embedded().schema.note
    assert "not from anyone's private records" in embedded().schema.note


def test_the_graph_is_simple_and_no_node_is_isolated() -> None:
    graph = embedded().graph
    low, high = graph.edges
    assert (low < high).all()
    assert np.unique(graph.edges, axis=1).shape[1] == graph.num_edges == 3440
    assert graph.degrees.min() >= NEIGHBOURS
    assert 10 <= graph.degrees.mean() <= 15


def test_edges_are_exactly_the_union_of_nearest_neighbours() -> None:
    spread = (raw().data - raw().data.mean(axis=0)) / raw().data.std(axis=0)
    expected = set()
    for u in range(len(spread)):
        distance = np.linalg.norm(spread - spread[u], axis=1)
        distance[u] = np.inf
        nearest = np.argpartition(distance, NEIGHBOURS)[:NEIGHBOURS]
        expected |= {(min(u, int(v)), max(u, int(v))) for v in nearest}
    assert {(int(u), int(v)) for u, v in embedded().graph.edges.T} == expected


def test_homophily_is_well_above_chance() -> None:
    private = embedded()
    shares = np.bincount(private.labels) / private.graph.num_nodes
    assert private.homophily == pytest.approx(0.933, abs=0.001)
    assert (shares**2).sum() == pytest.approx(0.532, abs=0.001)


def test_labels_have_no_part_in_graph_or_features(monkeypatch: pytest.MonkeyPatch) -> None:
    shuffled = type(raw())(**raw())
    shuffled["target"] = np.random.default_rng(0).permutation(raw().target)
    monkeypatch.setattr(importlib.import_module("sklearn.datasets"), "load_breast_cancer", lambda: shuffled)
    private = patients()
    assert (private.labels != embedded().labels).any()
    np.testing.assert_array_equal(private.graph.edges, embedded().graph.edges)
    np.testing.assert_array_equal(private.features, embedded().features)


def test_two_loads_are_equal() -> None:
    again = patients()
    np.testing.assert_array_equal(again.graph.edges, embedded().graph.edges)
    np.testing.assert_array_equal(again.features, embedded().features)
    np.testing.assert_array_equal(again.labels, embedded().labels)


def test_without_scikit_learn_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(MissingExtraError, match=r"needs scikit-learn.*veilgraph\[lab\]"):
        patients()
