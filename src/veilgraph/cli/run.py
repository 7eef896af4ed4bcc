"""`veilgraph run`: simulate a collection, train on its reports, and compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from veilgraph.cli._common import echo_json, needs_extra, show_progress
from veilgraph.errors import RunError
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.epsilon import show_epsilon
from veilgraph.privacy.plain_text import escape

if TYPE_CHECKING:
    from veilgraph.datasets import PrivateGraph

_PRINTED = ("accuracy_mean", "accuracy_std", "epsilon_user_level")


def run(
    dataset: Annotated[str, typer.Option(help="A name that `veilgraph data list` shows.")] = "patients",
    epsilon_x: Annotated[float, typer.Option(help="Budget of each sampled feature.")] = 1.0,
    epsilon_y: Annotated[float, typer.Option(help="Budget of the label.")] = 1.0,
    sampled: Annotated[int, typer.Option(help="Number of features that each person samples.")] = 10,
    backbone: Annotated[str, typer.Option(help="sage, gcn or gat.")] = "sage",
    seeds: Annotated[int, typer.Option(help="Independent repetitions.")] = 5,
    feature_hops: Annotated[int | None, typer.Option(help="K_x; default: from the graph.")] = None,
    label_hops: Annotated[int | None, typer.Option(help="K_y; default: from the graph.")] = None,
    clusters: Annotated[int, typer.Option(help="C, the number of clusters (bags).")] = 16,
    llp_weight: Annotated[float, typer.Option(help="alpha, the weight of the bags in the loss.")] = 1.0,
    epochs: Annotated[int, typer.Option(help="Training epochs of every GNN.")] = 100,
    out: Annotated[
        Path | None, typer.Option(help="Folder of results; default: named in runs/ by the settings.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    data_dir: Annotated[Path | None, typer.Option(help="Folder of fetched data sets.")] = None,
    edges: Annotated[Path | None, typer.Option(help="Your own graph: edge table, .csv or .parquet.")] = None,
    nodes: Annotated[Path | None, typer.Option(help="Your own records: node table with a column 'id'.")] = None,
    schema: Annotated[Path | None, typer.Option(help="Your own schema, .toml.")] = None,
    label: Annotated[str | None, typer.Option(help="The node table's column that holds the class.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Simulate a collection, train on its reports, compare with a control and a ceiling, and write a page."""
    budget = PrivacyBudget(epsilon_x, epsilon_y, sampled)
    with needs_extra("lab"):
        from veilgraph.experiments.single_run import RunConfiguration
        from veilgraph.experiments.single_run import run as run_comparison
        from veilgraph.models.engine.device import resolve_device
        from veilgraph.pages.run_page import write_run_page
    resolve_device(device)
    private = _load(dataset, data_dir, edges, nodes, schema, label)
    configuration = RunConfiguration(
        budget=budget,
        backbone=backbone,
        seeds=seeds,
        feature_hops=feature_hops,
        label_hops=label_hops,
        num_clusters=clusters,
        llp_weight=llp_weight,
        epochs=epochs,
    )
    folder = out or Path("runs") / _default_name(private.name, budget, backbone, seeds)
    with show_progress("run") as progress:
        result = run_comparison(private, configuration, folder, device=device, progress=progress)
    write_run_page(result, folder)
    if as_json:
        methods = {name: {key: row[key] for key in _PRINTED} for name, row in result["methods"].items()}
        printed = {key: result[key] for key in ("dataset", "guarantee")} | {"methods": methods, "folder": str(folder)}
        echo_json(printed)
    else:
        _print_result(result, folder)


def _load(
    dataset: str, data_dir: Path | None, edges: Path | None, nodes: Path | None, schema: Path | None, label: str | None
) -> PrivateGraph:
    from veilgraph.datasets import from_tables, load

    if edges is None and nodes is None and schema is None and label is None:
        return load(dataset, data_dir)
    if edges is None or nodes is None or schema is None or label is None:
        raise RunError("for your own data give all four: --edges, --nodes, --schema and --label")
    return from_tables(edges=edges, nodes=nodes, schema=schema, label=label)


def _default_name(dataset: str, budget: PrivacyBudget, backbone: str, seeds: int) -> str:
    return f"{dataset}-x{budget.epsilon_x:g}-y{budget.epsilon_y:g}-m{budget.sampled}-{backbone}-{seeds}seeds"


def _print_result(result: dict[str, Any], folder: Path) -> None:
    console = Console(markup=False)
    table = Table(title=f"{escape(result['dataset'])}: test accuracy over {result['configuration']['seeds']} seeds")
    for heading in ("method", "user-level epsilon", "accuracy"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for name, row in result["methods"].items():
        epsilon, spread = row["epsilon_user_level"], row["accuracy_std"]
        table.add_row(
            name,
            epsilon if isinstance(epsilon, str) else show_epsilon(epsilon),
            f"{row['accuracy_mean']:.1%}" + ("" if spread is None else f" ± {spread * 100:.1f}"),
        )
    console.print(table)
    for sentence in result["guarantee_in_words"]:
        console.print(sentence, highlight=False, soft_wrap=True)
    console.print(escape(f"Page: {folder / 'report.html'}"), highlight=False, soft_wrap=True)
