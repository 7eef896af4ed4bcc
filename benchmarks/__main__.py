"""`python -m benchmarks`: speed on this machine, compared with the paper's loops and with hardware limits."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.performance import suite, summary
from veilgraph.cli._common import show_progress
from veilgraph.cli.app import run_app

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def bench(
    full: Annotated[bool, typer.Option("--full", help="Also time the paper's Table 2 and growth with size.")] = False,
    out: Annotated[Path, typer.Option(help="Folder of results.")] = Path("runs/bench"),
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the data sets.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Time each stage, the paper's loops and the limits of the machine, all in one run."""
    with show_progress("bench") as progress:
        found = suite.measure(full=full, data_dir=data_dir, device=device, progress=progress)
    summary.write(found, out)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    _print_tables(found)
    typer.echo(f"Written: {', '.join(str(out / name) for name in ('bench.json', 'bench.md', 'bench.svg'))}")


def _print_tables(found: dict[str, Any]) -> None:
    console = Console()
    for table in summary.tables(found):
        shown = Table(title=table.title, title_justify="left")
        for number, heading in enumerate(table.headings):
            shown.add_column(heading, justify="right" if number else "left", no_wrap=number == 0)
        for row in table.rows:
            shown.add_row(*row)
        console.print(shown)
    for sentence in summary.sentences(found):
        console.print(sentence, highlight=False, markup=False, soft_wrap=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark. All ratios belong to one run, so an interrupted one keeps nothing."""
    given = sys.argv[1:] if arguments is None else arguments
    return run_app(app, given, program="python -m benchmarks", resumable=False)


if __name__ == "__main__":
    sys.exit(main())
