"""`veilgraph tune`: search hyper-parameters with randomized validation labels."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tomli_w
import typer

from veilgraph.atomic_files import write_atomically
from veilgraph.cli._common import needs_extra, show_progress

if TYPE_CHECKING:
    from veilgraph.experiments.tune import SearchResult


def tune(
    datasets: Annotated[list[str], typer.Argument(help="Data sets to tune RGNN on.")],
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
    """Search RGNN's hyper-parameters; the score is the likelihood of randomized validation labels."""
    with needs_extra("lab"):
        from veilgraph.experiments.data_source import DatasetLoader
        from veilgraph.experiments.tune import tune as tune_rgnn
    found: dict[str, dict[str, SearchResult]] = {}
    for dataset in datasets:
        for label_budget in epsilon_y or [3.0, 2.0, 1.0, 0.5]:
            with show_progress(f"tune {dataset}, epsilon_y {label_budget:g}") as progress:
                search = tune_rgnn(
                    dataset,
                    epsilon_x=epsilon_x,
                    epsilon_y=label_budget,
                    sampled=sampled,
                    trials=trials,
                    seeds=seeds,
                    epochs=epochs,
                    journal=out / f"{dataset}.journal",
                    data=DatasetLoader(data_dir),
                    device=device,
                    progress=progress,
                )
            found.setdefault(dataset, {})[f"{label_budget:g}"] = search
        write_atomically(out / f"{dataset}.toml", tomli_w.dumps(_parameters({dataset: found[dataset]})))
    if as_json:
        typer.echo(
            json.dumps({name: {k: asdict(v) for k, v in each.items()} for name, each in found.items()}, indent=2)
        )
    else:
        typer.echo(tomli_w.dumps(_parameters(found)))


def _parameters(found: dict[str, dict[str, SearchResult]]) -> dict[str, Any]:
    """Return the parameters in the form that experiments read."""
    return {name: {budget: dict(search.parameters) for budget, search in each.items()} for name, each in found.items()}
