"""`veilgraph lab paper`: the paper's tables and figures."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
