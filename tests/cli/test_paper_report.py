"""`veilgraph lab paper --report` writes finished results as a page, tables, figures and JSON."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from veilgraph.cli import main
from veilgraph.datasets import PrivateGraph
from veilgraph.errors import RunError
from veilgraph.experiments import cells as data_source
from veilgraph.experiments.cells import DatasetLoader, key_of
from veilgraph.experiments.grid import load_experiment
from veilgraph.experiments.results import ResultStore
from veilgraph.graph import Graph
from veilgraph.privacy.schema import FeatureSchema

Capture = pytest.CaptureFixture[str]
REQUIRED = {
    "dataset",
    "epsilon_x",
    "epsilon_y",
    "method",
    "accuracy_mean",
    "accuracy_std",
    "epsilon_user_level",
    "published_mean",
    "published_std",
}


def tiny(dataset: str) -> PrivateGraph:
    """Stands for a public data set that is not on this machine."""
    return PrivateGraph(
        name=dataset,
        schema=FeatureSchema.binary(12, classes=["a", "b"]),
        graph=Graph.from_edges([[0, 1, 2], [1, 2, 3]], 4),
        features=np.zeros((4, 12), dtype=np.int64),
        labels=np.array([0, 1, 0, 1]),
    )


def only_citeseer(dataset: str, **options: object) -> PrivateGraph:
    if dataset != "citeseer":
        raise RunError(f"{dataset}.npz is not here")
    return tiny(dataset)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ResultStore:
    """Return an empty store of results; only the data of Citeseer can be loaded."""
    monkeypatch.setattr(data_source, "DatasetLoader", partial(DatasetLoader, read=only_citeseer))
    return ResultStore(tmp_path)


def finish(store: ResultStore, name: str, *, seeds: int = 2) -> None:
    """Pretend that the experiment was run on Citeseer."""
    for cell in load_experiment(name, seeds=seeds).only(datasets=["citeseer"]).cells:
        epsilon = "not private" if cell.epsilon_y is None else 10 * (cell.epsilon_x or 0.0) + cell.epsilon_y
        result = {"accuracy": 0.5 + 0.01 * cell.seed, "seconds": 0.1, "epsilon_user_level": epsilon}
        store.put(key_of(cell, DatasetLoader(read=only_citeseer)), result)


def test_json_is_all_that_is_printed(store: ResultStore, tmp_path: Path, capsys: Capture) -> None:
    finish(store, "table2")
    assert main(["lab", "paper", "--report", "table2", "--out", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document) == ["rows", "experiments"]
    finished = len(load_experiment("table2", seeds=2).only(datasets=["citeseer"]).cells)
    total = len(load_experiment("table2").cells)
    assert document["experiments"] == [{"name": "table2", "finished": finished, "cells": total}]
    assert all(set(row) >= REQUIRED and "experiment" not in row for row in document["rows"])
    [rgnn] = [
        row for row in document["rows"] if (row["method"], row["epsilon_x"], row["epsilon_y"]) == ("rgnn", 1.0, 3.0)
    ]
    assert rgnn["dataset"] == "citeseer"
    assert rgnn["accuracy_mean"] == pytest.approx(0.505)
    assert rgnn["published_mean"] == pytest.approx(0.557)
    assert rgnn["published_std"] == pytest.approx(0.014)
    assert rgnn["epsilon_user_level"] == pytest.approx(13)
    controls = [row for row in document["rows"] if row["method"] == "structure_only"]
    assert [row["epsilon_x"] for row in controls] == [None] * 4
    [ceiling] = [row for row in document["rows"] if row["method"] == "non_private"]
    assert ceiling["epsilon_y"] is None
    assert ceiling["epsilon_user_level"] == "not private"


def test_files_are_written_and_what_is_missing_is_said(store: ResultStore, tmp_path: Path, capsys: Capture) -> None:
    finish(store, "ablation")
    assert main(["lab", "paper", "--report", "ablation", "table1", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    counted, page = printed.out.splitlines()
    assert re.fullmatch(r"ablation: \d+ of \d+ fits finished", counted)
    assert page == str(tmp_path / "report.html")
    assert "nothing of table1 is finished" in printed.err
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "results, run again" in page
    assert {path.suffix for path in (tmp_path / "tables").iterdir()} == {".csv", ".md", ".tex"}
    assert (tmp_path / "figures" / "ablation-citeseer.svg").exists()


def test_without_names_everything_that_is_finished_is_reported(
    store: ResultStore, tmp_path: Path, capsys: Capture
) -> None:
    finish(store, "ablation")
    assert main(["lab", "paper", "--report", "--out", str(tmp_path), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    # The control of the ablation is a cell of other experiments as well.
    assert {"ablation", "table2"} <= {row["experiment"] for row in rows}


def test_more_seeds_can_be_asked_for(store: ResultStore, tmp_path: Path, capsys: Capture) -> None:
    finish(store, "ablation", seeds=7)
    assert main(["lab", "paper", "--report", "ablation", "--seeds", "7", "--out", str(tmp_path), "--json"]) == 0
    assert {row["seeds"] for row in json.loads(capsys.readouterr().out)["rows"]} == {7}


@pytest.mark.usefixtures("store")
def test_nothing_finished_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    assert main(["lab", "paper", "--report", "table2", "--out", str(tmp_path), "--json"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "nothing of table2 is finished: veilgraph lab paper table2" in printed.err
    assert not (tmp_path / "report.html").exists()


def test_an_unknown_experiment_is_refused(tmp_path: Path, capsys: Capture) -> None:
    assert main(["lab", "paper", "--report", "table9", "--out", str(tmp_path)]) == 2
    assert "there is no experiment 'table9'" in capsys.readouterr().err
