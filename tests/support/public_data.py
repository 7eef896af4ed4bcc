"""Files of the public graphs, for tests that need them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from veilgraph.datasets.archive import Archive

_BESIDE_THE_REPOSITORY = Path(__file__).parents[2].parent / "shared" / "datasets"


def real_folder() -> Path:
    """Return the folder of the public graphs; skip the test if there is none."""
    folder = Path(os.environ.get("VEILGRAPH_DATA") or _BESIDE_THE_REPOSITORY)
    if not folder.is_dir():
        pytest.skip("needs the public graphs: fetch them and set VEILGRAPH_DATA to their folder")
    return folder


def real_archive(name: str) -> Archive:
    """Return the arrays of a public graph; skip the test if its file is missing."""
    path = real_folder() / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"needs {path.name}: fetch it and set VEILGRAPH_DATA to its folder")
    return Archive.read(path)
