"""`veilgraph paper` and `veilgraph tune`: reproduce the paper's tables and figures, and search hyper-parameters."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tomli_w
import typer

from veilgraph.atomic_files import write_atomically
from veilgraph.cli._common import echo, needs_extra, parse_bytes, show_progress
from veilgraph.cli.completion import complete_dataset, complete_experiment, complete_method
from veilgraph.cli.options import DeviceOption, JsonOption, takes_groups
from veilgraph.cli.output import Facts, emit
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
SeedsOption = Annotated[int | None, typer.Option(help="Number of seeds; default: that of the paper.")]
DataDir = Annotated[Path | None, typer.Option(help="Folder of the data sets.")]


@paper_app.command("list")
def list_experiments(as_json: JsonOption = False) -> None:
    """List the experiments with their number of fits."""
    experiments = [_load(name) for name in _names()]
    rows = [{"name": e.name, "title": e.title, "cells": len(e.cells)} for e in experiments]
    sentences = [f"{e.name:20} {len(e.cells):5} fits   {e.title}" for e in experiments]
    emit(Facts(rows, sentences), as_json=as_json)


@dataclass(frozen=True, kw_only=True)
class _ChosenOptions:
    """The part of an experiment that is run."""

    datasets: Annotated[
        list[str] | None,
        typer.Option(help="Only these data sets; may be repeated.", autocompletion=complete_dataset),
    ] = None
    only: Annotated[
        list[str] | None, typer.Option(help="Only these methods; may be repeated.", autocompletion=complete_method)
    ] = None
    seeds: SeedsOption = None


@dataclass(frozen=True, kw_only=True)
class _JobOptions:
    """What computes."""

    device: DeviceOption = "auto"
    jobs: Annotated[int | None, typer.Option(help="Processes; default: one for each core, 1 on a GPU.")] = None
    memory: Annotated[str, typer.Option(help="Memory of all fits in flight, such as 8GiB or 500MB.")] = "8GiB"

    def processes(self, kind: str) -> int:
        """Return the number of processes on a kind of device."""
        jobs = (os.cpu_count() or 1 if kind == "cpu" else 1) if self.jobs is None else self.jobs
        if jobs < 1:
            raise RunError(f"jobs is {jobs}: use at least 1")
        return jobs


@paper_app.command("run")
@takes_groups
def run_paper(
    name: Name,
    chosen: _ChosenOptions,
    job: _JobOptions,
    out: Out = None,
    data_dir: DataDir = None,
    as_json: JsonOption = False,
) -> None:
    """Run the fits of an experiment that are not finished yet."""
    from veilgraph.experiments.cells import DatasetLoader
    from veilgraph.experiments.results import ResultStore
    from veilgraph.experiments.runner import Resources, run_experiment
    from veilgraph.models.engine.device import resolve_device

    kind = resolve_device(job.device).type
    experiment = _load(name, chosen.seeds, data_dir).only(datasets=chosen.datasets or (), methods=chosen.only or ())
    folder = out or _folder_of([experiment])
    jobs = job.processes(kind)
    with show_progress(f"paper {experiment.name}") as progress:
        store = ResultStore(folder)
        run_experiment(
            experiment,
            store,
            data=DatasetLoader(data_dir),
            resources=Resources(device=kind, jobs=jobs, memory=parse_bytes(job.memory)),
            progress=progress,
        )
    emit(Facts({"name": name, "finished": len(experiment.cells), "folder": str(folder)}, ()), as_json=as_json)
    if not as_json:
        asked = "" if out is None else f" --out {shlex.quote(str(out))}"
        echo(
            f"{len(experiment.cells)} fits finished. See: veilgraph paper report {experiment.argument}{asked}", err=True
        )


@paper_app.command()
def status(name: Name, out: Out = None, data_dir: DataDir = None, as_json: JsonOption = False) -> None:
    """Print how many fits of an experiment are finished."""
    from veilgraph.experiments.cells import DatasetLoader, key_of
    from veilgraph.experiments.results import ResultStore

    experiment, data = _load(name, data_dir=data_dir), DatasetLoader(data_dir)
    store = ResultStore(out or _folder_of([experiment]))
    finished = sum(store.has(key_of(cell, data)) for cell in experiment.cells)
    facts = {"name": name, "finished": finished, "cells": len(experiment.cells)}
    emit(Facts(facts, [f"{name}: {finished} of {len(experiment.cells)} fits finished"]), as_json=as_json)


@paper_app.command()
def report(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names that `veilgraph paper list` shows, or files of your own, .toml. Default: all names.",
            autocompletion=complete_experiment,
        ),
    ] = None,
    seeds: SeedsOption = None,
    out: Out = None,
    data_dir: DataDir = None,
    as_json: JsonOption = False,
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
    rows = [
        ({"experiment": name} if len(experiments) > 1 else {}) | row.as_dict()
        for name, results in found.items()
        for row in results
    ]
    for experiment in (each for each in experiments if each.name not in found and not as_json):
        echo(
            f"Left out: nothing of {experiment.name} is finished (veilgraph paper run {experiment.argument})", err=True
        )
    emit(Facts({"rows": rows}, [str(page)]), as_json=as_json)


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


@dataclass(frozen=True, kw_only=True)
class _BudgetOptions:
    """Budgets of reports; each of the label has parameters of its own."""

    epsilon_x: Annotated[float, typer.Option(help="Budget of each sampled feature.")] = 1.0
    epsilon_y: Annotated[list[float] | None, typer.Option(help="Budgets of the label; default 3, 2, 1, 0.5.")] = None
    sampled: Annotated[int, typer.Option(help="Number of features that each person samples.")] = 10


@dataclass(frozen=True, kw_only=True)
class _SearchOptions:
    """How much is searched."""

    trials: Annotated[int, typer.Option(help="Number of settings for each data set and budget.")] = 30
    seeds: Annotated[int, typer.Option(help="Number of draws that each setting is averaged over.")] = 10
    epochs: Annotated[int, typer.Option(help="Training epochs.")] = 100


@takes_groups
def tune(
    datasets: Annotated[
        list[str],
        typer.Argument(help="Data sets to tune on: names, or paths of your own.", autocompletion=complete_dataset),
    ],
    budget: _BudgetOptions,
    search: _SearchOptions,
    out: Annotated[Path, typer.Option(help="Folder of the journal and the results of the search.")] = Path("runs/tune"),
    data_dir: DataDir = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Search hyper-parameters of RGNN; the score is the likelihood of randomized validation labels."""
    with needs_extra("lab"):
        from veilgraph.experiments.cells import DatasetLoader
        from veilgraph.experiments.grid import make_cell
        from veilgraph.experiments.tune import FIRST_SEED, Search
        from veilgraph.experiments.tune import tune as search_parameters
    from veilgraph.datasets.registry import short_name

    found: dict[str, dict[str, SearchResult]] = {}
    for dataset in datasets:
        for label_budget in budget.epsilon_y or [3.0, 2.0, 1.0, 0.5]:
            with show_progress(f"tune {dataset}, epsilon_y {label_budget:g}") as progress:
                cell = make_cell(
                    dataset=dataset,
                    method="rgnn",
                    epsilon_x=budget.epsilon_x,
                    epsilon_y=label_budget,
                    sampled=budget.sampled,
                    seed=FIRST_SEED,
                    parameters={},
                )
                result = search_parameters(
                    cell,
                    Search(**asdict(search), device=device),
                    journal=out / f"{short_name(dataset)}.journal",
                    data=DatasetLoader(data_dir),
                    progress=progress,
                )
            found.setdefault(dataset, {})[f"{label_budget:g}"] = result
        write_atomically(out / f"{short_name(dataset)}.toml", tomli_w.dumps(_parameters({dataset: found[dataset]})))
    document = {name: {k: asdict(v) for k, v in each.items()} for name, each in found.items()}
    emit(Facts(document, tomli_w.dumps(_parameters(found)).split("\n")), as_json=as_json)


def _parameters(found: dict[str, dict[str, SearchResult]]) -> dict[str, Any]:
    """Return the parameters in the form that experiments read."""
    return {name: {budget: dict(result.parameters) for budget, result in each.items()} for name, each in found.items()}
