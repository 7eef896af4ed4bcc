"""`veilgraph plan` from end to end, with simulations that take no time."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

import veilgraph.experiments.budget_planner as planner_module
from veilgraph.cli import main
from veilgraph.datasets import csbm
from veilgraph.experiments.budget_planner import plan_collection

Capture = pytest.CaptureFixture[str]
PRIVATE = csbm(60, num_classes=3, mean_degree=4, num_features=6, seed=0)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    quick = partial(plan_collection, score=lambda model, features, label, share, seed: 0.5 + 0.01 * label.epsilon)
    monkeypatch.setattr(planner_module, "plan_collection", quick)
    PRIVATE.schema.save(tmp_path / "schema.toml")
    edges = "\n".join(f"{a},{b}" for a, b in PRIVATE.graph.edges.T)
    (tmp_path / "edges.csv").write_text(f"from,to\n{edges}\n", encoding="utf-8")
    return [f"--schema={tmp_path / 'schema.toml'}", f"--graph={tmp_path / 'edges.csv'}"]


def test_json_has_everything(files: list[str], capsys: Capture) -> None:
    assert main(["plan", "--epsilon=2", *files, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"recommended", "expected_accuracy", "candidates", "scenarios", "assumptions"}
    assert found["recommended"]["epsilon_y"] == 2
    assert found["recommended"]["sampled"] == 0
    assert found["recommended"]["epsilon_user_level"] == pytest.approx(2, abs=1e-6)
    assert len(found["candidates"]) == 5
    half = next(each for each in found["candidates"] if each["label_share"] == 0.5)
    assert half["mechanism"] == "joint-grr"
    assert half["sampled"] * half["epsilon_x"] == pytest.approx(1)


def test_words_name_the_neighbour_relation_and_the_assumptions(files: list[str], capsys: Capture) -> None:
    assert main(["plan", "--epsilon=2", *files, "--homophily=0.7", "--feature-signal=0.2"]) == 0
    text = capsys.readouterr().out
    assert "Ask for the label alone: GRR with epsilon_y = 2." in text
    assert "any two records" in text
    assert "Assumed:" in text
    assert "70%" in text


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (["--epsilon=0"], "epsilon is 0.0"),
        (["--epsilon=2", "--label-share=2"], "label_share is 2.0"),
        (["--epsilon=2", "--graph=nowhere.csv"], "nowhere.csv"),
    ],
)
def test_mistakes_are_one_line(changed: list[str], message: str, files: list[str], capsys: Capture) -> None:
    assert main(["plan", *files, *changed]) == 2
    assert message in capsys.readouterr().err
