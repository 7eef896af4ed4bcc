"""`veilgraph plan` from end to end, with simulations that take no time."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

import veilgraph.experiments.budget_planner as planner_module
from veilgraph.campaign import Campaign
from veilgraph.cli import main
from veilgraph.datasets import csbm
from veilgraph.experiments.budget_planner import plan_collection
from veilgraph.graph import Graph

Capture = pytest.CaptureFixture[str]
PRIVATE = csbm(60, num_classes=3, mean_degree=4, num_features=6, seed=0)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    quick = partial(
        plan_collection, simulate=lambda trials: [0.5 + 0.01 * each.candidate.label.epsilon for each in trials]
    )
    monkeypatch.setattr(planner_module, "plan_collection", quick)
    PRIVATE.schema.save(tmp_path / "schema.toml")
    edges = "\n".join(f"{a},{b}" for a, b in PRIVATE.graph.edges.T)
    (tmp_path / "edges.csv").write_text(f"from,to\n{edges}\n", encoding="utf-8")
    return [f"--schema={tmp_path / 'schema.toml'}", f"--graph={tmp_path / 'edges.csv'}"]


def test_json_has_everything(files: list[str], capsys: Capture) -> None:
    assert main(["plan", "--epsilon=2", *files, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {
        "recommended", "expected_accuracy", "candidates", "scenarios", "assumptions", "out", "next"
    }  # fmt: skip
    assert found["recommended"]["label"] == {"mechanism": "grr", "epsilon_y": 2, "size": 1}
    assert found["recommended"]["features"] is None
    assert found["recommended"]["user_level"]["total"] == pytest.approx(2, abs=1e-6)
    assert found["expected_accuracy"] == {"low": 0.52, "high": 0.52, "probability": 0.9}
    half = found["candidates"][-1]
    assert half["user_level"]["total"] == pytest.approx(1, abs=1e-6)
    assert half["accuracy_lost"] == pytest.approx(0.01)
    joint = found["candidates"][2]["features"]
    assert joint["mechanism"] == "joint-grr"
    assert joint["sampled"] * joint["epsilon_x"] == pytest.approx(1)


def test_words_name_the_neighbour_relation_the_reason_and_the_next_command(files: list[str], capsys: Capture) -> None:
    assert main(["plan", "--epsilon=2", *files, "--homophily=0.7", "--feature-signal=0.2"]) == 0
    text = capsys.readouterr().out
    assert "Recommended: label alone by GRR." in text
    assert "any two records" in text
    assert "52% to 52% (90% interval)" in text
    assert "It is wide because" not in text
    assert "Assumed:" in text
    assert "--out plan.json" in text


def test_a_wide_interval_says_why(files: list[str], capsys: Capture) -> None:
    assert main(["plan", "--epsilon=2", *files]) == 0
    text = capsys.readouterr().out
    assert "It is wide because the graph does not tell the homophily" in text
    assert "--homophily 0.8" in text


def test_a_plan_becomes_a_campaign(files: list[str], tmp_path: Path, capsys: Capture) -> None:
    out, campaign = tmp_path / "plan.json", tmp_path / "campaign.json"
    assert main(["plan", "--epsilon=2", *files, "--label=vote", f"--out={out}"]) == 0
    following = next(line.split() for line in capsys.readouterr().out.splitlines() if "campaign new" in line)
    assert following[:5] == ["veilgraph", "campaign", "new", "--plan", str(out)]
    rest = ["--purpose=P", "--contact=C", "--closes=2100-01-01", f"--out={campaign}"]
    assert main(["campaign", "new", f"--plan={out}", *rest]) == 0
    made = Campaign.from_json(campaign.read_bytes())
    assert (made.label, made.schema, made.graph) == ("vote", PRIVATE.schema, graph_of(files).fingerprint)
    assert made.guarantee.total_user_level == pytest.approx(2)
    # Twice the same plan is an error before anything is simulated.
    assert main(["plan", "--epsilon=2", *files, f"--out={out}"]) == 2
    assert "exists" in capsys.readouterr().err


def graph_of(files: list[str]) -> Graph:
    return Graph.from_files(Path(files[1].partition("=")[2]))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (["--epsilon=0"], "epsilon is 0.0"),
        (["--epsilon=2", "--label-share=2"], "label_share is 2.0"),
        (["--epsilon=2", "--graph=nowhere.csv"], "nowhere.csv"),
        (["--epsilon=2", "--homophily=1.5"], "homophily is 1.5"),
        (["--epsilon=2", "--label=x0", "--out=plan.json"], "'x0' is both a column and the label"),
    ],
)
def test_mistakes_are_one_line(changed: list[str], message: str, files: list[str], capsys: Capture) -> None:
    assert main(["plan", *files, *changed]) == 2
    assert message in capsys.readouterr().err


LISTS = ["--classes=4", "--neighbours=histogram", "--edge-epsilon=1", "--edge-epsilon=3"]


def test_account_of_private_neighbours_states_every_relation_beside_the_label(capsys: Capture) -> None:
    assert main(["account", "--epsilon-y=2", *LISTS]) == 0
    text = capsys.readouterr().out
    assert "any two records with the same neighbour list: epsilon = 2.0000" in text
    assert "Two neighbour lists of any length: not private." in text
    assert "one with a neighbour more: epsilon = 4.0000 for 2 waves together; 6.0000 if the rest" in text
    assert "which both ends report, or neither: epsilon = 8.0000" in text
    assert main(["account", *LISTS, "--cap=2", "--json"]) == 0
    lists = json.loads(capsys.readouterr().out)["neighbours"]["lists"]
    assert lists == pytest.approx({"any_lists": 32, "one_entry": 4, "one_relationship": 8}, abs=1e-6)


def test_audit_of_private_neighbours_draws_all_waves_for_each_relation(capsys: Capture) -> None:
    assert main(["audit", *LISTS, "--trials=2000", "--seed=1", "--json"]) == 0
    audits = json.loads(capsys.readouterr().out)["audits"]
    assert [round(each["claim"], 6) for each in audits] == [4, 8]
    assert not any(each["refuted"] for each in audits)
    assert main(["audit", *LISTS, "--trials=5000", "--seed=1", "--claim=2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["refuted"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--neighbours=names", "--edge-epsilon=1"], "choose class, histogram or list"),
        (["--neighbours=class"], "give --edge-epsilon once for each wave"),
        (["--neighbours=class", "--edge-epsilon=1", "--cap=3"], "--cap is for histograms"),
        (["--epsilon-y=1", "--edge-epsilon=1"], "give --neighbours"),
    ],
)
def test_a_question_about_neighbours_that_makes_no_sense_is_refused(
    options: list[str], reason: str, capsys: Capture
) -> None:
    assert main(["account", *options]) == 2
    assert reason in capsys.readouterr().err
