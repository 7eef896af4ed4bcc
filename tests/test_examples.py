"""Every example runs as it is, without a warning, anywhere, and is short."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
LONGEST = 100


def test_there_are_examples() -> None:
    assert {path.stem for path in EXAMPLES} >= {"quickstart", "own_gnn", "own_graph"}


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_without_a_warning_and_names_the_relation(path: Path, tmp_path: Path) -> None:
    # One thread: examples are small, and tests run side by side.
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    finished = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
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
