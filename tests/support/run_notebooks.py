"""Run the notebooks of `examples/` and store what they show: python -m tests.support.run_notebooks."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import nbclient
import nbformat

FOLDER = Path(__file__).parents[2] / "examples"


def run_notebook(path: Path, folder: Path) -> Any:
    """Return a notebook with the outputs of its cells, which run in a folder; times are left out."""
    notebook: Any = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    client = nbclient.NotebookClient(
        notebook, timeout=600, record_timing=False, resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def main() -> None:
    """Write each notebook with its outputs."""
    os.environ |= {"OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    for path in sorted(FOLDER.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            notebook = run_notebook(path, Path(folder))
        nbformat.write(notebook, path)  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
