"""PrivateGraph accepts valid records only; its repr and its errors contain no private value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import veilgraph.datasets
from veilgraph.datasets import PrivateGraph, load
from veilgraph.errors import DomainError, GraphError, RunError, VeilgraphError
from veilgraph.graph import Graph
from veilgraph.privacy.schema import NO_LABEL, Column, FeatureSchema

PATH = Graph.from_edges([[0, 1, 2], [1, 2, 3]], num_nodes=4)
SCHEMA = FeatureSchema(
    columns=(Column(name="smoker"), Column(name="age", edges=(0, 30, 60, 120))), classes=("ill", "well")
)
FEATURES = np.array([[0, 2], [1, 1], [1, 0], [0, 0]], dtype=np.uint8)
LABELS = np.array([0, 0, 1, NO_LABEL])


def on_path(*, features: NDArray[np.generic] = FEATURES, labels: NDArray[np.int64] = LABELS) -> PrivateGraph:
    return PrivateGraph(name="path", graph=PATH, schema=SCHEMA, features=features, labels=labels)


def message_of(build: Callable[[], object]) -> str:
    with pytest.raises(VeilgraphError) as caught:
        build()
    return str(caught.value)


@pytest.mark.parametrize("show", [repr, str, "{}".format])
def test_what_is_shown_does_not_depend_on_private_values(show: Callable[[object], str]) -> None:
    other = on_path(features=1 - (FEATURES > 0).astype(np.uint8), labels=np.array([1, NO_LABEL, 0, 0]))
    shown = show(on_path())
    assert shown == show(other)
    assert shown == "PrivateGraph('path', Graph(4 nodes, 3 edges, 0 isolated), 2 features, <private>)"


def test_an_error_about_a_feature_does_not_depend_on_its_value() -> None:
    def with_age(code: int) -> Callable[[], PrivateGraph]:
        return lambda: on_path(features=np.where(FEATURES == 2, code, FEATURES))

    assert message_of(with_age(3)) == message_of(with_age(97)) == message_of(with_age(-5))
    assert message_of(with_age(97)) == "feature 'age', row 0: outside the declared domain 0..2 (value withheld)"


def test_an_error_about_a_label_names_the_row_of_the_node_and_not_the_label() -> None:
    def with_last(code: int) -> Callable[[], PrivateGraph]:
        return lambda: on_path(labels=np.array([NO_LABEL, 0, 1, code]))

    assert message_of(with_last(2)) == message_of(with_last(97)) == message_of(with_last(-2))
    assert "label, row 3:" in message_of(with_last(97))


def test_codes_must_be_integers() -> None:
    with pytest.raises(DomainError, match="codes must be integers"):
        on_path(features=FEATURES.astype(np.float64))


@pytest.mark.parametrize(
    ("features", "labels"), [(FEATURES[:3], LABELS), (FEATURES[:, :1], LABELS), (FEATURES, LABELS[:3])]
)
def test_records_must_fit_the_graph_and_the_schema(features: NDArray[np.generic], labels: NDArray[np.int64]) -> None:
    with pytest.raises(GraphError, match="do not fit 4 nodes with 2 features"):
        on_path(features=features, labels=labels)


def test_one_class_only_is_refused() -> None:
    with pytest.raises(GraphError, match="all labels are of one class"):
        on_path(labels=np.array([1, 1, NO_LABEL, 1]))


def test_no_labels_at_all_is_refused() -> None:
    with pytest.raises(GraphError, match="no node has a label"):
        on_path(labels=np.full(4, NO_LABEL))


def test_homophily_counts_edges_between_labelled_nodes_only() -> None:
    assert on_path().homophily == 1 / 2  # 0-1 agree, 1-2 do not, 2-3 does not count


def test_homophily_without_a_labelled_edge_is_undefined() -> None:
    with pytest.raises(GraphError, match="homophily is undefined"):
        _ = on_path(labels=np.array([0, NO_LABEL, 1, NO_LABEL])).homophily


@pytest.mark.parametrize("name", ["csbm", "patients", "voters"])
def test_embedded_sets_load_by_their_own_name(name: str) -> None:
    assert load(name).name == name


def test_an_unknown_set_is_refused_with_the_known_ones() -> None:
    with pytest.raises(RunError, match=r"no data set 'atlantis': known are citeseer, cora, csbm, .*patients"):
        load("atlantis")


def test_public_names_are_sorted_and_there() -> None:
    names = veilgraph.datasets.__all__
    assert names == sorted(names)
    assert all(hasattr(veilgraph.datasets, name) for name in names)
