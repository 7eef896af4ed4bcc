"""`veilgraph lab paper` from end to end, on miniatures of the public graphs."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import veilgraph.experiments.cells as data_source
import veilgraph.experiments.runner as runner
from tests.support.miniatures import miniature
from veilgraph.cli import main
from veilgraph.datasets import PrivateGraph, load
from veilgraph.experiments.cells import DatasetLoader
from veilgraph.experiments.grid import experiment_names

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _small_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_source, "DatasetLoader", partial(DatasetLoader, read=miniature))


def run(folder: Path, *arguments: str) -> int:
    return main(["lab", "paper", *arguments, "--set=jobs=1", "--device=cpu", f"--out={folder}"])


def test_every_experiment_is_listed_with_its_fits(capsys: Capture) -> None:
    assert main(["lab", "paper", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == experiment_names()
    assert {row["name"]: row["cells"] for row in rows}["table1"] == 6 * 5
    assert main(["lab", "paper"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == experiment_names()
    assert all(row["title"] in line for row, line in zip(rows, lines, strict=True))


def test_a_part_is_run_and_then_not_run_again(tmp_path: Path, capsys: Capture) -> None:
    asked = ["table2", "--datasets=cora", "--only=structure_only", "--only=majority", "--seeds=2"]
    assert run(tmp_path, *asked, "--json") == 0
    captured = capsys.readouterr()
    fits = 2 * 4 * 2  # methods, label budgets, seeds
    assert json.loads(captured.out) == [{"name": "table2", "finished": fits, "folder": str(tmp_path)}]
    assert "(0 of 16)" in captured.err
    assert len(list(tmp_path.rglob("*.json"))) == fits
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    assert run(tmp_path, *asked) == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")} == written
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "16 fits finished" in captured.err


def test_a_run_that_is_stopped_says_that_it_goes_on(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run_experiment", stop)
    assert run(tmp_path, "table1", "--datasets=cora") == 130
    assert "the same command goes on from there" in capsys.readouterr().err


def lacking_on_a_gpu() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")


@pytest.mark.parametrize("ask", [lambda: np.empty(2**57), lambda: torch.empty(2**57), lacking_on_a_gpu])
def test_memory_that_runs_out_is_said_with_a_remedy(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, ask: Callable[[], object]
) -> None:
    monkeypatch.setattr(runner, "run_experiment", lambda *arguments, **options: ask())
    assert run(tmp_path, "table1", "--datasets=cora") == 2
    assert "error: memory ran out; what was finished is kept" in capsys.readouterr().err


def test_any_other_error_is_not_taken_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise RuntimeError("something else")

    monkeypatch.setattr(runner, "run_experiment", fail)
    with pytest.raises(RuntimeError, match="something else"):
        run(tmp_path, "table1", "--datasets=cora")


MISTAKES = {
    "experiment": (["table3"], "no experiment 'table3': known are ablation"),
    "data set": (["table1", "--datasets", "corra"], "table1 has no dataset 'corra': it has citeseer"),
    "method": (["table2", "--only", "rgn"], "table2 has no method 'rgn'"),
    "seeds": (["table2", "--seeds", "0"], "seeds is 0"),
    "jobs": (["table2", "--set", "jobs=0"], "jobs is 0"),
    "device": (["table2", "--device", "tpu"], "device is 'tpu'"),
    "memory": (["table2", "--set", "memory=8 apples"], "memory is '8 apples': write a number and a unit"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_with_the_remedy_and_exit_code_2(
    mistake: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, expected = MISTAKES[mistake]
    assert main(["lab", "paper", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    [line] = captured.err.splitlines()
    assert line.startswith("error: ")
    assert expected in line
    assert list(tmp_path.iterdir()) == []


def test_data_that_is_not_there_names_the_remedy(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(name: str, **options: Any) -> PrivateGraph:
        """Read a data set. A reader of its own finds nothing that an earlier test has read."""
        return load(name, **options)

    monkeypatch.setattr(data_source, "DatasetLoader", partial(DatasetLoader, read=read))
    monkeypatch.setenv("VEILGRAPH_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert run(tmp_path / "out", "table1", "--seeds=1") == 2
    assert "run 'veilgraph lab data citeseer --fetch'" in capsys.readouterr().err
