"""`python -m benchmarks` from end to end, on a miniature."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks.__main__ import main

from benchmarks.performance import suite
from tests.benchmarks.performance.test_machine import MACHINE
from tests.benchmarks.performance.test_stages import SMALL
from tests.benchmarks.performance.test_summary import report

Capture = pytest.CaptureFixture[str]


def grow(sizes: Sequence[int], folder: Path, arguments: Sequence[str]) -> list[dict[str, Any]]:
    """Sizes whose time is proportional to their nodes."""
    assert list(arguments) == ["--device", "cpu"]
    return [
        {"nodes": nodes, "edges": 10 * nodes, "seconds": {"train": nodes / 1e4}, "peak_bytes": {"train": 2**30}}
        for nodes in sizes
    ]


@pytest.fixture
def _measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(**asked: Any) -> dict[str, Any]:
        asked["progress"]("features", 1, 2)
        return report(asked={key: str(value) for key, value in asked.items() if key != "progress"})

    monkeypatch.setattr(suite, "measure", measure)


@pytest.mark.usefixtures("_measured")
def test_json_and_nothing_else(tmp_path: Path, capsys: Capture) -> None:
    assert main(["--full", "--json", "--device=cpu", "--data-dir=data", f"--out={tmp_path}"]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert found["asked"] == {"full": "True", "data_dir": "data", "device": "cpu"}
    assert found == json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))
    assert "bench: features (1 of 2)" in captured.err


@pytest.mark.usefixtures("_measured")
def test_tables_for_a_person(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert main([f"--out={tmp_path}"]) == 0
    printed = capsys.readouterr().out
    for words in ("features", "100 ms", "50×", "Measured on 2026-01-02", "bench.svg"):
        assert words in printed
    assert {path.name for path in tmp_path.iterdir()} == {"bench.json", "bench.md", "bench.svg"}


def test_a_full_run_without_the_data_sets_says_so_and_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(suite, "largest", lambda data_dir: SMALL)
    monkeypatch.setattr(suite, "measure_machine", lambda device: MACHINE)
    for part in ("stages", "hot_path"):
        monkeypatch.setattr(suite, f"measure_{part}", lambda *arguments, part=part, **options: report()[part])
    monkeypatch.setattr(suite, "missing_datasets", lambda experiment, data: ["cora"])
    found = suite.measure(full=True, data_dir=None, device="cpu", progress=lambda *news: None, grow=grow)
    assert found["table2"] == {"left_out": "needs data sets that are not there: veilgraph lab data cora --fetch"}
    assert found["growth"]["exponent"] == pytest.approx(1)
    assert json.loads(json.dumps(found)) == found


def test_an_unknown_device_is_refused_before_anything_is_measured(capsys: Capture, tmp_path: Path) -> None:
    assert main(["--device=abacus", f"--out={tmp_path}"]) == 2
    assert "device is 'abacus'" in capsys.readouterr().err


def test_an_interruption_says_that_nothing_is_kept(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(**asked: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(suite, "measure", interrupted)
    assert main([f"--out={tmp_path}"]) == 130
    assert "nothing is kept: run the same command again" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
