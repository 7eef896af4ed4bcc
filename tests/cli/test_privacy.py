"""`veilgraph plan` with simulations that take no time, and `account` and `audit` of private neighbours."""

from __future__ import annotations

import json
import shlex
from functools import partial
from pathlib import Path

import pytest

import veilgraph.experiments.budget_planner as planner_module
from tests.support.neighbour_series import CLASS, waves_of
from veilgraph.campaign import Campaign
from veilgraph.campaign.neighbours.wave import series_of
from veilgraph.cli import main
from veilgraph.datasets import csbm
from veilgraph.experiments.budget_planner import plan_collection
from veilgraph.graph import Graph
from veilgraph.privacy.mechanisms import NeighbourhoodClass

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
        "recommended", "expected_accuracy", "largest_class", "by_assortativity", "public_columns", "candidates",
        "scenarios", "assumptions", "people", "links", "people_without_links", "out", "next", "with_public"
    }  # fmt: skip
    assert found["recommended"]["label"] == {"mechanism": "grr", "epsilon_y": 2, "size": 1}
    assert found["recommended"]["features"] is None
    assert found["recommended"]["user_level"]["total"] == pytest.approx(2, abs=1e-6)
    assert found["expected_accuracy"] == {"low": 0.52, "high": 0.52, "probability": 0.9}
    assert 0.3 < found["largest_class"]["low"] < found["largest_class"]["high"] < 1
    assert [set(third) for third in found["by_assortativity"]] == [
        {"assortativity", "homophily", "accuracy", "largest_class"}
    ] * 3
    half = found["candidates"][-1]
    assert half["user_level"]["total"] == pytest.approx(1, abs=1e-6)
    assert half["accuracy_lost"] == pytest.approx(0.01)
    joint = found["candidates"][2]["features"]
    assert joint["mechanism"] == "joint-grr"
    assert joint["sampled"] * joint["epsilon_x"] == pytest.approx(1)


def test_what_a_schema_says_is_not_said_twice_and_other_questions_make_no_sense(
    tmp_path: Path, capsys: Capture
) -> None:
    PRIVATE.schema.save(tmp_path / "schema.toml")
    said = [*FEATURES, "--epsilon-y=1", f"--schema={tmp_path / 'schema.toml'}"]
    twice = [[*said, option] for option in ("--classes=3", "--set=domain_sizes=2,2", "--set=domain_size=3")]
    for options, reason in (
        *((each, "would change nothing: the schema says it") for each in twice),
        (["--set=neighbours=names", "--set=edge_epsilon=1"], "choose histogram, class or list"),
        (["--set=neighbours=class"], "give an edge epsilon for each wave"),
        (["--set=neighbours=class", "--set=edge_epsilon=1", "--set=cap=3"], "cap is for histograms"),
    ):
        assert main(["account", *options]) == 2
        assert reason in capsys.readouterr().err


def test_every_expected_accuracy_names_its_condition(files: list[str], capsys: Capture) -> None:
    assert main(["plan", "--epsilon=2", *files]) == 0
    text = capsys.readouterr().out
    assert "if they do not follow them: as right as the largest class" in text
    assert all("if they follow them by" in line for line in text.splitlines() if "52 % right" in line)
    assert "--set homophily=0.8" in text
    assert main(["plan", "--epsilon=2", *files, "--set=homophily=0.7", "--set=feature_signal=0.2"]) == 0
    text = capsys.readouterr().out
    for words in (
        *("Recommended: label alone by GRR.", "any two records", "52 % right, the largest class"),
        *("Assumed:", "--out plan.json"),
    ):
        assert words in text
    assert "--set homophily=" not in text


def test_the_command_that_a_plan_prints_begins_its_collection(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Without the table of people it failed where columns are public, and left people without links out in silence."""
    schema, out, people = tmp_path / "public.toml", tmp_path / "plan.json", tmp_path / "people.csv"
    schema.write_text('classes = ["a", "b", "c"]\n[[public]]\nname = "village"\n', encoding="utf-8")
    rows = "".join(f"{name},{'AB'[name % 2]}\n" for name in range(62))  # two of them have no link
    people.write_text(f"id,village\n{rows}", encoding="utf-8")
    asked = ["plan", "--epsilon=2", f"--schema={schema}", files[1], f"--out={out}"]
    assert main(asked) == 2
    assert "give the table of people" in capsys.readouterr().err
    assert not out.exists()
    assert main([*asked, f"--nodes={people}"]) == 0
    text = capsys.readouterr().out
    assert "Planned for 62 people" in text
    assert 'as closely as "village"' in text
    (command,) = (line for line in text.splitlines() if line.startswith("  veilgraph init"))
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(command)[1:]) == 0
    assert 'Known without asking, and used beside the answers: "village".' in capsys.readouterr().out


def test_a_plan_becomes_a_campaign(files: list[str], tmp_path: Path, capsys: Capture) -> None:
    out, campaign = tmp_path / "plan.json", tmp_path / "begun" / "campaign.json"
    assert main(["plan", "--epsilon=2", *files, "--label=vote", f"--out={out}"]) == 0
    following = next(line.split() for line in capsys.readouterr().out.splitlines() if "veilgraph init" in line)
    assert following[:5] == ["veilgraph", "init", "FOLDER", "--plan", str(out)]
    rest = ["--purpose=P", "--contact=C", "--closes=2100-01-01"]
    assert main(["init", str(campaign.parent), *following[3:7], *rest]) == 0
    made = Campaign.from_json(campaign.read_bytes())
    assert (made.label_name, made.graph_sha256) == ("vote", graph_of(files).fingerprint)
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
        (["--epsilon=2", "--set=label_share=2"], "label_share is 2.0"),
        (["--epsilon=2", "--graph=nowhere.csv"], "nowhere.csv"),
        (["--epsilon=2", "--set=homophily=1.5"], "homophily is 1.5"),
        (["--epsilon=2", "--label=x0", "--out=plan.json"], "'x0' is both a column and the label"),
    ],
)
def test_mistakes_are_one_line(changed: list[str], message: str, files: list[str], capsys: Capture) -> None:
    assert main(["plan", *files, *changed]) == 2
    assert message in capsys.readouterr().err


LISTS = ["--classes=4", "--set=neighbours=histogram", "--set=edge_epsilon=1,3"]


def test_account_of_private_neighbours_states_every_relation_beside_the_label(capsys: Capture) -> None:
    assert main(["account", "--epsilon-y=2", *LISTS]) == 0
    text = capsys.readouterr().out
    assert "any two records with the same neighbour list: epsilon = 2.0000" in text
    assert "Two neighbour lists of any length: not private." in text
    assert "one with a neighbour more: epsilon = 4.0000 for 2 waves together; 6.0000 if the rest" in text
    assert "which both ends report, or neither: epsilon = 8.0000" in text
    assert main(["account", *LISTS, "--set=cap=2", "--json"]) == 0
    lists = json.loads(capsys.readouterr().out)["neighbours"]["lists"]
    assert lists == pytest.approx({"any_lists": 32, "one_entry": 4, "one_relationship": 8}, abs=1e-6)


def test_audit_of_private_neighbours_draws_all_waves_for_each_relation(capsys: Capture) -> None:
    assert main(["account", "--audit", *LISTS, "--set=trials=2000", "--set=seed=1", "--json"]) == 0
    audits = json.loads(capsys.readouterr().out)["audits"]
    assert [round(each["claim"], 6) for each in audits] == [4, 8]
    assert not any(each["refuted"] for each in audits)
    assert main(["account", "--audit", *LISTS, "--set=trials=5000", "--set=seed=1", "--set=claim=2", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["refuted"]


@pytest.mark.parametrize(
    ("record", "mechanism"),
    [(["--epsilon-y=2"], "grr"), (["--epsilon-x=1", "--features=3", "--sampled=2"], "grr-fs")],
    ids=["label", "features"],
)
def test_audit_of_a_record_beside_its_list_bounds_both_and_names_each_relation(
    record: list[str], mechanism: str, capsys: Capture
) -> None:
    command = ["account", "--audit", *record, *LISTS, "--set=trials=1000", "--set=seed=1"]
    assert main([*command, "--json"]) == 0
    audits = json.loads(capsys.readouterr().out)["audits"]
    assert [(each["mechanism"], each["relation"], round(each["claim"], 6)) for each in audits] == [
        (mechanism, "user level: any two records with the same neighbour list", 2),
        ("histogram, 2 waves together", "one entry: two neighbour lists, one with a neighbour more", 4),
        ("histogram, 2 waves together", "one relationship: which both ends report, or neither", 8),
    ]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert f"{mechanism}, user level (any two records with the same neighbour list), 1,000 reports" in text
    assert "together, one entry (two neighbour lists, one with a neighbour more), 1,000 reports" in text
    assert text.count("Not refuted.") == 3


def test_audit_of_a_wave_in_turns_tests_what_the_document_claims(tmp_path: Path, capsys: Capture) -> None:
    path, dearer = tmp_path / "wave.json", NeighbourhoodClass(3, 4.0)
    wave = waves_of(dearer, CLASS, dearer, turns=4)[-1]
    path.write_text(wave.to_json(), encoding="utf-8")
    assert main(["account", "--audit", str(path), "--set=trials=4000", "--set=seed=1", "--json"]) == 0
    _, *audits = json.loads(capsys.readouterr().out)["audits"]
    claimed = series_of(wave.asked).guarantee_document["series"]["lists"]
    for key, of_ends in {"any_lists": 1, "one_entry": 1, "one_relationship": 2}.items():
        found = [each for each in audits if each["relation"].startswith(key.replace("_", " "))]
        asked = [each["mechanism"].partition(" (")[0] for each in found]
        assert asked == ["neighbour lists, any of the waves 1, 3", "neighbour lists, wave 2"]
        assert [each["claim"] for each in found] == pytest.approx([float(claimed[key])] * 2)
        assert [each["claim"] for each in found] == pytest.approx([4 * of_ends] * 2, abs=1e-6)
        # Wave 2 is drawn alone: its bound lies below its own epsilon, half of the claim.
        assert 2 * of_ends < found[0]["lower_bound"] <= 4 * of_ends
        assert found[1]["lower_bound"] <= 2 * of_ends
    assert main(["account", "--audit", str(path), "--set=trials=1000", "--set=seed=1"]) == 0
    assert "wave 2 (in turns: each person answers one of 4 waves), any lists (two" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["account"], ["account", "--audit"]], ids=["account", "audit"])
def test_a_randomized_list_is_asked_for_once(command: list[str], capsys: Capture) -> None:
    assert main([*command, "--set=neighbours=list", "--set=edge_epsilon=2,2"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "in one wave: give one budget" in captured.err


FEATURES = ["--epsilon-x=1", "--sampled=1"]
UNUSED: dict[str, tuple[list[str], str]] = {
    "a mechanism without features": (["--epsilon-y=1", "--set=mechanism=joint-grr"], "mechanism would change nothing"),
    "a number without features": (["--epsilon-y=1", "--features=3"], "features would change nothing"),
    "sizes without features": (["--epsilon-y=1", "--set=domain_sizes=2,3"], "domain_sizes would change nothing"),
    "features of a round without features": (
        ["--epsilon-y=1", "--set=rounds=2", "--set=round_epsilon_x=1"],
        "round_epsilon_x would change nothing",
    ),
    "a label of a round without a label": (
        [*FEATURES, "--features=1", "--set=rounds=2", "--set=round_epsilon=1"],
        "round_epsilon would change nothing",
    ),
    "classes without a label": ([*FEATURES, "--features=1", "--classes=3"], "classes would change nothing"),
    "classes of a list": (
        ["--set=neighbours=list", "--set=edge_epsilon=1", "--classes=3"],
        "classes would change nothing",
    ),
    "values without rounds": (["--epsilon-y=1", "--set=values=1"], "values would change nothing"),
    "rounds without a question": (
        ["--set=neighbours=class", "--set=edge_epsilon=1", "--set=rounds=2"],
        "rounds would change nothing",
    ),
    "a size beside all sizes": (
        [*FEATURES, "--set=domain_sizes=2,3", "--set=domain_size=4"],
        "domain_size would change nothing",
    ),
    "another number of features": (
        [*FEATURES, "--set=domain_sizes=2,3", "--features=1"],
        "but 2 domain sizes are given",
    ),
    "a cap without lists": (["--epsilon-y=1", "--set=cap=3"], "give --set neighbours"),
    "a budget without lists": (["--epsilon-y=1", "--set=edge_epsilon=1"], "give --set neighbours"),
    "no sampled feature": (["--epsilon-x=1", "--features=1", "--set=mechanism=grr", "--sampled=0"], "sampled is 0"),
}


def test_an_option_that_would_change_nothing_is_refused(capsys: Capture) -> None:
    for options, reason in UNUSED.values():
        for command in (["account"], ["account", "--audit"]):
            assert main([*command, *options]) == 2
            captured = capsys.readouterr()
            assert captured.out == ""
            assert reason in captured.err


@pytest.mark.parametrize("record", [["--epsilon-y=1"], ["--epsilon-x=1"]])
def test_a_claim_is_about_one_mechanism(record: list[str], capsys: Capture) -> None:
    assert main(["account", "--audit", *record, "--set=neighbours=class", "--set=edge_epsilon=1", "--set=claim=1"]) == 2
    assert "claim is about one mechanism" in capsys.readouterr().err
    both = ["--epsilon-x=1", "--epsilon-y=1", "--set=neighbours=class", "--set=edge_epsilon=1"]
    assert main(["account", "--audit", *both]) == 2
    assert "one mechanism is audited at a time" in capsys.readouterr().err
