"""`veilgraph lab paper`: the paper's tables and figures; `veilgraph tune`: a search of parameters."""

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
from veilgraph.cli.options import DeviceOption, JsonOption, Settings, takes_groups
from veilgraph.cli.output import Facts, emit
from veilgraph.errors import RunError

if TYPE_CHECKING:
    from veilgraph.experiments.grid import Experiment


@dataclass(frozen=True, kw_only=True)
class _ChosenOptions:
    """The part of an experiment that is run or reported."""

    datasets: Annotated[
        list[str] | None,
        typer.Option(help="Only these data sets; may be repeated.", autocompletion=complete_dataset),
    ] = None
    only: Annotated[
        list[str] | None, typer.Option(help="Only these methods; may be repeated.", autocompletion=complete_method)
    ] = None
    seeds: Annotated[int | None, typer.Option(help="Number of seeds; default: that of the paper.")] = None

    def load(self, name: str) -> Experiment:
        """Return the chosen part of an experiment."""
        return _load(name, self.seeds).only(datasets=self.datasets or (), methods=self.only or ())


@dataclass(frozen=True, kw_only=True)
class _Job(Settings):
    """What the fits may use."""

    jobs: Annotated[int | None, typer.Option(help="Processes; default: one for each core, 1 on a GPU.")] = None
    memory: Annotated[str, typer.Option(help="Memory of all fits in flight, such as 8GiB or 500MB.")] = "8GiB"

    def processes(self, kind: str) -> int:
        """Return the number of processes on a kind of device."""
        jobs = (os.cpu_count() or 1 if kind == "cpu" else 1) if self.jobs is None else self.jobs
        if jobs < 1:
            raise RunError(f"jobs is {jobs}: use at least 1")
        return jobs


@takes_groups
def paper(
    chosen: _ChosenOptions,
    job: _Job,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="What to run: names of the list, or files of your own, .toml.",
            metavar="NAME...",
            autocompletion=complete_experiment,
        ),
    ] = None,
    report: Annotated[
        bool,
        typer.Option(
            "--report", help="Run nothing: write a page, tables and figures of what is finished. Default: of all names."
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder of results; default runs/paper, or runs/NAME for a file of your own.")
    ] = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """List the experiments of the paper with their number of fits; with NAME, run those that are not finished."""
    if not names and not report:
        emit(_listed(), as_json=as_json)
        return
    experiments = [chosen.load(name) for name in dict.fromkeys(names or _names())]
    folders = [out or _folder_of([each]) for each in experiments]
    if report:
        emit(_reported(experiments, out or _folder_of(experiments), say=not as_json), as_json=as_json)
        return
    for experiment, folder in zip(experiments, folders, strict=True):
        _run(experiment, folder, job, device)
        if not as_json:
            where = "" if out is None else f" --out {shlex.quote(str(out))}"
            page = f"veilgraph lab paper {experiment.argument} --report{where}"
            echo(f"{len(experiment.cells)} fits finished. See: {page}", err=True)
    facts = [
        {"name": str(each.path or each.name), "finished": len(each.cells), "folder": str(folder)}
        for each, folder in zip(experiments, folders, strict=True)
    ]
    emit(Facts(facts, ()), as_json=as_json)


def _run(experiment: Experiment, folder: Path, job: _Job, device: str) -> None:
    """Run the fits that are not finished yet."""
    from veilgraph.experiments.cells import DatasetLoader
    from veilgraph.experiments.results import ResultStore
    from veilgraph.experiments.runner import Resources, run_experiment
    from veilgraph.models.engine.device import resolve_device

    kind = resolve_device(device).type
    resources = Resources(device=kind, jobs=job.processes(kind), memory=parse_bytes(job.memory))
    with show_progress(f"paper {experiment.name}") as progress:
        run_experiment(experiment, ResultStore(folder), data=DatasetLoader(), resources=resources, progress=progress)


def _listed() -> Facts:
    """Return the experiments with their number of fits."""
    experiments = [_load(name) for name in _names()]
    rows = [{"name": e.name, "title": e.title, "cells": len(e.cells)} for e in experiments]
    return Facts(rows, [f"{e.name:20} {len(e.cells):5} fits   {e.title}" for e in experiments])


def _reported(experiments: Sequence[Experiment], folder: Path, *, say: bool) -> Facts:
    """Write a page, tables and figures of the finished fits, beside the published figures; say how many they are."""
    from veilgraph.experiments.cells import DatasetLoader
    from veilgraph.experiments.results import ResultStore, read_all_rows
    from veilgraph.pages.paper_page import write_paper_page

    found = read_all_rows(experiments, ResultStore(folder), data=DatasetLoader())
    titles = {experiment.name: experiment.title for experiment in experiments}
    page = write_paper_page(found, titles, folder)
    rows = [
        ({"experiment": name} if len(experiments) > 1 else {}) | row.as_dict()
        for name, results in found.items()
        for row in results
    ]
    for experiment in (each for each in experiments if each.name not in found and say):
        echo(
            f"Left out: nothing of {experiment.name} is finished (veilgraph lab paper {experiment.argument})", err=True
        )
    counts = [
        (each, sum(len(row.accuracies) for row in found[each.name])) for each in experiments if each.name in found
    ]
    finished = [{"name": each.name, "finished": done, "cells": len(each.cells)} for each, done in counts]
    sentences = [f"{each.name}: {done} of {len(each.cells)} fits finished" for each, done in counts]
    return Facts({"rows": rows, "experiments": finished}, [*sentences, str(page)])


def _names() -> list[str]:
    _need_lab()
    from veilgraph.experiments.grid import experiment_names

    return experiment_names()


def _load(name: str, seeds: int | None = None) -> Experiment:
    _need_lab()
    from veilgraph.experiments.own_experiment import find_experiment

    return find_experiment(name, seeds=seeds)


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
class _Search(Settings):
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
    search: _Search,
    out: Annotated[Path, typer.Option(help="Folder of the journal and the results of the search.")] = Path("runs/tune"),
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
                    data=DatasetLoader(),
                    progress=progress,
                )
            found.setdefault(dataset, {})[f"{label_budget:g}"] = result
        write_atomically(out / f"{short_name(dataset)}.toml", tomli_w.dumps(_parameters({dataset: found[dataset]})))
    document = {name: {k: asdict(v) for k, v in each.items()} for name, each in found.items()}
    emit(Facts(document, tomli_w.dumps(_parameters(found)).split("\n")), as_json=as_json)


def _parameters(found: dict[str, dict[str, SearchResult]]) -> dict[str, Any]:
    """Return the parameters in the form that experiments read."""
    return {name: {budget: dict(result.parameters) for budget, result in each.items()} for name, each in found.items()}
