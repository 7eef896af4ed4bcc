"""The card of a model: from reports alone, beside a model that is whole, and without a person's name."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.support.collected import NODES, Collected
from tests.support.trained import train_files, train_reports
from veilgraph.campaign.assemble import perturbed_graph, reports_of
from veilgraph.collector.store import ReportStore
from veilgraph.deploy import Model, complete_card, make_card, read_card
from veilgraph.deploy.learning_curve import expected_help
from veilgraph.errors import RunError
from veilgraph.evaluation import accuracy
from veilgraph.graph import Graph
from veilgraph.pages.model_card import render_card_page
from veilgraph.progress import Progress, no_progress

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def sets(collection: Callable[[str], Collected]) -> Collected:
    return collection("label sets")


@pytest.fixture(scope="module")
def folder(sets: Collected) -> Path:
    assert sets.command("train", store=sets.store, out=sets.folder / "veil", **sets.files()) == 0
    return sets.folder / "veil"


def test_a_card_says_what_was_collected_and_what_it_reveals(sets: Collected, folder: Path) -> None:
    card, lines = read_card(folder), (folder / "reports.jsonl").read_text().splitlines(keepends=True)
    assert card["campaign"]["id"] == sets.campaign.id
    assert card["campaign"]["classes"] == list(sets.campaign.schema.classes)
    assert card["guarantee"] == sets.campaign.guarantee.as_dict()
    assert "any two records" in card["guarantee_in_words"][0]
    assert card["reports"]["total"] == len(lines) == int(sets.perturbed.has_label.sum())
    assert card["reports"]["sha256"] == hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()
    assert card["withdrawn_since"] == 0


def test_estimates_of_a_card_hold_the_truth(sets: Collected, folder: Path) -> None:
    card, model = read_card(folder), Model.load(folder, device="cpu")
    without = model.method.predict_without_own_report(sets.perturbed)
    assert without is not None
    everyone = np.ones(NODES, dtype=np.bool_)
    found = card["accuracy"]
    # One collection with a fixed seed; how often intervals hold the truth is measured in models/test_unused_reports.
    assert found["model"]["low"] <= accuracy(without.argmax(axis=1), sets.private, everyone) <= found["model"]["high"]
    reported = sets.perturbed.has_label
    own = accuracy(model.method.predict(), sets.private, reported)
    assert found["own_report"]["low"] <= own <= found["own_report"]["high"]
    largest = np.bincount(sets.private.labels).max() / NODES
    assert found["floor"]["low"] <= largest <= found["floor"]["high"]
    assert found["floor"]["reports"] == reported.sum()
    assert found["features"] is None  # none were asked for
    assert [row["name"] for row in card["by_class"]] == list(sets.campaign.schema.classes)
    assert sum(each["found"]["reports"] for each in card["calibration"]) == reported.sum()


def test_numbers_of_people_add_up(sets: Collected, folder: Path) -> None:
    card = read_card(folder)
    uncertain = card["uncertain"]
    for rows in (uncertain["by_class"], uncertain["by_degree"]):
        assert sum(row["people"] for row in rows) == NODES
        assert sum(row["uncertain"] for row in rows) == uncertain["people"]
    other = uncertain["other_folds"]
    assert (other["of"], other["silent"]) == (NODES, int((~sets.perturbed.has_label).sum()))
    assert 0 < other["changed"] < uncertain["people"]  # certain answers hardly depend on the folds
    assert other["silent_changed"] <= min(other["changed"], other["silent"])
    groups = card["sets"]["groups"]
    assert {name: group["people"] for name, group in groups.items()} == {
        "reported": int(sets.perturbed.has_label.sum()),
        "silent": int((~sets.perturbed.has_label).sum()),
    }
    for group in groups.values():
        assert sum(group["sizes"]) == group["people"]


def test_single_classes_are_judged_on_the_same_people_as_predictions(sets: Collected) -> None:
    """Nothing is known of people without contacts who sent nothing: their set has all classes."""
    names = [*sets.perturbed.graph.names, *(f"hermit{number}" for number in range(60))]
    graph = Graph.from_edges(sets.perturbed.graph.edges, len(names), node_ids=names)
    campaign = replace(
        sets.campaign, asked=replace(sets.campaign.asked, nodes=len(names), graph_sha256=graph.fingerprint)
    )
    sent = [replace(each, campaign=campaign.id) for each in reports_of(sets.perturbed, sets.campaign)]
    sent += [replace(each, node=name) for each, name in zip(sent, names[NODES : NODES + 50], strict=False)]
    perturbed = perturbed_graph(campaign, graph, sent)
    model = train_reports(campaign, perturbed, method="veil_labels", device="cpu")
    found = make_card(model, perturbed, shares=()).content["sets"]
    judged = model.method.unused_reports(perturbed)
    assert judged is not None
    nobody = np.zeros(len(judged.nodes), dtype=np.bool_)
    one_class = model.method.conformal_sets().sets(judged.probabilities.astype(np.float32), nobody, 0.9).sum(1) == 1
    linked = graph.degrees[judged.nodes] > 0
    assert (~linked).sum() >= 50
    assert found["single"]["share"] == (one_class & linked).mean() != one_class[linked].mean()
    assert found["single"]["accuracy"]["reports"] == (one_class & linked).sum()
    isolated = (graph.degrees == 0) & ~perturbed.has_label
    assert found["unknown"] == isolated.sum() >= 10
    assert found["groups"]["silent"]["sizes"][-1] >= found["unknown"]


def test_the_next_hundred_reports_bring_something_or_nothing(folder: Path) -> None:
    curve = read_card(folder)["learning_curve"]
    hundred = curve["next_hundred"]
    assert hundred["value"] is None
    assert hundred["low"] <= 0 < hundred["high"] < 1


def test_people_are_named_in_a_table_of_their_own_that_only_the_owner_reads(sets: Collected, folder: Path) -> None:
    for name in ("card.json", "card.html"):
        text = (folder / name).read_text(encoding="utf-8")
        assert not re.search(r"\bu\d+\b", text), f"{name} names a person"
    assert stat.S_IMODE((folder / "people.csv").stat().st_mode) == 0o600
    people = pd.read_csv(folder / "people.csv")
    silent = {name for name, has in zip(sets.perturbed.graph.names, sets.perturbed.has_label, strict=True) if not has}
    ranked = people[people["help_rank"].notna()]
    assert set(ranked["id"]) == silent
    assert ranked["help_rank"].tolist() == list(range(1, len(silent) + 1))
    others = people[people["help_rank"].isna()]
    assert not others["certain"].any()
    assert others["reported_label"].all()


def test_nobody_is_asked_again_who_withdrew_or_objected(sets: Collected, tmp_path: Path) -> None:
    copy, out = tmp_path / "reports.db", tmp_path / "model"
    shutil.copy(sets.store.removeprefix("sqlite:///"), copy)
    silent = [n for n, has in zip(sets.perturbed.graph.names, sets.perturbed.has_label, strict=True) if not has]
    reporter = next(n for n, has in zip(sets.perturbed.graph.names, sets.perturbed.has_label, strict=True) if has)
    gone = {silent[0], reporter}
    store = ReportStore.open(f"sqlite:///{copy}", create=False)
    store.withdrawals.withdraw(sets.campaign.id, reporter, now=0)
    store.withdrawals.withdraw(sets.campaign.id, silent[0], now=0)
    options: dict[str, Any] = {"method": "structure_only", "device": "cpu", **sets.files()}
    train_files(f"sqlite:///{copy}", out=out, **options)
    ranked = pd.read_csv(out / "people.csv").dropna(subset="help_rank")
    assert set(ranked["id"]) == set(silent) - gone
    assert gone.isdisjoint(pd.read_csv(out / "people.csv")["id"])
    store.withdrawals.withdraw(sets.campaign.id, silent[1], now=0)
    store.close()
    complete_card(out, sets.perturbed.graph, store=f"sqlite:///{copy}", device="cpu")
    left = pd.read_csv(out / "people.csv")
    assert {silent[1], *gone}.isdisjoint(left["id"])
    assert left["help_rank"].dropna().tolist() == list(range(1, len(silent) - 1))


def test_the_learning_curve_ends_with_all_reports(folder: Path) -> None:
    curve = read_card(folder)["learning_curve"]
    assert [point["share"] for point in curve["points"]] == [0.25, 0.5, 1.0]
    assert [point["learned_from"] for point in curve["points"]] == sorted(p["learned_from"] for p in curve["points"])
    last = curve["points"][-1]
    assert last["accuracy"] == read_card(folder)["accuracy"]["model"]
    assert (last["gain"]["low"], last["gain"]["high"]) == (0, 0)
    assert curve["left_out"] == [0.125, 0.75]


def test_the_command_completes_the_curve_once_and_counts_withdrawals(
    sets: Collected, folder: Path, capsys: Capture
) -> None:
    before = read_card(folder)
    words = {"graph": sets.folder / "edges.csv", "nodes": sets.folder / "nodes.csv"}
    assert sets.command("train", card=folder, **words) == 0
    assert "more of them" not in capsys.readouterr().out
    completed = read_card(folder)
    assert [point["share"] for point in completed["learning_curve"]["points"]] == [0.125, 0.25, 0.5, 0.75, 1.0]
    assert completed["learning_curve"]["points"][1] == before["learning_curve"]["points"][0]
    assert completed["accuracy"] == before["accuracy"]
    assert completed["withdrawn_since"] is None
    store = ReportStore.open(sets.store)
    node = next(Model.load(folder, device="cpu").reports()).node
    store.withdrawals.withdraw(sets.campaign.id, node, now=0)
    store.close()
    assert sets.command("train", card=folder, store=sets.store, **words) == 0
    printed = capsys.readouterr()
    assert "1 person withdrew since the training" in printed.out
    assert "card: " not in printed.err, "the curve is computed once"
    assert "withdrew after this model was trained" in (folder / "card.html").read_text(encoding="utf-8")
    predict = {"model": folder, "graph": sets.folder / "edges.csv", "out": folder.with_suffix(".csv")}
    assert sets.command("predict", store=sets.store, **predict) == 0
    assert "1 person withdrew since the training" in capsys.readouterr().out


def test_without_the_laboratory_there_is_no_page_and_one_sentence_with_the_remedy(
    collected: Collected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib" or "veilgraph.pages" in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert collected.train(out=tmp_path / "model", epochs=1) == 0
    (line,) = [each for each in capsys.readouterr().out.splitlines() if "card.html" in each]
    assert line == "No card.html: this needs matplotlib, which is not installed: pip install 'veilgraph[lab]'"
    assert {path.name for path in (tmp_path / "model").glob("card.*")} == {"card.json"}


def test_a_card_of_another_graph_is_refused(sets: Collected, folder: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "edges.csv").write_text("a,b\nu0,u1\n", encoding="utf-8")
    assert sets.command("train", card=folder, graph=tmp_path / "edges.csv") == 2
    assert "is not the campaign's" in capsys.readouterr().err


def test_a_card_that_is_interrupted_leaves_a_whole_model(sets: Collected, tmp_path: Path) -> None:
    @contextmanager
    def interrupted(task: str) -> Iterator[Progress]:
        if task == "card":
            raise KeyboardInterrupt
        yield no_progress

    with pytest.raises(KeyboardInterrupt):
        train_files(sets.store, out=tmp_path / "model", device="cpu", watch=interrupted, **sets.files())
    assert Model.load(tmp_path / "model", device="cpu").facts["method"] == "veil"
    with pytest.raises(RunError, match="'veilgraph train --card' writes one"):
        read_card(tmp_path / "model")


def test_training_again_removes_the_card_of_the_older_model(sets: Collected, tmp_path: Path) -> None:
    options: dict[str, Any] = {"out": tmp_path / "model", "method": "structure_only", "device": "cpu", **sets.files()}
    train_files(sets.store, **options)
    assert read_card(tmp_path / "model")["judged_by"] == "out of fold"
    assert read_card(tmp_path / "model")["learning_curve"]["points"] == []
    train_files(sets.store, card=False, **options)
    assert not {"card.json", "people.csv"} & {path.name for path in (tmp_path / "model").iterdir()}


def test_a_gnn_is_judged_by_labels_that_were_held_out_or_not_at_all(
    collected: Collected, trained: Path, tmp_path: Path, capsys: Capture
) -> None:
    card = read_card(trained)
    assert card["judged_by"] is card["accuracy"]["model"] is card["calibration"] is None
    assert "--set hold_out" in (trained / "card.html").read_text(encoding="utf-8")
    assert collected.train(out=tmp_path / "model", epochs=2, hold_out=0.3) == 0
    told = capsys.readouterr().out
    assert "held out of the training" in told
    card, facts = read_card(tmp_path / "model"), json.loads((tmp_path / "model" / "training.json").read_text())
    assert f"on {facts['feature_reports']:,} feature reports and {card['reports']['label']:,} label reports" in told
    assert f"without {facts['held_out']:,} that are held out" in told
    assert card["judged_by"] == "held out"
    estimate = facts["estimated_accuracy"]["rgnn"]["accuracy"]
    assert card["accuracy"]["model"]["value"] == pytest.approx(min(max(estimate, 0), 1))
    assert card["accuracy"]["model"]["reports"] == facts["held_out"]
    assert card["by_class"]


def test_a_model_of_several_processes_has_a_card_without_estimates(trained: Path) -> None:
    card = make_card(Model.load(trained, device="cpu"), None)
    assert card.content["accuracy"]["model"] is card.content["uncertain"] is None
    assert card.content["reports"] == read_card(trained)["reports"]
    assert "could not be estimated" in render_card_page(card.content)


def test_help_is_uncertainty_that_a_report_reaches(sets: Collected) -> None:
    graph = sets.perturbed.graph
    certain = np.eye(2)[np.zeros(NODES, dtype=np.int64)]
    assert expected_help(graph, certain) == pytest.approx(0)
    one = certain.copy()
    one[0] = 0.5
    help_for_one = expected_help(graph, one)
    neighbours = graph.edge_index[1][graph.edge_index[0] == 0]
    assert help_for_one.argmax() == 0
    assert (help_for_one[neighbours] > np.median(help_for_one)).all()
