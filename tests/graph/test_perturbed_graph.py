"""Reports on a graph: they fit the graph and the schema, and carry their guarantee."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from veilgraph.errors import GraphError
from veilgraph.graph import Graph, PerturbedGraph, PublicAttributes
from veilgraph.privacy.accounting import Released
from veilgraph.privacy.mechanisms import GRR, GRRFS, MultiBit
from veilgraph.privacy.mechanisms.grr_fs import theorem_1_figure
from veilgraph.privacy.schema import NO_LABEL, FeatureSchema

SCHEMA = FeatureSchema.binary(3, classes=["a", "b", "c"])
GRAPH = Graph.from_edges([[0, 1], [1, 2]], num_nodes=4)
REPORTS = PerturbedGraph(
    graph=GRAPH,
    schema=SCHEMA,
    features=np.zeros((4, 3), dtype=np.uint8),
    labels=np.array([0, 2, NO_LABEL, 9]),
    has_features=np.array([True, True, False, True]),
    has_label=np.array([True, True, False, False]),
    feature_mechanism=GRRFS((2, 2, 2), sampled=2, epsilon=0.5),
    label_mechanism=GRR(3, 1.0),
)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"features": np.zeros((4, 2))}, r"features has shape \(4, 2\): 4 nodes and 3 features need \(4, 3\)"),
        ({"features": np.zeros((3, 3))}, r"features has shape \(3, 3\)"),
        ({"labels": np.zeros(3, dtype=int)}, "labels has 3 rows"),
        ({"has_features": np.ones((4, 3), dtype=bool)}, r"has_features has shape \(4, 3\)"),
        ({"has_label": np.ones(5, dtype=bool)}, r"has_label has shape \(5,\)"),
        ({"feature_mechanism": None}, "nodes have feature reports, but there is no mechanism that randomized them"),
        ({"feature_mechanism": GRRFS((2, 2), 1, 1.0)}, "the feature mechanism is for 2 features, the schema has 3"),
        ({"label_mechanism": GRR(2, 1.0)}, "the label mechanism is for 2 classes, the schema has 3"),
        ({"has_label": np.ones(4, dtype=bool)}, r"a reported label is outside 0\.\.2"),
        ({"labels": np.array([0, 3, 0, 0])}, r"a reported label is outside 0\.\.2"),
    ],
)
def test_reports_that_do_not_fit_the_graph_or_the_schema_are_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(GraphError, match=reason):
        dataclasses.replace(REPORTS, **change)


def test_the_guarantee_is_that_of_both_mechanisms_together() -> None:
    guarantee = REPORTS.guarantee
    assert REPORTS.feature_mechanism is not None
    assert guarantee.attribute_levels == REPORTS.feature_mechanism.privacy_loss.attribute_level
    assert guarantee.label_user_level == REPORTS.label_mechanism.privacy_loss.user_level
    assert guarantee.total_user_level == pytest.approx(2 * 0.5 + 1.0, abs=1e-6)
    assert guarantee.unsound_theorem_1 == theorem_1_figure(0.5, sampled=2, num_features=3)


@pytest.mark.parametrize("schema", [SCHEMA, FeatureSchema(classes=SCHEMA.classes)])
def test_without_a_feature_mechanism_a_report_spends_the_label_alone(schema: FeatureSchema) -> None:
    features = np.zeros((4, schema.num_features), dtype=schema.code_dtype)
    label_only = dataclasses.replace(
        REPORTS, schema=schema, features=features, has_features=np.zeros(4, dtype=bool), feature_mechanism=None
    )
    assert not label_only.guarantee.releases(Released.FEATURES)
    assert label_only.guarantee.total_user_level == REPORTS.label_mechanism.privacy_loss.user_level
    assert repr(label_only).endswith("0 feature reports, 2 label reports, GRR(domain_size=3, epsilon=1.0))")


def test_theorem_1_says_nothing_of_other_mechanisms() -> None:
    multi_bit = MultiBit((0.0,) * 3, (1.0,) * 3, sampled=1, epsilon=1.0)
    assert dataclasses.replace(REPORTS, feature_mechanism=multi_bit).guarantee.unsound_theorem_1 is None


def test_public_columns_cost_no_epsilon_and_have_a_row_for_each_node() -> None:
    public = PublicAttributes.from_matrix(np.eye(4))
    known = dataclasses.replace(REPORTS, public=public)
    assert known.guarantee == REPORTS.guarantee
    assert "PublicAttributes(4 nodes: x)" in repr(known)
    assert "public" not in repr(REPORTS).casefold()
    with pytest.raises(GraphError, match="public columns have 3 rows: there are 4 nodes"):
        dataclasses.replace(REPORTS, public=PublicAttributes.from_matrix(np.eye(3)))


def test_reports_go_to_another_graph_by_id_and_become_a_table() -> None:
    before = dataclasses.replace(REPORTS, graph=dataclasses.replace(REPORTS.graph, node_ids=tuple("abcd")))
    edges = [[0, 1, 2], [1, 2, 3]]
    after = before.on(Graph.from_edges(edges, 4, node_ids=["d", "new", "a", "b"]))
    found, known = after.to_frame().set_index("id"), before.to_frame().set_index("id")
    assert not found.loc["new", ["has_features", "has_label"]].any()
    for name in "abd":
        assert found.loc[[name]].equals(known.loc[[name]])
        rows = after.graph.names.index(name), before.graph.names.index(name)
        assert (after.features[rows[0]] == before.features[rows[1]]).all()
        assert (after.labels[rows[0]] == before.labels[rows[1]]).all()
    classes = before.schema.classes
    table = after.to_frame(np.eye(4, len(classes)) + 0.1)
    assert table["class"].tolist()[: len(classes)] == [*classes][:4]
    assert table[f"probability_{classes[0]}"].tolist()[0] == pytest.approx(1.1)
    with pytest.raises(GraphError, match="need one row and one column each"):
        after.to_frame(np.eye(3))
    public = PublicAttributes.from_matrix(np.eye(4))
    with pytest.raises(GraphError, match="give those of the other graph"):
        dataclasses.replace(before, public=public).on(after.graph)
