"""Predictions of a deployed model, also of nodes that joined after the training."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.support.collected import NODES, Collected
from tests.support.trained import train_reports
from veilgraph.campaign.assemble import perturbed_graph, reports_of
from veilgraph.collector.store import ReportStore
from veilgraph.deploy import Model, predict_nodes, write_predictions
from veilgraph.deploy.prediction import certain_answers, sets_of_classes, unknown_people
from veilgraph.graph import Graph, PerturbedGraph
from veilgraph.models.baselines import class_shares
from veilgraph.models.conformal import ConformalSets, thresholds_of_grid
from veilgraph.privacy.epsilon import show_epsilon, state_epsilon
from veilgraph.privacy.mechanisms import GRR
from veilgraph.privacy.plain_text import counted
from veilgraph.privacy.schema import FeatureSchema


def test_predictions_carry_probabilities_the_guarantee_and_the_campaign(collected: Collected, trained: Path) -> None:
    out = collected.folder / "predictions.csv"
    assert collected.command("predict", model=trained, graph=collected.folder / "edges.csv", out=out) == 0
    table = pd.read_csv(out).set_index("id")
    model = Model.load(trained, device="cpu")
    classes = [f"probability_{name}" for name in model.campaign.schema.classes]
    expected = model.method.predict_proba()
    order = [f"u{i}" for i in range(NODES) if f"u{i}" in table.index]
    numbers = [int(node[1:]) for node in order]
    np.testing.assert_allclose(table.loc[order, classes], expected[numbers], atol=1e-5)
    np.testing.assert_allclose(table[classes].sum(axis=1), 1, atol=1e-5)
    assert set(table["campaign"]) == {collected.campaign.id}
    some = table["reported"]
    assert some.any()
    assert not some.all()
    # Nothing is stated of a person of whom no report is held.
    stated = table["epsilon_user_level"]
    assert set(stated[some]) == {float(show_epsilon(state_epsilon(collected.campaign.guarantee.total_user_level)))}
    assert stated[~some].isna().all()


def test_an_epsilon_of_a_prediction_is_never_below_the_exact_one(collected: Collected, veil: Path) -> None:
    """The decimal text of 0.1 is below the double 0.1000000000000000055. It has the digits of every other place."""
    found = predict_nodes(Model.load(veil, device="cpu"), collected.perturbed.graph)
    for epsilon in (0.1, 0.3, 2.0, 0.9999999999999999):
        stated = replace(found, epsilon_user_level=epsilon).to_frame()["epsilon_user_level"].dropna()
        assert {Decimal(repr(each)) >= Decimal(epsilon) for each in stated.tolist()} == {True}
        assert {f"{each:.4f}" for each in stated.tolist()} == {show_epsilon(state_epsilon(epsilon))}
        assert {each == round(each, 4) for each in stated.tolist()} == {True}
    unlimited = replace(found, epsilon_user_level=math.inf).to_frame()["epsilon_user_level"]
    assert set(unlimited[found.reported]) == {"not private"}
    assert unlimited[~found.reported].isna().all()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_people_who_are_silent_or_withdrew_are_left_out_if_asked(
    collected: Collected, veil: Path, tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    database = tmp_path / "reports.db"
    shutil.copy(collected.store.removeprefix("sqlite:///"), database)
    model = Model.load(veil, device="cpu")
    gone = next(model.reports()).node
    store = ReportStore.open(f"sqlite:///{database}", create=False)
    store.withdrawals.withdraw(collected.campaign.series, gone, now=0.0)
    store.close()
    options: dict[str, Any] = {"model": veil, "graph": collected.folder / "edges.csv", "out": tmp_path / f"o{suffix}"}
    everyone = predict_nodes(model, Graph.from_files(options["graph"]))
    silent = {node for node, sent in zip(everyone.nodes, everyone.reported, strict=True) if not sent}
    given = {"silent": {}, "withdrawn": {"store": f"sqlite:///{database}"}}
    given["withdrawn,silent"] = given["withdrawn"]
    for without, more in given.items():
        assert collected.command("predict", **options, **more, without=without) == 0
        table = (pd.read_csv if suffix == ".csv" else pd.read_parquet)(options["out"])
        left_out = (silent if "silent" in without else set()) | ({gone} if "withdrawn" in without else set())
        assert set(table["id"]) == set(everyone.nodes) - left_out
    capsys.readouterr()
    assert collected.command("predict", **options, without="withdrawn") == 2
    assert "who has withdrawn is in the store alone" in capsys.readouterr().err
    assert collected.command("predict", **options, without="quiet") == 2
    assert "'quiet' cannot be left out: give withdrawn or silent" in capsys.readouterr().err


def test_nodes_that_joined_later_are_predicted_from_their_neighbourhood(collected: Collected, trained: Path) -> None:
    edges = pd.read_csv(collected.folder / "edges.csv")
    grown = collected.folder / "grown.csv"
    new = pd.DataFrame({"a": ["new"] * 3, "b": edges["a"][:3]})
    pd.concat([edges, new]).to_csv(grown, index=False)
    whom = collected.folder / "whom.csv"
    whom.write_text("id\nnew\nu1\n", encoding="utf-8")
    out = collected.folder / "new.parquet"
    for store in ({}, {"store": collected.store}):
        assert collected.command("predict", model=trained, graph=grown, only=whom, out=out, **store) == 0
        table = pd.read_parquet(out)
        assert table["id"].tolist() == ["new", "u1"]
        assert table["reported"].tolist()[0] is False
        assert table.filter(like="probability_").to_numpy().sum(axis=1) == pytest.approx([1, 1], abs=1e-5)
    # With a report of its own it is predicted otherwise.
    model = Model.load(trained, device="cpu")
    graph, reports = Graph.from_files(grown), list(model.reports())
    answered = next(report for report in reports if report.features is not None)
    place = graph.names.index("new")
    without, with_report = (
        model.method.predict_proba(model.perturbed(graph, given))[place]
        for given in (reports, [*reports, replace(answered, node="new")])
    )
    assert not np.array_equal(without, with_report)


def test_a_report_that_came_after_training_counts_when_the_store_is_given(collected: Collected, trained: Path) -> None:
    model = Model.load(trained, device="cpu")
    graph, reports = collected.perturbed.graph, list(model.reports())
    silent = next(name for name in graph.names if name not in {report.node for report in reports})
    late = replace(reports[0], node=silent)
    before = model.method.predict_proba(model.perturbed(graph))
    after = model.method.predict_proba(model.perturbed(graph, [*reports, late]))
    assert not np.array_equal(before, after)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"only": "id\nnobody\n"}, "neither an edge nor a report"),
        ({"out": "predictions.txt"}, ".csv or .parquet"),
        ({"model": "nowhere"}, "no model"),
        ({"store": "sqlite:///nowhere/reports.db"}, "store"),
        ({"store": "mysql://u:p@h/d"}, "sqlite"),
    ],
)
def test_mistakes_are_one_sentence(
    collected: Collected,
    trained: Path,
    tmp_path: Path,
    options: dict[str, str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given: dict[str, object] = {"model": trained, "graph": collected.folder / "edges.csv", "out": tmp_path / "out.csv"}
    given.update(options)
    if "only" in options:
        (tmp_path / "whom.csv").write_text(options["only"], encoding="utf-8")
        given["only"] = tmp_path / "whom.csv"
    assert collected.command("predict", **given) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "u:p" not in error
    assert len(error.strip().splitlines()) == 1


def test_every_method_predicts_people_who_joined_later(case: tuple[str, Collected, Model], tmp_path: Path) -> None:
    _, collected, in_memory = case
    in_memory.save(tmp_path / "model")
    model = Model.load(tmp_path / "model", device="cpu")
    reporter = next(model.reports())
    edges = pd.read_csv(collected.folder / "edges.csv")
    # One has edges and no report, one has a report and no edge.
    joined = pd.DataFrame({"a": ["friend"] * 3, "b": edges["a"][:3]})
    grown = Graph.from_table(pd.concat([edges, joined]).astype(str))
    with_alone = Graph.from_edges(grown.edges, grown.num_nodes + 1, node_ids=[*grown.names, "alone"])
    reports = [*model.reports(), replace(reporter, node="alone")]
    probabilities = model.method.predict_proba(model.perturbed(with_alone, reports))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)

    table = predict_nodes(
        Model.load(tmp_path / "model", device="cpu"), grown, nodes=["friend", reporter.node]
    ).to_frame()
    assert list(table.columns[:3]) == ["id", "class", "probability"]
    assert table["id"].tolist() == ["friend", reporter.node]
    assert set(table["class"]) <= set(collected.campaign.schema.classes)
    for _, row in table.iterrows():
        assert row["probability"] == row[f"probability_{row['class']}"] == row.filter(like="probability_").max()


@pytest.mark.parametrize("name", ["veil", "structure_only"])
def test_a_graph_in_another_order_is_predicted_as_in_the_training(
    collected: Collected, tmp_path: Path, name: str
) -> None:
    trained = train_reports(collected.campaign, collected.perturbed, method=name, device="cpu").save(tmp_path)
    model, expected = Model.load(tmp_path, device="cpu"), trained.method.predict_proba()
    shuffled = pd.read_csv(collected.folder / "edges.csv").sample(frac=1, random_state=0)
    table = predict_nodes(model, Graph.from_table(shuffled), nodes=collected.perturbed.graph.names).to_frame()
    np.testing.assert_allclose(table.filter(like="probability_"), expected, atol=1e-6)


def test_people_of_the_training_without_an_edge_or_a_report_are_predicted_if_they_are_named(
    collected: Collected, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [*collected.perturbed.graph.names, "hermit"]
    graph = Graph.from_edges(collected.perturbed.graph.edges, len(names), node_ids=names)
    campaign = replace(
        collected.campaign, asked=replace(collected.campaign.asked, nodes=len(names), graph_sha256=graph.fingerprint)
    )
    reports = (replace(each, campaign=campaign.id) for each in reports_of(collected.perturbed, collected.campaign))
    perturbed = perturbed_graph(campaign, graph, reports)
    train_reports(campaign, perturbed, method="veil", device="cpu").save(tmp_path / "model")
    options = {"model": tmp_path / "model", "graph": collected.folder / "edges.csv", "out": tmp_path / "out.csv"}
    assert collected.command("predict", **options) == 0
    connected = int((graph.degrees > 0).sum())
    assert (
        f": {counted(len(names) - connected, 'node')} of the training; name them in a table for --only"
        in capsys.readouterr().out
    )
    (tmp_path / "nodes.csv").write_text("id\nhermit\n", encoding="utf-8")
    assert collected.command("predict", **options, only=tmp_path / "nodes.csv") == 0
    (row,) = pd.read_csv(tmp_path / "out.csv").to_dict("records")
    assert row["id"] == "hermit"
    assert not row["reported"]
    assert not row["certain"]
    assert row["set"].count("|") == len(campaign.schema.classes) - 1
    # Nothing is known about this person, whatever the method: all people's shares are the best guess.
    found = [row[f"probability_{name}"] for name in campaign.schema.classes]
    np.testing.assert_allclose(found, class_shares(perturbed)[0], atol=1e-6)


@pytest.fixture(scope="module")
def veil(collected: Collected) -> Path:
    folder = collected.folder / "veil"
    options = {"out": folder, "method": "veil", **collected.files()}
    assert collected.command("train", store=collected.store, **options) == 0
    return folder


def test_sets_of_classes_are_a_column_that_begins_with_the_predicted_class(
    collected: Collected, veil: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, edges = collected.folder / "sets.csv", collected.folder / "edges.csv"
    assert collected.command("predict", model=veil, graph=edges, out=out, coverage="0.8") == 0
    assert "Sets hold the true class of 80% of the nodes or more" in capsys.readouterr().out
    table = pd.read_csv(out)
    sets = table["set"].str.split("|")
    assert (sets.str[0] == table["class"]).all()
    model = Model.load(veil, device="cpu")
    chosen = model.method.predict_sets(0.8)
    for node, names in zip(table["id"], sets, strict=True):
        expected = [
            name for name, named in zip(model.campaign.schema.classes, chosen[int(node[1:])], strict=True) if named
        ]
        assert sorted(names) == sorted(expected)
    listed = collected.folder / "sets.parquet"
    assert collected.command("predict", model=veil, graph=edges, out=listed, coverage="0.8") == 0
    assert [list(names) for names in pd.read_parquet(listed)["set"]] == sets.tolist()


def test_a_bar_within_the_name_of_a_class_is_escaped(tmp_path: Path) -> None:
    write_predictions(pd.DataFrame({"id": ["a"], "set": [("x|y", "z")]}), tmp_path / "sets.csv")
    assert (tmp_path / "sets.csv").read_text(encoding="utf-8") == '"id","set"\n"a","x\\|y|z"\n'


def test_what_cannot_be_predicted_is_refused_with_the_remedy_and_nothing_is_written(
    collected: Collected, trained: Path, veil: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = {"graph": collected.folder / "edges.csv", "out": tmp_path / "out.csv"}
    missing = tmp_path / "no model"
    for given, reasons in (
        ({"model": veil, "coverage": "1"}, ["above 0 and below 1"]),
        ({"model": veil, "certain": "0"}, ["above 0, at most 1"]),
        ({"model": veil, "certain": "1.5"}, ["above 0, at most 1"]),
        ({"model": trained, "coverage": "0.9"}, ["use Veil or LabelVeil"]),
        (
            {"model": missing},
            [
                f"'{missing}'",
                "veilgraph train campaign.json --store sqlite:///reports.db --graph edges.csv --out",
            ],
        ),
    ):
        assert collected.command("predict", **words, **given) == 2
        error = capsys.readouterr().err
        assert all(reason in error for reason in reasons)
        assert not (tmp_path / "out.csv").exists()


def test_a_table_has_the_same_columns_in_every_format(collected: Collected, veil: Path) -> None:
    graph = collected.folder / "edges.csv"
    found = predict_nodes(Model.load(veil, device="cpu"), Graph.from_files(graph), certain=0.9)
    table = found.to_frame()
    assert list(table.columns[:6]) == ["id", "class", "probability", "set", "certain", "reported"]
    one_class = table["set"].map(len) == 1
    assert (table["certain"] == ((table["probability"] >= 0.9) & one_class)).all()
    assert table["certain"].nunique() == 2
    for suffix, read in ((".csv", pd.read_csv), (".parquet", pd.read_parquet)):
        out = collected.folder / f"columns{suffix}"
        assert collected.command("predict", model=veil, graph=graph, out=out, certain="0.9") == 0
        written = read(out)
        assert list(written.columns) == list(table.columns)
        assert written["certain"].tolist() == table["certain"].tolist()


def test_on_the_graph_of_the_training_predictions_are_those_that_the_model_keeps(
    collected: Collected, tmp_path: Path
) -> None:
    trained = train_reports(collected.campaign, collected.perturbed, method="veil_labels", device="cpu").save(tmp_path)
    model = Model.load(tmp_path, device="cpu")
    graph = Graph.from_files(collected.folder / "edges.csv", nodes=collected.folder / "nodes.csv")
    found = predict_nodes(model, graph, nodes=collected.perturbed.graph.names)
    informed = (graph.reordered(found.nodes).degrees > 0) | found.reported
    assert found.probabilities[informed].tobytes() == trained.method.predict_proba()[informed].tobytes()


def test_an_answer_is_certain_only_if_its_set_has_one_class() -> None:
    """People whose set had been filled, or had two classes, were certain by their probability alone."""
    probabilities = np.array([[0.9, 0.1, 0.0], [0.85, 0.15, 0.0], [0.81, 0.1, 0.09], [0.7, 0.2, 0.1]])
    sets = np.array([[True, False, False], [True, True, False], [True, True, True], [True, False, False]])
    assert certain_answers(probabilities, sets).tolist() == [True, False, False, False]
    assert certain_answers(probabilities, None).tolist() == [True, True, True, False]


def test_a_set_has_all_classes_where_nothing_is_known_however_likely_a_class_is_among_all() -> None:
    """People whom no links join to a report had sets with the largest class alone; contacts are no knowledge."""
    nobody = np.zeros(6, dtype=np.bool_)
    perturbed = PerturbedGraph(
        graph=Graph.from_edges([[0, 4], [1, 5]], num_nodes=6),
        schema=FeatureSchema.binary(1, classes=["no", "yes"]),
        features=np.zeros((6, 1), dtype=np.int8),
        labels=np.zeros(6, dtype=np.int64),
        has_features=nobody,
        has_label=np.array([True, False, True, False, False, False]),
        feature_mechanism=None,
        label_mechanism=GRR(2, 2.0),
    )
    unknown = unknown_people(perturbed)
    assert unknown.tolist() == [False, False, False, True, True, True]
    low_enough = (np.append(thresholds_of_grid(), 0.0) <= 0.6).astype(np.float64)
    calibrated = ConformalSets(coverage=np.stack([low_enough] * 2), reporting=perturbed.has_label, variance=0.0)
    probabilities = np.tile(np.array([0.72, 0.28], dtype=np.float32), (6, 1))
    sets = sets_of_classes(calibrated, probabilities, perturbed, unknown, 0.4)
    assert sets.sum(axis=1).tolist() == [1, 1, 1, 2, 2, 2]
    assert certain_answers(probabilities, sets, 0.7).tolist() == [True] * 3 + [False] * 3


def test_people_who_reported_have_the_threshold_of_those_who_did() -> None:
    """Sets of people with a report of their own are calibrated apart from those of silent people."""
    reporting = np.array([True, False, True, False])
    perturbed = PerturbedGraph(
        graph=Graph.from_edges([[0, 1, 2], [1, 2, 3]], num_nodes=4),
        schema=FeatureSchema.binary(1, classes=["no", "yes"]),
        features=np.zeros((4, 1), dtype=np.int8),
        labels=np.zeros(4, dtype=np.int64),
        has_features=np.zeros(4, dtype=np.bool_),
        has_label=reporting,
        feature_mechanism=None,
        label_mechanism=GRR(2, 2.0),
    )
    grid = np.append(thresholds_of_grid(), 0.0)
    silent, reported = (grid <= 0.2).astype(np.float64), (grid <= 0.5).astype(np.float64)
    calibrated = ConformalSets(coverage=np.stack([silent, reported]), reporting=reporting, variance=0.0)
    probabilities = np.tile(np.array([0.7, 0.3], dtype=np.float32), (4, 1))
    nobody = np.zeros(4, dtype=np.bool_)
    assert sets_of_classes(calibrated, probabilities, perturbed, nobody, 0.4).sum(axis=1).tolist() == [1, 2, 1, 2]
