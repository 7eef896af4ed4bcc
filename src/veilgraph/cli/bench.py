"""`veilgraph bench`: how fast is it here, against the paper's loops and against what the machine allows?"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import veilgraph
from veilgraph.cli.extras import needs_extra
from veilgraph.cli.progress import show_progress
from veilgraph.errors import RunError


def bench(
    full: Annotated[bool, typer.Option("--full", help="Also time the paper's Table 2 and growth with size.")] = False,
    out: Annotated[Path, typer.Option(help="Folder of results.")] = Path("runs/bench"),
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the data sets.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Time each stage against the paper's loops and against the floor, all in this run."""
    with needs_extra("lab"):
        suite, report = _benchmarks("suite"), _benchmarks("report")
    with show_progress("bench") as progress:
        found = suite.measure(full=full, data_dir=data_dir, device=device, progress=progress)
    report.write(found, out)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    _print_tables(report, found)
    typer.echo(f"Written: {', '.join(str(out / name) for name in ('bench.json', 'bench.md', 'bench.svg'))}")


def _benchmarks(module: str) -> Any:
    """A module of the benchmarks, which belong to a checkout and not to the installed package."""
    for root in (Path(veilgraph.__file__).parents[2], Path.cwd()):
        if (root / "benchmarks" / "suite.py").is_file() and (root / "src" / "veilgraph").is_dir():
            if str(root) not in sys.path:
                sys.path.append(str(root))
            return importlib.import_module(f"benchmarks.{module}")
    raise RunError(
        "the benchmarks are not part of the installed package: run this command in a checkout of the sources"
    )


def _print_tables(report: Any, found: dict[str, Any]) -> None:
    console = Console()
    for table in report.tables(found):
        shown = Table(title=table.title, title_justify="left")
        for number, heading in enumerate(table.headings):
            shown.add_column(heading, justify="right" if number else "left", no_wrap=number == 0)
        for row in table.rows:
            shown.add_row(*row)
        console.print(shown)
    for sentence in report.sentences(found):
        console.print(sentence, highlight=False, markup=False, soft_wrap=True)
