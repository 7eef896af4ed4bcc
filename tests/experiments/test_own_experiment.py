"""An experiment of one's own is a file anywhere: its names are checked when it is read, its results are resumed."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.miniatures import miniature
from veilgraph.cli import main
from veilgraph.datasets.archive import Archive
from veilgraph.datasets.registry import REGISTERED, register_dataset
from veilgraph.errors import VeilgraphError
from veilgraph.experiments.cells import DatasetLoader, key_of
from veilgraph.experiments.own_experiment import read_experiment
from veilgraph.experiments.results import ResultStore, read_rows
from veilgraph.experiments.runner import Resources, run_experiment
from veilgraph.models.registry import METHODS
from veilgraph.pages.result_tables import seeds_csv

Capture = pytest.CaptureFixture[str]

METHOD = """
from veilgraph.models import MajorityClass, register_method

@register_method(title="Own majority")
class Own(MajorityClass):
    name = "own_majority"
"""
DATA = """
from veilgraph.datasets import csbm, register_dataset

register_dataset("own_blocks", csbm(120, seed=3))
"""
TEXT = """
title = "Own methods"
imports = ["own_method.py", "own_data.py"]
seeds = 2

[[grid]]
datasets = ["./mine.npz", "own_blocks"]
methods = ["own_majority", "majority"]
epsilon_y = [2, 1]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder with an experiment, an archive, a method and a data set; registries are as before afterwards."""
    import numpy as np

    private = miniature("cora")
    rows, columns = np.nonzero(private.features)
    Archive.from_parts(
        name="mine",
        edges=private.graph.edges,
        labels=private.labels,
        ones=np.stack([rows, columns]),
        width=private.features.shape[1],
    ).write(tmp_path / "mine.npz")
    (tmp_path / "own_method.py").write_text(METHOD)
    (tmp_path / "own_data.py").write_text(DATA)
    (tmp_path / "study.toml").write_text(TEXT, encoding="utf-8-sig")
    methods, datasets = dict(METHODS), dict(REGISTERED)
    yield tmp_path
    for registry, before in ((METHODS, methods), (REGISTERED, datasets)):
        registry.clear()
        registry.update(before)  # type: ignore[arg-type]


def test_names_paths_and_imports_mean_what_they_say(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    experiment = read_experiment(folder / "study.toml")
    assert experiment.title == "Own methods"
    assert {cell.dataset for cell in experiment.cells} == {(folder / "mine.npz").as_posix(), "own_blocks"}
    # The control is added: 2 data sets, 3 methods, 2 budgets, 2 seeds.
    assert {cell.method for cell in experiment.cells} == {"own_majority", "majority", "structure_only"}
    assert len(experiment.cells) == 2 * 3 * 2 * 2
    assert len(experiment.only(datasets=["mine"]).cells) == len(experiment.cells) / 2


def test_a_control_that_the_file_names_is_not_run_twice(folder: Path) -> None:
    text = TEXT.replace('"majority"', '"structure_only", "rgnn"') + "epsilon_x = [1]\nllp_weight = [1, 10]\n"
    (folder / "study.toml").write_text(text)
    controls = [cell for cell in read_experiment(folder / "study.toml").cells if cell.method == "structure_only"]
    assert len(controls) == 2 * 2 * 2


def test_results_do_not_depend_on_where_the_folder_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def keys() -> list[str]:
        return [key_of(cell, DatasetLoader()) for cell in read_experiment(Path("study.toml")).cells]

    monkeypatch.chdir(folder)
    here = keys()
    copied = Path(shutil.copytree(folder, folder / "elsewhere"))
    monkeypatch.chdir(copied)
    assert keys() == here


def test_results_of_another_code_are_not_reused(folder: Path) -> None:
    cell = next(cell for cell in read_experiment(folder / "study.toml").cells if cell.method == "own_majority")
    before = cell.key("data")
    (folder / "own_method_2.py").write_text(METHOD + "\n# edited\n")
    (folder / "study.toml").write_text(TEXT.replace("own_method.py", "own_method_2.py"))
    read_experiment(folder / "study.toml")
    assert cell.key("data") != before


TYPOS = {
    "method": ('"majority"', '"majorty"', "no method 'majorty': known are .*; did you mean majority"),
    "data set": ('"own_blocks"', '"own_block"', r"no data set 'own_block': .*did you mean own_blocks\?"),
    "file": ("./mine", "./mien", "no file or folder '.*mien.npz'"),
    "import": ("own_method.py", "own_methods.py", "own_methods.py is not a Python file"),
    "key": ("seeds", "seds", r"unknown key 'seds'.*did you mean seeds\?"),
    "grid key": ("epsilon_y", "epsilony", r"unknown key 'epsilony'.*did you mean epsilon_y"),
    "mechanism": (
        "epsilon_y",
        'labels = ["bst"]\nepsilon_y',
        r"labels has 'bst'; known are grr, best; did you mean best\?",
    ),
    "budget": ("[2, 1]", "[2, 0]", "epsilon_y is 0"),
    "no list": ("[2, 1]", "2", r"epsilon_y is 2: write a list, such as epsilon_y = \[2\]"),
    "text": ("[2, 1]", '["2"]', "epsilon_y has '2': give numbers"),
    "parameter": ("[2, 1]", '[2]\nbackbone = ["sagee"]', "backbone is 'sagee': choose gat"),
    "type": ("[2, 1]", '[2]\nlabel_hops = ["many"]', "label_hops"),
    "tuned": ("seeds = 2", 'hyperparameters = "gone.toml"', "hyperparameters is 'gone.toml': give the path"),
    "epochs": ("seeds = 2", "epochs = 0", "epochs is 0: give a whole number of at least 1"),
    "count": ("seeds = 2", 'seeds = "2"', "seeds is '2': give a whole number"),
    "grid": ("[[grid]]", "[grid]", r"has no grid: write \[\[grid\]\]"),
    "missing": ('datasets = ["./mine.npz", "own_blocks"]', "", "'datasets' is missing"),
    "twice": ('"own_blocks"', '"./other/mine.npz"', "two data sets are called 'mine'"),
}


@pytest.mark.parametrize("typo", TYPOS)
def test_a_mistake_is_refused_when_the_file_is_read(typo: str, folder: Path) -> None:
    right, wrong, expected = TYPOS[typo]
    (folder / "other").mkdir()
    (folder / "other" / "mine.npz").write_bytes((folder / "mine.npz").read_bytes())
    (folder / "study.toml").write_text(
        TEXT.replace('"majority"]', '"majority", "rgnn"]\nepsilon_x = [1]').replace(right, wrong)
    )
    with pytest.raises(VeilgraphError) as refused:
        read_experiment(folder / "study.toml")
    assert re.search(expected, str(refused.value)), refused.value


def test_an_impossible_division_of_a_budget_is_refused(folder: Path) -> None:
    budgets = "epsilon_x = [1]\ntotal_epsilon = [2]\nlabel_share = "
    for share, expected in (("1.5", "label_share has 1.5: give shares"), ("1", "rgnn needs features, and no budget")):
        text = TEXT.replace('"majority"]', '"rgnn"]').replace("epsilon_y = [2, 1]", f"{budgets}[{share}]")
        (folder / "study.toml").write_text(text.replace("epsilon_x = [1]\n", ""))
        with pytest.raises(VeilgraphError, match=expected):
            read_experiment(folder / "study.toml")


def test_tuned_hyper_parameters_are_taken_from_a_file_and_told_with_the_results(folder: Path) -> None:
    (folder / "tuned.toml").write_text('["./mine.npz"."1"]\nlearning_rate = 0.03\n')
    (folder / "study.toml").write_text(
        'hyperparameters = "tuned.toml"\nepochs = 2\n'
        + TEXT.replace('"majority"]', '"rgnn"]\nepsilon_x = [1]').replace('"own_majority", ', "").replace("2, 1", "1")
    )
    experiment = read_experiment(folder / "study.toml").only(methods=["rgnn"], seeds=1)
    run_experiment(experiment, ResultStore(folder), resources=Resources(device="cpu"))
    mine, other = sorted(read_rows(experiment, ResultStore(folder)), key=lambda row: row.dataset == "own_blocks")
    assert (mine.parameters, other.parameters) == ({"epochs": 2, "learning_rate": 0.03}, {"epochs": 2})
    assert mine.trained_together == other.trained_together == {0: 1}
    lines = list(csv.DictReader(io.StringIO(seeds_csv([mine, other]))))
    assert [json.loads(line["parameters"]) for line in lines] == [mine.parameters, other.parameters]


def test_a_method_that_needs_features_is_refused_before_a_fit(folder: Path) -> None:
    register_dataset("label_alone", miniature("cora").with_public_features())
    (folder / "study.toml").write_text(
        TEXT.replace("own_blocks", "label_alone").replace('"majority"]', '"rgnn"]\nepsilon_x = [1]')
    )
    with pytest.raises(VeilgraphError, match="rgnn needs features, and label_alone has none"):
        run_experiment(read_experiment(folder / "study.toml"), ResultStore(folder), resources=Resources(device="cpu"))
    assert not (folder / "cells").exists()


def test_a_name_of_the_package_and_a_missing_file_are_refused(folder: Path, capsys: Capture) -> None:
    (folder / "table2.toml").write_text(TEXT)
    for name, expected in (
        ("table2", "'table2' is an experiment of this package"),
        ("gone", "cannot be read (No such"),
    ):
        assert main(["lab", "paper", str(folder / f"{name}.toml")]) == 2
        assert expected in capsys.readouterr().err


def test_an_experiment_of_ones_own_is_run_resumed_and_reported(
    folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert main(["lab", "paper", "study.toml", "--set=jobs=1", "--device=cpu", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == [{"name": "study.toml", "finished": 24, "folder": "runs/study"}]
    assert main(["lab", "paper", "study.toml", "--set=jobs=1", "--device=cpu"]) == 0
    captured = capsys.readouterr()
    assert "already finished (24 of 24)" in captured.err
    assert "See: veilgraph lab paper study.toml --report" in captured.err
    assert main(["lab", "paper", "--report", "study.toml"]) == 0
    assert capsys.readouterr().out == "study: 24 of 24 fits finished\nruns/study/report.html\n"
    table = (folder / "runs" / "study" / "tables" / "study.md").read_text()
    assert "| mine | Own majority | – | 2 | 2 |" in table
    assert "Control" in table
    page = (folder / "runs" / "study" / "report.html").read_text()
    assert "<h1>Own methods</h1>" in page
    assert "claims" not in page.partition("<h1>")[2]
    assert main(["lab", "paper", "--report", "study.toml", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {"accuracy_mean", "accuracy_std", "epsilon_user_level", "label_mechanism"} <= rows[0].keys()


@pytest.mark.slow
def test_worker_processes_know_what_the_file_imports(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert main(["lab", "paper", "study.toml", "--set=jobs=2", "--device=cpu"]) == 0
