"""A model from a store is the model from memory, and nodes that joined later are predicted too."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.support.collection import CLOSES
from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import reports_of
from veilgraph.cli import main
from veilgraph.collector.store import ReportStore
from veilgraph.datasets import csbm
from veilgraph.deploy.fit_collected import Model, Trained, method_for_graph, prepare, save, train
from veilgraph.errors import FitError, RunError
from veilgraph.evaluation import accuracy
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.models import RGNN
from veilgraph.models.engine import gnn_method as gnn
from veilgraph.models.engine.backbones import HIDDEN
from veilgraph.privacy.budget import PrivacyBudget

NODES = 400
BUDGET = PrivacyBudget(epsilon_x=2.0, epsilon_y=2.0, sampled=8)
PARAMETERS = {"epochs": 15, "device": "cpu"}


class Collected:
    """A simulated collection whose reports are also in a store, with the files that the commands read."""

    def __init__(self, folder: Path) -> None:
        private = csbm(NODES, seed=0)
        names = [f"u{i}" for i in range(NODES)]
        graph = Graph.from_edges(private.graph.edges, NODES, node_ids=names)
        self.private, self.folder = private, folder
        drawn = simulate(private, BUDGET, Split.random(NODES, seed=0), rng=np.random.default_rng(0))
        # Some send no features, some nothing at all.
        silent = np.random.default_rng(1).random(NODES) < 0.1
        self.perturbed: PerturbedGraph = replace(
            drawn, graph=graph, has_features=~silent, has_label=drawn.has_label & (np.arange(NODES) % 7 > 0)
        )
        self.campaign = Campaign.new(
            schema=private.schema,
            graph=graph,
            purpose="p",
            contact="c",
            closes=CLOSES,
            epsilon_x=2.0,
            sampled=8,
            epsilon_y=2.0,
        )
        self.store = f"sqlite:///{folder}/reports.db"
        store = ReportStore.open(self.store)
        store.put(list(reports_of(self.perturbed, self.campaign)), now=0)
        store.close()
        (folder / "campaign.json").write_text(self.campaign.to_json(), encoding="utf-8")
        # Nodes in the order of the simulation, edges as they come.
        pd.DataFrame({"id": names}).to_csv(folder / "nodes.csv", index=False)
        pd.DataFrame(np.array(names)[graph.edges.T], columns=["a", "b"]).to_csv(folder / "edges.csv", index=False)

    def command(self, verb: str, **options: object) -> int:
        words = [str(word) for key, value in options.items() for word in (f"--{key.replace('_', '-')}", value)]
        return main([verb, "--device", "cpu", *words])

    def train(self, **options: object) -> int:
        files = {"campaign": self.folder / "campaign.json", "graph": self.folder / "edges.csv"}
        files["nodes"] = self.folder / "nodes.csv"
        given = {"out": self.folder / "model", "epochs": 15, **files, **options}
        return self.command("train", store=self.store, **given)


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Collected:
    return Collected(tmp_path_factory.mktemp("collected"))


@pytest.fixture(scope="module")
def trained(collected: Collected) -> Path:
    assert collected.train() == 0
    return collected.folder / "model"


def test_training_from_the_store_equals_training_from_memory(collected: Collected, trained: Path) -> None:
    method = method_for_graph("rgnn", collected.perturbed.graph, **PARAMETERS)
    from_memory = train(prepare(collected.campaign, collected.perturbed, method)).method
    from_store = Model.load(trained, device="cpu").method
    np.testing.assert_array_equal(from_store.predict_proba(), from_memory.predict_proba())
    # The truth is for the laboratory only; here it shows that something was learned at all.
    majority = np.bincount(collected.private.labels).max() / NODES
    test = ~collected.perturbed.has_label
    assert accuracy(from_store.predict(), collected.private, test) > majority


def test_predictions_carry_probabilities_the_guarantee_and_the_campaign(collected: Collected, trained: Path) -> None:
    out = collected.folder / "predictions.csv"
    assert collected.command("predict", model=trained, graph=collected.folder / "edges.csv", out=out) == 0
    table = pd.read_csv(out).set_index("node")
    model = Model.load(trained, device="cpu")
    classes = [f"probability_{name}" for name in model.campaign.schema.classes]
    expected = model.method.predict_proba()
    order = [f"u{i}" for i in range(NODES) if f"u{i}" in table.index]
    numbers = [int(node[1:]) for node in order]
    np.testing.assert_allclose(table.loc[order, classes], expected[numbers], atol=1e-5)
    np.testing.assert_allclose(table[classes].sum(axis=1), 1, atol=1e-5)
    assert set(table["campaign"]) == {collected.campaign.id}
    assert set(table["epsilon_user_level"]) == {collected.campaign.guarantee.total_user_level}
    some = table["reported"]
    assert some.any()
    assert not some.all()


def test_nodes_that_joined_later_are_predicted_from_their_neighbourhood(collected: Collected, trained: Path) -> None:
    edges = pd.read_csv(collected.folder / "edges.csv")
    grown = collected.folder / "grown.csv"
    new = pd.DataFrame({"a": ["new"] * 3, "b": edges["a"][:3]})
    pd.concat([edges, new]).to_csv(grown, index=False)
    whom = collected.folder / "whom.csv"
    whom.write_text("id\nnew\nu1\n", encoding="utf-8")
    out = collected.folder / "new.parquet"
    for store in ({}, {"store": collected.store}):
        assert collected.command("predict", model=trained, graph=grown, nodes=whom, out=out, **store) == 0
        table = pd.read_parquet(out)
        assert table["node"].tolist() == ["new", "u1"]
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


def test_the_accuracy_estimate_comes_from_labels_that_took_no_part(collected: Collected) -> None:
    method = method_for_graph("plain", collected.perturbed.graph, **PARAMETERS)
    preparation = prepare(collected.campaign, collected.perturbed, method, hold_out=0.5)
    seen, facts = preparation.run.perturbed.has_label, train(preparation).facts
    assert facts["held_out"] == pytest.approx(facts["label_reports"] / 2, abs=1)
    assert int(seen.sum()) == facts["label_reports"] - facts["held_out"]
    held_out = collected.perturbed.has_label & ~seen
    for name, fitted in (("plain", method),):
        estimate = facts["estimated_accuracy"][name]
        true = accuracy(fitted.predict(), collected.private, held_out)
        # Four standard errors; the seed is fixed.
        assert abs(estimate["accuracy"] - true) < 4 * estimate["standard_error"]
    assert "structure_only" in facts["estimated_accuracy"]


def test_an_unknown_method_or_parameter_is_refused(collected: Collected) -> None:
    with pytest.raises(FitError, match="rgnn, plain"):
        method_for_graph("lpgnn", collected.perturbed.graph)
    with pytest.raises(FitError, match="no num_clusters"):
        method_for_graph("plain", collected.perturbed.graph, num_clusters=4)


def test_a_share_that_leaves_nothing_is_refused(collected: Collected) -> None:
    with pytest.raises(FitError, match="hold_out is 1"):
        prepare(
            collected.campaign, collected.perturbed, method_for_graph("plain", collected.perturbed.graph), hold_out=1
        )


def test_a_folder_with_other_files_is_not_written_to_and_an_older_model_is(
    collected: Collected, tmp_path: Path
) -> None:
    graph = collected.perturbed.graph
    method = method_for_graph("plain", graph, epochs=1, device="cpu")
    trained = train(prepare(collected.campaign, collected.perturbed, method))
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").touch()
    with pytest.raises(RunError, match=r"'thesis\.tex'"):
        save(trained, other)
    for _ in range(2):
        save(trained, tmp_path / "model")
    np.testing.assert_array_equal(
        Model.load(tmp_path / "model", device="cpu").method.predict_proba(), trained.method.predict_proba()
    )


def test_what_a_killed_process_left_behind_is_no_stranger(collected: Collected, tmp_path: Path) -> None:
    (tmp_path / ".checkpoint.npz.17.part").touch()
    method = method_for_graph("plain", collected.perturbed.graph, epochs=1)
    save(train(prepare(collected.campaign, collected.perturbed, method, folder=tmp_path)), tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".jsonl", ".npz"}


def test_an_interrupted_training_goes_on_and_other_reports_begin_anew(collected: Collected, tmp_path: Path) -> None:
    def interrupted(state: object) -> None:
        raise KeyboardInterrupt

    def fitted(perturbed: PerturbedGraph, folder: Path | None) -> Trained:
        method = method_for_graph("rgnn", perturbed.graph, epochs=25, device="cpu")
        return train(prepare(collected.campaign, perturbed, method, folder=folder))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RGNN, "predict_proba", interrupted)  # after the last epoch, before anything is saved
        with pytest.raises(KeyboardInterrupt):
            save(fitted(collected.perturbed, tmp_path), tmp_path)
    resumed, whole = fitted(collected.perturbed, tmp_path), fitted(collected.perturbed, None)
    assert resumed.facts["resumed_after_epochs"] == 20
    np.testing.assert_array_equal(resumed.method.predict_proba(), whole.method.predict_proba())
    labels = (collected.perturbed.labels + 1) % collected.private.schema.num_classes
    assert fitted(replace(collected.perturbed, labels=labels), tmp_path).facts["resumed_after_epochs"] == 0


@pytest.mark.parametrize("missing", ["training.json", "campaign.json", "reports.jsonl"])
def test_an_unfinished_model_is_refused(trained: Path, tmp_path: Path, missing: str) -> None:
    for path in trained.iterdir():
        if path.name != missing:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(RunError, match="no model"):
        Model.load(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": "id\nnobody\n"}, "neither an edge nor a report"),
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
    if "nodes" in options:
        (tmp_path / "whom.csv").write_text(options["nodes"], encoding="utf-8")
        given["nodes"] = tmp_path / "whom.csv"
    assert collected.command("predict", **given) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "u:p" not in error
    assert len(error.strip().splitlines()) == 1


def test_training_prints_what_it_did_as_json(collected: Collected, capsys: pytest.CaptureFixture[str]) -> None:
    files = {"campaign": collected.folder / "campaign.json", "graph": collected.folder / "edges.csv"}
    files |= {"nodes": collected.folder / "nodes.csv", "out": collected.folder / "other"}
    words = [str(word) for key, value in files.items() for word in (f"--{key}", value)]
    assert main(["train", "--store", collected.store, *words, "--epochs", "2", "--device", "cpu", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["campaign"] == collected.campaign.id
    assert facts["guarantee"]["relations"]["user_level"] == "any two records"
    assert facts["label_reports"] == int(collected.perturbed.has_label.sum())
    assert facts["screening"]["excluded"] is False


def test_little_memory_means_blocks_and_the_same_model(
    collected: Collected,
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(gnn, "_BLOCK_NODES", 50)
    schema = collected.private.schema
    numbers = NODES * (3 * schema.num_features + HIDDEN + 12 * schema.num_classes)  # all features are binary
    assert collected.train(out=tmp_path / "model", memory=f"{4 * numbers / 1000:.3f}KB") == 0
    assert "blocks of at most 50" in capsys.readouterr().err
    found, expected = (Model.load(folder, device="cpu").method for folder in (tmp_path / "model", trained))
    # Sums over nodes are rounded otherwise, which fifteen steps spread a little.
    np.testing.assert_allclose(found.predict_proba(), expected.predict_proba(), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("memory", "message"), [("plenty", "memory is 'plenty'"), ("1KB", "allow more memory")])
def test_memory_that_cannot_be_is_refused(
    collected: Collected, tmp_path: Path, capsys: pytest.CaptureFixture[str], memory: str, message: str
) -> None:
    assert collected.train(out=tmp_path / "model", memory=memory) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "model").exists()


def test_what_is_implausible_is_counted_or_left_out(
    collected: Collected, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    reports = list(reports_of(collected.perturbed, collected.campaign))
    copied = next(report.features for report in reports if report.features is not None)
    store.put([replace(r, features=copied) for r in reports[:20]] + reports[20:], now=0)
    store.close()
    files = {"campaign": "campaign.json", "graph": "edges.csv", "nodes": "nodes.csv"}
    words = [str(word) for key, name in files.items() for word in (f"--{key}", collected.folder / name)]
    words += ["--store", f"sqlite:///{tmp_path}/reports.db", "--out", str(tmp_path / "model"), "--epochs", "1"]
    for screen, fate in (([], "kept, --screen leaves them out"), (["--screen"], "left out")):
        assert main(["train", *words, "--device", "cpu", *screen]) == 0
        assert f"20 implausible (copies), 0.01 expected at most: {fate}" in capsys.readouterr().out
    facts = json.loads((tmp_path / "model" / "training.json").read_text(encoding="utf-8"))
    assert facts["screening"]["excluded"]
    assert facts["feature_reports"] < int(collected.perturbed.has_features.sum())
