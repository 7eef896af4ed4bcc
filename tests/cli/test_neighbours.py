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


def test_a_plan_recommends_from_public_information(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    quick = partial(plan_neighbours, simulate=lambda design, private, seed: design.epsilon_y / 10)
    monkeypatch.setattr(planner_module, "plan_neighbours", quick)
    plan = ["neighbours", "plan", "--epsilon=4", "--people=120", "--degree=8", "--classes=2", "--answer=class"]
    assert main([*plan, "--homophily=0.9", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["recommended"] == found["designs"][0]
    assert found["homophilies"] == [0.9]
    assert found["randomized_adjacency"] is None  # it protects no whole list
    assert main([*plan[:-1], "--json"]) == 0
    known = json.loads(capsys.readouterr().out)["randomized_adjacency"]
    assert (known["report_bytes"], known["better"]) == (15, True)
    assert main(plan[:-1]) == 0
    assert "is the better choice here" in (told := " ".join(capsys.readouterr().out.split()))
    assert "15 bytes" in told
    assert "one entry of a list" in told
    assert main(["neighbours", "plan", "--epsilon=4", "--people=10000000", "--degree=8", "--classes=2"]) == 0
    assert "would drown true neighbours: a report of 1,250,000 bytes" in " ".join(capsys.readouterr().out.split())
    assert main([*plan, "--answer=list"]) == 2
    assert "choose histogram or class" in capsys.readouterr().err
