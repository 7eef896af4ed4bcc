"""Every example runs as it is, without a warning, anywhere, and is short."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LONGEST = 100
# Examples with many devices, and how many of them a test starts.
FEWER = {"five_thousand_devices": ["600"], "two_thousand_phones": ["300"]}


def test_there_are_examples() -> None:
    assert {path.stem for path in EXAMPLES} >= {"quickstart", "own_gnn", "own_graph"}


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_without_a_warning_and_names_the_relation(path: Path, tmp_path: Path) -> None:
    # One thread: examples are small, and tests run side by side.
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    finished = subprocess.run(
        [sys.executable, "-W", "error", str(path), *FEWER.get(path.stem, [])],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    assert "User level, any two records: epsilon = " in finished.stdout
    assert list(tmp_path.iterdir()) == [], "an example leaves files behind"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    for variable, value in {"OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path), "MPLBACKEND": "agg"}.items():
        monkeypatch.setenv(variable, value)
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [output["text"] for output in outputs if output.get("name") == "stderr"]
    shown = "".join(str(output.get("text", "")) + str(output.get("data", "")) for output in outputs).lower()
    assert "any two records" in shown


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_with_the_outputs_of_one_run(path: Path) -> None:
    """`python -m tests.support.run_notebooks` writes them."""
    text = path.read_text(encoding="utf-8")
    cells = json.loads(text)["cells"]
    programs = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in programs] == list(range(1, len(programs) + 1))
    shown = [output for cell in programs for output in cell["outputs"]]
    assert shown
    assert not [each for each in shown if each["output_type"] == "error" or each.get("name") == "stderr"]
    assert not re.search(r"/(tmp|home|root|Users)/", text), "an output shows a path of the machine that ran it"
    assert len(text) < 100_000
    assert cells[0]["cell_type"] == "markdown"


def test_there_are_the_five_notebooks() -> None:
    assert {path.stem for path in NOTEBOOKS} == {
        "five_minutes",
        "accuracy_against_epsilon",
        "plan_and_run_a_campaign",
        "audit_a_guarantee",
        "a_gnn_of_your_own",
    }
