"""The command line end to end, and its messages for mistakes."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import torch
import typer

from veilgraph.campaign import Campaign
from veilgraph.campaign.budget import CampaignBudget
from veilgraph.campaign.notice import Notice
from veilgraph.cli import main
from veilgraph.cli.app import run_app
from veilgraph.graph import Graph
from veilgraph.privacy.schema import Column, FeatureSchema

Capture = pytest.CaptureFixture[str]
QUICK = ["--dataset", "csbm", "--seeds", "2", "--set", "epochs=3", "--set", "sampled=5", "--device", "cpu"]
ONE_BUDGET = [*QUICK, "--set", "epsilon_x=1", "--set", "epsilon_y=1"]


def test_account_prints_the_exact_guarantee(tmp_path: Path, capsys: Capture) -> None:
    def guarantee(arguments: str) -> Any:
        assert main(["account", *arguments.split(), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    found = guarantee("--features 53 --set domain_size=2 --sampled 10 --epsilon-x 1 --epsilon-y 3")
    assert found["user_level"] == pytest.approx({"features": 10.0, "label": 3.0, "total": 13.0})
    assert found["theorem_1"] == pytest.approx(8.33, abs=0.005)
    assert found["attribute_level"]["features"][0] == pytest.approx(0.2808, abs=1e-4)
    unequal = guarantee("--set domain_sizes=2,3,4 --sampled 1 --epsilon-x 1")
    assert unequal["attribute_level"]["features"][2] == pytest.approx(0.4957, abs=1e-4)
    assert unequal["user_level"]["total"] == pytest.approx(1.0)
    assert guarantee("--features 3 --sampled 10 --epsilon-x 1")["user_level"]["total"] == pytest.approx(3.0)
    FeatureSchema.binary(8, classes=["a", "b", "c"]).save(tmp_path / "s.toml")
    assert main(["account", "--schema", str(tmp_path / "s.toml"), *["--sampled", "4", "--epsilon-x", ".5"]]) == 0
    assert "epsilon = 2.0000" in capsys.readouterr().out


@pytest.mark.parametrize("options", ["", "--classes 18", "--schema {schema}"])
def test_account_needs_no_features_where_the_label_alone_is_collected(
    options: str, tmp_path: Path, capsys: Capture
) -> None:
    FeatureSchema(classes=("a", "b", "c")).save(tmp_path / "schema.toml")
    arguments = f"account --epsilon-y 2 --json {options.format(schema=tmp_path / 'schema.toml')}"
    assert main(arguments.split()) == 0
    guarantee = json.loads(capsys.readouterr().out)
    assert guarantee["user_level"] == pytest.approx({"features": 0.0, "label": 2.0, "total": 2.0}, abs=1e-6)
    assert guarantee["attribute_level"]["features"] == []


def test_account_and_audit_take_a_campaign_and_refute_none_of_its_claims(campaign_file: Path, capsys: Capture) -> None:
    account = ["account", str(campaign_file)]
    assert main([*account, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == Campaign.from_json(campaign_file.read_bytes()).guarantee.as_dict()
    assert main(account) == 0
    assert capsys.readouterr().out.startswith("User level, any two records: epsilon = 2.0")
    assert main([*account, "--audit", "--set", "trials=200000", "--set", "seed=0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["mechanism"] for each in found["audits"]] == ["grr-fs", "subset-selection"]
    assert not any(each["refuted"] for each in found["audits"])
    assert all(0.5 < each["lower_bound"] <= each["claim"] for each in found["audits"])


def test_without_a_command_help_is_shown_and_the_version_on_request(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip()[0].isdigit()
    assert main([]) == 0
    assert "account" in capsys.readouterr().out


def test_audit_refutes_theorem_1_and_not_the_exact_figure(capsys: Capture) -> None:
    arguments = ["account", "--audit", "--features=53", "--sampled=10", "--epsilon-x=1", "--set=seed=1", "--json"]
    # At epsilon_x = 1 and these trials about 4 of the true 10 can be shown; a claim of 1 is far below.
    assert main([*arguments, "--set=trials=100000", "--set", "claim=1"]) == 3
    refuted = json.loads(capsys.readouterr().out)
    assert refuted["refuted"]
    assert (refuted["claim"], refuted["trials"], refuted["confidence"]) == (1, 100_000, 0.99)
    assert main([*arguments, "--set=trials=10000"]) == 0
    exact = json.loads(capsys.readouterr().out)
    assert exact["claim"] == pytest.approx(10)
    assert not exact["refuted"]


@pytest.mark.parametrize(
    "mechanism",
    [
        "--set mechanism=grr --set domain_size=5",
        "--set mechanism=multi-bit --features 20",
        "--set mechanism=joint-grr --features 20 --sampled 3",
    ],
)
def test_audit_knows_every_mechanism(mechanism: str, capsys: Capture) -> None:
    assert main(f"account --audit {mechanism} --epsilon-x 1 --set trials=5000 --set seed=0".split()) == 0
    assert "Not refuted" in capsys.readouterr().out


@pytest.mark.parametrize(("classes", "mechanism"), [(2, "grr"), (18, "subset-selection")])
def test_audit_takes_the_label_of_a_campaign(classes: int, mechanism: str, capsys: Capture) -> None:
    asked = f"account --audit --epsilon-y 1 --classes {classes} --set trials=5000 --set seed=0 --json"
    assert main(asked.split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["mechanism"], found["refuted"]) == (mechanism, False)
    assert found["claim"] == pytest.approx(1.0, abs=1e-6)


@pytest.fixture
def campaign_file(tmp_path: Path) -> Path:
    campaign = Campaign.new(
        schema=FeatureSchema.binary(5, classes=[f"c{i}" for i in range(18)]),
        graph=Graph.from_edges([[0], [1]], num_nodes=2),
        notice=Notice(purpose="Learn", contact="privacy@example.org", closes=datetime(2100, 1, 1, tzinfo=UTC)),
        budget=CampaignBudget(epsilon_x=0.5, sampled=2, epsilon_y=1.0),
    )
    path = tmp_path / "campaign.json"
    path.write_text(campaign.to_json())
    return path


LIE = """
import random, sys
for line in sys.stdin:
    print(line.strip() if random.random() < 0.75 else 1 - int(line))
"""


def test_audit_of_a_command_ends_with_a_code_of_its_own_when_it_refutes(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "lie.py").write_text(LIE, encoding="utf-8")
    (tmp_path / "records.txt").write_text("0\n1\n", encoding="utf-8")
    command = [
        *("account", "--audit"),
        f"--set=command={sys.executable} {tmp_path / 'lie.py'}",
        f"--set=records={tmp_path / 'records.txt'}",
    ]
    draws = ["--set=trials=20000", "--set=seed=1", "--set=confidence=0.999"]
    assert main([*command, *draws, "--set=claim=1.0986123"]) == 0  # ln 3
    assert "Not refuted.\n" in capsys.readouterr().out
    assert main([*command, *draws, "--set=claim=0.9"]) == 3
    printed = capsys.readouterr().out
    assert "REFUTED: the reports reveal more than the claim.\n" in printed
    assert "at 99.9% confidence" in printed


@pytest.mark.parametrize("words", [["--epsilon-y", "1"], ["--features", "1", "--audit"], ["--set", "cap=1"]])
def test_a_campaign_stands_alone(words: list[str], campaign_file: Path, capsys: Capture) -> None:
    assert main(["account", str(campaign_file), *words]) == 2
    named = words[1].partition("=")[0] if words[0] == "--set" else words[0][2:].replace("-", "_")
    assert f"leave out {named}, or the campaign" in capsys.readouterr().err


def test_run_draws_the_curve_and_prints_json_and_nothing_else(tmp_path: Path, capsys: Capture) -> None:
    arguments = ["run", *QUICK, "--epsilon", "1", "--epsilon", ".5", "--out", str(tmp_path / "r")]
    assert main([*arguments, "--json"]) == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert (result["dataset"], result["totals"]) == ("csbm", [0.5, 1.0])
    assert set(result["methods"]) == {"veil_labels", "structure_only", "rgnn", "rgnn_best"}
    for points in result["methods"].values():
        assert [point["epsilon_user_level"] for point in points] == pytest.approx([0.5, 1.0], abs=1e-6)
    assert set(result["not_private"]) == {"veil_non_private", "non_private"}
    assert "a total epsilon of 1 (user level, any two records)" in result["headline"]
    assert "run: already finished (0 of 24)" in captured.err
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert "run: already finished (24 of 24)" in captured.err
    for text in ("Veil", "Control", "RGNN", "user level, any two records", "Recommended:", "veilgraph init"):
        assert text in captured.out
    assert "What can be learned at which epsilon?" in (tmp_path / "r" / "report.html").read_text()


def test_run_at_one_budget_prints_json_and_nothing_else(tmp_path: Path, capsys: Capture) -> None:
    arguments = ["run", *ONE_BUDGET, "--out", str(tmp_path / "r")]
    assert main([*arguments, "--json"]) == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert result["dataset"] == "csbm"
    assert set(result["methods"]) == {"veil", "rgnn", "plain", "structure_only", "veil_non_private", "non_private"}
    assert all(0 <= row["accuracy_mean"] <= 1 for row in result["methods"].values())
    assert result["methods"]["rgnn"]["epsilon_user_level"] == pytest.approx(6.0)
    largest = f"The largest class alone is right for {100 * result['largest_class']:.1f}"
    assert "run: already finished (0 of 12)" in captured.err
    assert main(arguments) == 0
    out = capsys.readouterr().out
    for text in ("rgnn", "structure_only", largest, "not private", "User level, any two records", "report.html"):
        assert text in out


def test_run_on_people_with_labels_alone_names_their_files(tmp_path: Path, capsys: Capture) -> None:
    FeatureSchema(columns=(), classes=("a", "b", "c", "d", "e")).save(tmp_path / "s.toml")
    people = [f"p{i},{'abcde'[i // 12]}" for i in range(60)]
    (tmp_path / "n.csv").write_text("\n".join(["id,country", *people]))
    (tmp_path / "e.csv").write_text("\n".join(["u,v", *(f"p{i},p{i + 1}" for i in range(59))]))
    own = [f"--graph={tmp_path}/e.csv", f"--nodes={tmp_path}/n.csv", f"--schema={tmp_path}/s.toml", "--label=country"]
    arguments = ["run", *own, "--epsilon=1", "--seeds=1", f"--out={tmp_path}/r"]
    assert main([*arguments, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert set(result["methods"]) == {"veil_labels", "structure_only"}
    command = shlex.split(result["commands"][0])
    assert command[command.index("--schema") + 1] == f"{tmp_path}/s.toml"
    # Both commands work as they are printed.
    begin, plan = (shlex.split(printed)[1:] for printed in result["commands"])
    assert (begin[:2], plan[-1]) == (["init", "collection"], "plan.json")
    assert main(["init", f"{tmp_path}/collection", *begin[2:]]) == 0
    assert main([*plan[:-1], f"{tmp_path}/plan.json"]) == 0
    assert (tmp_path / "plan.json").exists()
    assert main(arguments) == 0
    assert "RGNN and the GNN without privacy need private features" in capsys.readouterr().out


def test_schema_propose_says_that_the_sample_must_be_public(tmp_path: Path, capsys: Capture) -> None:
    sample, schema = tmp_path / "sample.csv", tmp_path / "s.toml"
    sample.write_text("id,age,smoker,y\n1,20,no,ill\n2,30,yes,well\n3,40,no,ill\n4,55.5,no,ill\n")
    arguments = [str(sample), "--label", "y", "--out", str(schema)]
    assert main(["review", *arguments]) == 0
    assert "never propose one from private data" in capsys.readouterr().out
    assert main(["review", str(schema)]) == 0
    shown = capsys.readouterr().out
    assert "2 classes: ill, well" in shown
    assert "smoker: no, yes" in shown
    assert main(["review", *arguments]) == 2
    schema.unlink()
    sample.write_text("id,country\n1,x\n2,y\n", encoding="utf-8")
    capsys.readouterr()
    assert main(["review", str(sample), "--label", "country", "--out", str(schema)]) == 0
    capsys.readouterr()
    assert main(["review", str(schema)]) == 0
    assert capsys.readouterr().out.startswith("The label alone, 2 classes: x, y\n")


def _out_of_range(folder: Path) -> list[str]:
    FeatureSchema(columns=(Column(name="age", edges=(0, 40, 120)),), classes=("a", "b")).save(folder / "s.toml")
    (folder / "n.csv").write_text("id,age,y\n1,20,a\n2,999,b\n")
    (folder / "e.csv").write_text("u,v\n1,2\n")
    return _own_tables(folder)


def _own_tables(folder: Path) -> list[str]:
    own = f"run --graph={folder}/e.csv --nodes={folder}/n.csv --schema={folder}/s.toml --label=y --set=sampled=1"
    return own.split()


def _table_mistake(nodes: str, edges: str) -> Callable[[Path], list[str]]:
    def prepare(folder: Path) -> list[str]:
        arguments = _out_of_range(folder)
        (folder / "n.csv").write_text(nodes)
        (folder / "e.csv").write_text(edges)
        return arguments

    return prepare


def _taken_folder(folder: Path) -> list[str]:
    (folder / "taken").mkdir()
    (folder / "taken" / "configuration.json").write_text('{"dataset": "another"}')
    return ["run", *QUICK, f"--out={folder}/taken"]


def _truncated_parquet(folder: Path) -> list[str]:
    arguments = _out_of_range(folder)
    (folder / "n.parquet").write_bytes(b"PAR1 and then the disk was full")
    return [argument.replace("n.csv", "n.parquet") for argument in arguments]


COMMAND = ("--set=command=true", "--set=records=no.txt", "--set=claim=1")
MISTAKES: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "epsilon zero": (lambda f: ["run", "--set=epsilon_x=0", "--set=epsilon_y=1"], "epsilon_x is 0.0"),
    "features alone": (lambda f: ["run", "--set=epsilon_x=1"], "epsilon_x is given without epsilon_y"),
    "epsilon negative": (lambda f: ["run", "--set=epsilon_y=-1"], "epsilon_y is -1.0"),
    "epsilon NaN": (lambda f: ["account", "--features", "3", "--sampled", "1", "--epsilon-x", "nan"], "epsilon is nan"),
    "sampled zero": (lambda f: ["run", "--set", "sampled=0"], "sampled is 0: give a whole number"),
    "nothing to account for": (lambda f: ["account"], "nothing is collected: give --epsilon-y"),
    "half a feature budget": (lambda f: ["account", "--sampled", "1"], "epsilon_x and sampled belong together"),
    "nothing to audit": (lambda f: ["account", "--audit"], "one mechanism is audited at a time"),
    "two audits": (
        lambda f: ["account", "--audit", "--epsilon-x", "1", "--epsilon-y", "1"],
        "one mechanism is audited at a time",
    ),
    "no features": (lambda f: ["account", "--sampled", "1", "--epsilon-x", "1"], "how many features"),
    "domain sizes": (
        lambda f: ["account", "--set", "domain_sizes=2,x", "--sampled", "1", "--epsilon-x", "1"],
        "--set domain_sizes is 'x': give a whole number",
    ),
    "value out of range": (_out_of_range, "column 'age', row 2: outside the declared range 0..120"),
    "label out of classes": (_table_mistake("id,age,y\n1,20,a\n2,30,c\n", "u,v\n1,2\n"), "declared classes ['a', 'b']"),
    "NaN in a continuous column": (
        _table_mistake("id,age,y\n1,20,a\n2,,b\n", "u,v\n1,2\n"),
        "column 'age', row 2: missing",
    ),
    "unknown node": (_table_mistake("id,age,y\n1,20,a\n2,30,b\n", "u,v\n1,3\n"), "unknown node '3'"),
    "empty graph": (_table_mistake("id,age,y\n1,20,a\n2,30,b\n", "u,v\n"), "no edges"),
    "no labels": (_table_mistake("id,age,y\n1,20,\n2,30,\n", "u,v\n1,2\n"), "label"),
    "one class": (_table_mistake("id,age,y\n1,20,a\n2,30,a\n", "u,v\n1,2\n"), "one class"),
    "too many clusters": (lambda f: ["run", *QUICK, "--set=clusters=1001", f"--out={f}/r"], "num_clusters is 1001"),
    "taken folder": (_taken_folder, "holds another run's result"),
    "absent file": (lambda f: [*_own_tables(f)], "cannot be read"),
    "truncated file": (_truncated_parquet, "n.parquet"),
    "half of the tables": (lambda f: ["run", "--graph", "e.csv"], "give all four"),
    "no GPU": (lambda f: ["run", "--device", "cuda"], "no usable GPU"),
    "unknown device": (lambda f: ["run", "--device", "tpu"], "device is 'tpu'"),
    "unknown data set": (lambda f: ["run", "--dataset", "atlantis"], "no data set 'atlantis'"),
    "unknown backbone": (lambda f: ["run", *QUICK, "--set=backbone=mlp", f"--out={f}/r"], "backbone is 'mlp'"),
    "curve and one budget": (lambda f: ["run", "--epsilon=1", "--set=epsilon_y=1"], "give either"),
    "total zero": (lambda f: ["run", *QUICK, "--epsilon=0"], "epsilon is 0.0"),
    "unknown command": (lambda f: ["trian"], "Did you mean 'train'? See veilgraph --help."),
    "unknown command of a group": (lambda f: ["lab", "papr"], "Did you mean 'paper'? See veilgraph lab --help."),
    "no command of a group": (lambda f: ["lab"], "veilgraph lab paper|data|generate. See veilgraph lab --help."),
    "no options": (lambda f: ["train"], "FOLDER is missing, which 'veilgraph init' makes"),
    "no argument": (lambda f: ["close"], "veilgraph close FOLDER. See veilgraph close --help."),
    "unknown option": (lambda f: ["run", "--epsilonx", "1"], "--epsilonx"),
    "not a number": (lambda f: ["account", "--epsilon-x", "one"], "(given: one)"),
    "half a command": (lambda f: ["account", "--audit", "--set=command=true", "--set=claim=1"], "command, records and"),
    "a command and a mechanism": (
        lambda f: ["account", "--audit", *COMMAND, "--epsilon-x", "1"],
        "epsilon_x is about our mechanisms",
    ),
    "no records": (
        lambda f: ["account", "--audit", *COMMAND],
        "no.txt cannot be read: give a text file",
    ),
    "few trials": (lambda f: ["account", "--audit", "--epsilon-x", "1", "--set", "trials=10"], "trials is 10"),
    "negative claim": (lambda f: ["account", "--audit", "--epsilon-x", "1", "--set=claim=-1"], "claim is -1.0"),
    "grr of many features": (
        lambda f: ["account", "--audit", "--set", "mechanism=grr", "--features", "3", "--epsilon-x", "1"],
        "grr randomizes one",
    ),
    "no seeds": (lambda f: ["run", *QUICK, "--seeds", "0"], "seeds is 0"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_with_the_remedy_and_exit_code_2(
    mistake: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    prepare, expected = MISTAKES[mistake]
    assert main(prepare(tmp_path)) == 2
    captured = capsys.readouterr()
    errors = [line for line in captured.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert captured.err.splitlines()[-1] == errors[0]
    assert expected in errors[0]
    assert captured.out == ""
    # Nothing was written: the corrected command can use the same folder.
    assert not (tmp_path / "r").exists()
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "full",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        shutil.Error([("a", "b", f"[Errno {errno.ENOSPC}] No space"), ("c", "d", f"[Errno {errno.ENOSPC}] No space")]),
    ],
    ids=["file", "folder"],
)
def test_a_full_disk_is_one_sentence(full: OSError, capsys: Capture) -> None:
    app = typer.Typer()

    @app.command()
    def write() -> None:
        raise full

    assert run_app(app, []) == 2
    assert capsys.readouterr().err == "error: the disk is full: make room on it, and run the same command again\n"


def test_ctrl_c_while_the_program_is_read_is_one_sentence() -> None:
    code = (
        "import sys\nclass Stopped:\n def find_spec(self, name, *_):\n  if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Stopped())\nfrom veilgraph.cli import main\nsys.exit(main(['status', 'health']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (130, "stopped before it began: run the same command again\n")


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
def test_ctrl_c_keeps_what_is_finished_and_says_so(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "veilgraph",
        "run",
        "--dataset=csbm",
        "--seeds=500",
        "--set=epochs=3",
        "--set=sampled=5",
    ]
    process = subprocess.Popen([*command, f"--out={tmp_path}/r"], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list((tmp_path / "r" / "cells").rglob("*.json")) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on from there" in errors
    for path in (tmp_path / "r" / "cells").rglob("*.json"):
        json.loads(path.read_text())
