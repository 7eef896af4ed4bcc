"""`veilgraph neighbours` from end to end, on the smallest embedded graph."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

import veilgraph.experiments.neighbour_planner as planner_module
from veilgraph.cli import main
from veilgraph.experiments.neighbour_planner import plan_neighbours

Capture = pytest.CaptureFixture[str]


def test_a_run_writes_a_page_with_floor_ceiling_and_every_relation(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "out"
    run = ["neighbours", "run", "--dataset=patients", "--edge-epsilon=4", "--seeds=1", f"--out={folder}"]
    assert main([*run, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert list(result["answers"]) == ["histogram", "class"]
    assert set(result["levels"]) == {"label_alone", "public_graph"}
    assert result["answers"]["class"][0]["guarantee"]["neighbours"]["lists"]["any_lists"] == pytest.approx(4, abs=1e-6)
    assert result["answers"]["histogram"][0]["guarantee"]["neighbours"]["lists"]["any_lists"] == "not private"
    page = (folder / "report.html").read_text(encoding="utf-8")
    for part in (
        "if the graph were public",
        "Own label alone",
        "Whole lists are not protected",
        "any two lists",
        "<svg",
    ):
        assert part in page
    assert main(run) == 2
    assert "choose another --out" in capsys.readouterr().err


def test_a_run_spends_a_feature_budget_and_prints_it_beside_the_lists(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "out"
    run = ["neighbours", "run", "--dataset=patients", "--edge-epsilon=4", "--seeds=1", "--first-seed=3"]
    assert main([*run, "--epsilon-x=1", "--sampled=2", f"--out={folder}", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["epsilon_x"], result["sampled"], result["seeds"]) == (1.0, 2, [3])
    assert set(result["levels"]) == {"label_alone", "label_and_features", "public_graph"}
    point = result["answers"]["histogram"][0]
    assert point["guarantee"]["user_level"]["features"] == pytest.approx(2, abs=1e-6)
    assert point["guarantee"]["neighbours"]["lists_and_record"]["one_entry"] == pytest.approx(8, abs=1e-6)
    sentences = " ".join(point["guarantee_in_words"])
    for part in ("(features 2.0000, label 2.0000)", "Attribute level", "One entry", "8.0000 if the rest of the record"):
        assert part in sentences
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Own label and features alone" in page
    assert "2 times 1 for features" in page
    assert main([*run, "--epsilon-x=1", f"--out={tmp_path / 'other'}"]) == 2
    assert "belong together" in capsys.readouterr().err


def test_a_plan_recommends_from_public_information(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    quick = partial(plan_neighbours, simulate=lambda design, private, seed: design.epsilon_y / 10)
    monkeypatch.setattr(planner_module, "plan_neighbours", quick)
    plan = ["neighbours", "plan", "--epsilon=4", "--people=120", "--degree=8", "--classes=2", "--answer=class"]
    assert main([*plan, "--homophily=0.9", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["recommended"] == found["designs"][0]
    assert found["homophilies"] == [0.9]
    assert found["download_bytes"] == {"table": 294, "people": 411}
    assert found["randomized_adjacency"] is None  # it protects no whole list
    assert main([*plan[:-1], "--json"]) == 0
    known = json.loads(capsys.readouterr().out)["randomized_adjacency"]
    assert (known["report_bytes"], known["better"]) == (15, True)
    assert main(plan[:-1]) == 0
    assert "is the better choice here" in (told := " ".join(capsys.readouterr().out.split()))
    assert "15 bytes" in told
    assert "one entry of a list" in told
    assert main(["neighbours", "plan", "--epsilon=4", "--people=10000000", "--degree=8", "--classes=2"]) == 0
    assert "would drown true neighbours: a report of 1,250,000 bytes" in (
        told := " ".join(capsys.readouterr().out.split())
    )
    assert "downloads 51,250,099 bytes for the first wave" in told
    assert "Each later wave takes 20,000,059 bytes." in told
    assert main(plan) == 0
    assert "Features are left out: each that a person answers would cost" in " ".join(capsys.readouterr().out.split())
    assert main([*plan, "--epsilon-x=0.5", "--sampled=2"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "2 features at 0.5 each" in told
    assert "The features cost 1 of the total at user level (any two records)." in told
    assert main([*plan, "--epsilon-x=0.5", "--sampled=2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["recommended"]["guarantee"]["user_level"]["features"] == pytest.approx(1, abs=1e-6)
    assert found["without_features"]["accuracies"] > found["recommended"]["accuracies"]
    assert main([*plan, "--answer=list"]) == 2
    assert "choose histogram or class" in capsys.readouterr().err
