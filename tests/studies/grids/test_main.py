"""`python -m studies.grids`: run a part, report it, and refuse mistakes in one line."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

from studies.grids import __main__ as program
from tests.support.miniatures import miniature
from veilgraph.experiments.cells import DatasetLoader

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _small_data(registered: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "DatasetLoader", partial(DatasetLoader, read=miniature))


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["grids", *arguments])
    return program.main()


def test_grids_are_listed_with_their_fits(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    assert run(monkeypatch, "list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines} >= {"rivals", "frontier", "private_edges", "beyond"}


def test_a_part_is_run_and_reported(monkeypatch: pytest.MonkeyPatch, capsys: Capture, tmp_path: Path) -> None:
    asked = ["rivals", "--datasets", "cora", "--only", "veil_labels", "structure_only", "spectral", "--seeds", "1"]
    assert run(monkeypatch, "run", *asked, "--jobs", "1", "--device", "cpu", "--out", str(tmp_path)) == 0
    assert len(list(tmp_path.rglob("*.json"))) == 4 * 3 + 4  # totals and methods; the rival with GRR labels too
    assert run(monkeypatch, "report", "rivals", "frontier", "--seeds", "1", "--out", str(tmp_path)) == 0
    assert capsys.readouterr().out == f"{tmp_path}/report.md\n"
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "All methods at every total" in text
    assert "Spectral" in text


def test_a_mistake_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: Capture, tmp_path: Path) -> None:
    nothing = ["report", "private_edges", "--seeds", "1", "--out", str(tmp_path)]
    for arguments in (["run", "rival"], ["run", "rivals", "--only", "gnn"], nothing):
        assert run(monkeypatch, *arguments) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert line.startswith("error: ")
