"""`veilgraph paper` and `veilgraph tune`: reproduce the paper's tables and figures, and search hyper-parameters."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tomli_w
import typer

from veilgraph.atomic_files import write_atomically
from veilgraph.cli._common import echo, echo_json, needs_extra, parse_bytes, show_progress
from veilgraph.cli.completion import complete_dataset, complete_experiment, complete_method
from veilgraph.errors import RunError

if TYPE_CHECKING:
    from veilgraph.experiments.grid import Experiment

paper_app = typer.Typer(help="Reproduce the tables and figures of the paper.")

Name = Annotated[
    str,
    typer.Argument(
        help="A name that `veilgraph paper list` shows, or a file of your own, .toml.",
        autocompletion=complete_experiment,
    ),
]
Out = Annotated[
    Path | None, typer.Option(help="Folder of results; default runs/paper, or runs/NAME for a file of your own.")
]
DataDir = Annotated[Path | None, typer.Option(help="Folder of the data sets.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


@paper_app.command("list")
def list_experiments(as_json: Json = False) -> None:
    """List the experiments with their number of fits."""
    experiments = [_load(name) for name in _names()]
    if as_json:
        rows = [{"name": e.name, "title": e.title, "cells": len(e.cells)} for e in experiments]
        echo_json(rows)
        return
    for experiment in experiments:
        echo(f"{experiment.name:20} {len(experiment.cells):5} fits   {experiment.title}")


@paper_app.command("run")
def run_paper(
    name: Name,
    datasets: Annotated[
        list[str] | None,
        typer.Option(help="Only these data sets; may be repeated.", autocompletion=complete_dataset),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only these methods; may be repeated.", autocompletion=complete_method)
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds; default: that of the paper.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    jobs: Annotated[int | None, typer.Option(help="Processes; default: one for each core, 1 on a GPU.")] = None,
    memory: Annotated[str, typer.Option(help="Memory of all fits in flight, such as 8GiB or 500MB.")] = "8GiB",
    out: Out = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Run the fits of an experiment that are not finished yet."""
    from veilgraph.experiments.cells import DatasetLoader
    from veilgraph.experiments.results import ResultStore
    from veilgraph.experiments.runner import run_experiment
    from veilgraph.models.engine.device import resolve_device

    kind = resolve_device(device).type
    experiment = _load(name, seeds, data_dir).only(datasets=datasets or (), methods=only or ())
    folder = out or _folder_of([experiment])
    jobs = (os.cpu_count() or 1 if kind == "cpu" else 1) if jobs is None else jobs
    if jobs < 1:
        raise RunError(f"jobs is {jobs}: use at least 1")
    with show_progress(f"paper {experiment.name}") as progress:
        store = ResultStore(folder)
        run_experiment(
            experiment,
            store,
            data=DatasetLoader(data_dir),
            device=kind,
            jobs=jobs,
            memory=parse_bytes(memory),
            progress=progress,
        )
    if as_json:
        echo_json({"name": name, "finished": len(experiment.cells), "folder": str(folder)}, indent=None)
    else:
        asked = "" if out is None else f" --out {shlex.quote(str(out))}"
        echo(
            f"{len(experiment.cells)} fits finished. See: veilgraph paper report {experiment.argument}{asked}", err=True
        )


@paper_app.command()
def status(name: Name, out: Out = None, data_dir: DataDir = None, as_json: Json = False) -> None:
    """Print how many fits of an experiment are finished."""
    from veilgraph.experiments.cells import DatasetLoader, key_of
    from veilgraph.experiments.results import ResultStore

    experiment, data = _load(name, data_dir=data_dir), DatasetLoader(data_dir)
    store = ResultStore(out or _folder_of([experiment]))
    finished = sum(store.has(key_of(cell, data)) for cell in experiment.cells)
    facts = {"name": name, "finished": finished, "cells": len(experiment.cells)}
    if as_json:
        echo_json(facts, indent=None)
    else:
        echo(f"{name}: {finished} of {len(experiment.cells)} fits finished")


@paper_app.command()
def report(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names that `veilgraph paper list` shows, or files of your own, .toml. Default: all names.",
            autocompletion=complete_experiment,
        ),
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds; default: that of the paper.")] = None,
    out: Out = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Write a page, tables and figures of the finished fits, beside the published figures."""
    experiments = [_load(name, seeds, data_dir) for name in dict.fromkeys(names or _names())]
    folder = out or _folder_of(experiments)
    from veilgraph.experiments.cells import DatasetLoader
    from veilgraph.experiments.results import ResultStore, read_all_rows
    from veilgraph.pages.paper_page import write_paper_page

    found = read_all_rows(experiments, ResultStore(folder), data=DatasetLoader(data_dir))
    titles = {experiment.name: experiment.title for experiment in experiments}
    page = write_paper_page(found, titles, folder)
    if as_json:
        rows = [
            ({"experiment": name} if len(experiments) > 1 else {}) | row.as_dict()
            for name, results in found.items()
            for row in results
        ]
        echo_json({"rows": rows})
        return
    for experiment in (each for each in experiments if each.name not in found):
        echo(
            f"Left out: nothing of {experiment.name} is finished (veilgraph paper run {experiment.argument})", err=True
        )
    echo(str(page))


def _names() -> list[str]:
    _need_lab()
    from veilgraph.experiments.grid import experiment_names

    return experiment_names()


def _load(name: str, seeds: int | None = None, data_dir: Path | None = None) -> Experiment:
    _need_lab()
    from veilgraph.experiments.own_experiment import find_experiment

    return find_experiment(name, seeds=seeds, data_dir=data_dir)


def _folder_of(experiments: Sequence[Experiment]) -> Path:
    """Return the default folder of results: one for the paper, and one for each experiment of the reader's own."""
    own = {experiment.name for experiment in experiments if experiment.path is not None}
    if own and len(experiments) > 1:
        raise RunError(
            "these experiments have several folders of results: give one with --out, or report one at a time"
        )
    return Path("runs") / next(iter(own), "paper")


def _need_lab() -> None:
    with needs_extra("lab"):
        import veilgraph.experiments.runner  # noqa: F401


if TYPE_CHECKING:
    from veilgraph.experiments.tune import SearchResult


def tune(
    datasets: Annotated[
        list[str],
        typer.Argument(help="Data sets to tune on: names, or paths of your own.", autocompletion=complete_dataset),
    ],
    epsilon_x: Annotated[float, typer.Option(help="Budget of each sampled feature.")] = 1.0,
    epsilon_y: Annotated[list[float] | None, typer.Option(help="Budgets of the label; default 3, 2, 1, 0.5.")] = None,
    sampled: Annotated[int, typer.Option(help="Number of features that each person samples.")] = 10,
    trials: Annotated[int, typer.Option(help="Number of settings for each data set and budget.")] = 30,
    seeds: Annotated[int, typer.Option(help="Number of draws that each setting is averaged over.")] = 10,
    epochs: Annotated[int, typer.Option(help="Training epochs.")] = 100,
    out: Annotated[Path, typer.Option(help="Folder of the journal and the results of the search.")] = Path("runs/tune"),
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the data sets.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Search hyper-parameters of RGNN; the score is the likelihood of randomized validation labels."""
    with needs_extra("lab"):
        from veilgraph.experiments.cells import DatasetLoader
        from veilgraph.experiments.tune import tune as search
    from veilgraph.datasets.registry import short_name

    found: dict[str, dict[str, SearchResult]] = {}
    for dataset in datasets:
        for label_budget in epsilon_y or [3.0, 2.0, 1.0, 0.5]:
            with show_progress(f"tune {dataset}, epsilon_y {label_budget:g}") as progress:
                result = search(
                    dataset,
                    epsilon_x=epsilon_x,
                    epsilon_y=label_budget,
                    sampled=sampled,
                    trials=trials,
                    seeds=seeds,
                    epochs=epochs,
                    journal=out / f"{short_name(dataset)}.journal",
                    data=DatasetLoader(data_dir),
                    device=device,
                    progress=progress,
                )
            found.setdefault(dataset, {})[f"{label_budget:g}"] = result
        write_atomically(out / f"{short_name(dataset)}.toml", tomli_w.dumps(_parameters({dataset: found[dataset]})))
    if as_json:
        echo_json({name: {k: asdict(v) for k, v in each.items()} for name, each in found.items()})
    else:
        echo(*tomli_w.dumps(_parameters(found)).split("\n"))


def _parameters(found: dict[str, dict[str, SearchResult]]) -> dict[str, Any]:
    """Return the parameters in the form that experiments read."""
    return {name: {budget: dict(result.parameters) for budget, result in each.items()} for name, each in found.items()}
