"""Write benchmark results beside those of the studies: `python -m benchmarks.performance.docs runs/bench`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.performance.figure import draw
from benchmarks.performance.summary import markdown

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
ROOT = Path(__file__).parents[2]


def update(folder: Path, *, root: Path = ROOT) -> None:
    """Write the results in `folder` between the marks of studies/results/performance.md, and into its figure."""
    report = json.loads((folder / "bench.json").read_text(encoding="utf-8"))
    figure = root / "docs" / "images" / "performance.svg"
    page = root / "studies" / "results" / "performance.md"
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    measured = markdown(report, figure="../../docs/images/performance.svg")
    page.write_text(f"{before}{BEGIN}\n\n{measured}\n{END}{after}", encoding="utf-8")
    figure.write_text(draw(report), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m benchmarks.performance.docs FOLDER, which `python -m benchmarks --full` wrote")
    update(Path(sys.argv[1]))
