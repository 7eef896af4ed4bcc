"""Run the grids of this folder and write their report; every accuracy has the control beside it.

python -m studies.grids list
python -m studies.grids run rivals [--datasets cora] [--only upgnet] [--seeds 2] [--jobs 4] [--device cuda]
python -m studies.grids report rivals frontier [--out runs/paper]

`report` takes experiments of the paper too, and judges the paper's claims about them.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from studies.grids.experiments import find, load, names
from studies.grids.report import write_report
from veilgraph.errors import VeilgraphError
from veilgraph.experiments.cells import DatasetLoader
from veilgraph.experiments.results import ResultStore, read_all_rows
from veilgraph.experiments.runner import Resources, run_experiment
from veilgraph.models.engine.device import resolve_device


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="print the grids with their number of fits")
    run = commands.add_parser("run", help="run the fits of a grid that are not finished yet")
    run.add_argument("name", help="a grid that `list` shows")
    run.add_argument("--datasets", nargs="+", default=[], help="only these data sets")
    run.add_argument("--only", nargs="+", default=[], help="only these methods")
    run.add_argument("--device", default="auto", help="auto, cpu or cuda")
    run.add_argument("--jobs", type=int, help="processes; default: one for each core, 1 on a GPU")
    run.add_argument("--memory", type=int, default=8, help="memory of all fits in flight, in GiB")
    report = commands.add_parser("report", help="write tables, figures and report.md of the finished fits")
    report.add_argument("names", nargs="*", help="grids, or experiments of the paper; default: all grids")
    for command in (run, report):
        command.add_argument("--seeds", type=int, help="number of seeds; default: that of the grid")
        command.add_argument("--out", type=Path, default=Path("runs/paper"), help="folder of results")
        command.add_argument("--data-dir", type=Path, help="folder of the data sets")
    return parser.parse_args()


def _run(options: argparse.Namespace) -> None:
    kind = resolve_device(options.device).type
    experiment = load(options.name, seeds=options.seeds).only(datasets=options.datasets, methods=options.only)

    def show(words: str, done: int, total: int) -> None:
        print(f"{done} of {total}: {words}", file=sys.stderr, flush=True)

    run_experiment(
        experiment,
        ResultStore(options.out),
        data=DatasetLoader(options.data_dir),
        resources=Resources(
            device=kind,
            jobs=options.jobs or (os.cpu_count() or 1 if kind == "cpu" else 1),
            memory=options.memory * 2**30,
        ),
        progress=show,
    )


def _report(options: argparse.Namespace) -> None:
    experiments = [find(name, seeds=options.seeds) for name in options.names or names()]
    results = read_all_rows(experiments, ResultStore(options.out), data=DatasetLoader(options.data_dir))
    print(write_report(results, {each.name: each.title for each in experiments}, options.out))


def main() -> int:
    """Do what the command line says; a mistake is one line."""
    options = _arguments()
    try:
        if options.command == "list":
            for experiment in map(load, names()):
                print(f"{experiment.name:20} {len(experiment.cells):5} fits   {experiment.title}")
        elif options.command == "run":
            _run(options)
        else:
            _report(options)
    except VeilgraphError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
