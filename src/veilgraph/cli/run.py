"""`veilgraph run`: simulate collections on one graph, learn from their reports, and compare."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from veilgraph.cli._common import echo_json, needs_extra, show_progress
from veilgraph.cli.completion import complete_dataset
from veilgraph.errors import RunError
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.epsilon import show_epsilon
from veilgraph.privacy.plain_text import counted, escape

if TYPE_CHECKING:
    from veilgraph.datasets import PrivateGraph
    from veilgraph.pages.curve_page import CampaignFiles

_PRINTED = ("accuracy_mean", "accuracy_std", "epsilon_user_level")
_SAMPLED = 10


def run(
    dataset: Annotated[
        str,
        typer.Option(
            help="A name that `veilgraph data list` shows, or a path: ./MINE.npz, or a folder of tables.",
            autocompletion=complete_dataset,
        ),
    ] = "voters",
    epsilon: Annotated[
        list[float] | None,
        typer.Option(help="Total of the curve, user level (any two records); repeat it. Default: 0.25 to 8."),
    ] = None,
    epsilon_x: Annotated[
        float | None, typer.Option(help="One budget instead of the curve: of each sampled feature.")
    ] = None,
    epsilon_y: Annotated[float | None, typer.Option(help="One budget instead of the curve: of the label.")] = None,
    sampled: Annotated[int, typer.Option(help="Number of features that each person samples.")] = _SAMPLED,
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
    data_dir: Annotated[Path | None, typer.Option(help="Folder of fetched data sets, and of your own.")] = None,
    edges: Annotated[Path | None, typer.Option(help="Your own graph: edge table, .csv or .parquet.")] = None,
    nodes: Annotated[Path | None, typer.Option(help="Your own records: node table with a column 'id'.")] = None,
    schema: Annotated[Path | None, typer.Option(help="Your own schema, .toml.")] = None,
    label: Annotated[str | None, typer.Option(help="The node table's column that holds the class.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Show what can be learned at which epsilon: simulate collections, learn from their reports, write a page.

    With --epsilon-x or --epsilon-y it simulates one collection with that budget, in more detail.
    """
    one_budget = _one_budget(epsilon, epsilon_x, epsilon_y, sampled)
    with needs_extra("lab"):
        from veilgraph.experiments.privacy_curve import TOTALS, CurveConfiguration, run_curve
        from veilgraph.experiments.single_run import RunConfiguration, run_comparison
        from veilgraph.models.engine.device import resolve_device
        from veilgraph.pages.curve_page import write_curve_page
        from veilgraph.pages.run_page import write_run_page
    resolve_device(device)
    private, files = _load(dataset, data_dir, edges, nodes, schema, label)
    settings: dict[str, Any] = {
        "backbone": backbone,
        "seeds": seeds,
        "feature_hops": feature_hops,
        "label_hops": label_hops,
        "num_clusters": clusters,
        "llp_weight": llp_weight,
        "epochs": epochs,
    }
    if one_budget is not None:
        single = RunConfiguration(budget=one_budget, **settings)
        folder = out or Path("runs") / _budget_name(private.name, one_budget, backbone, seeds)
        with show_progress("run") as progress:
            result = run_comparison(private, single, folder, device=device, progress=progress)
        write_run_page(result, folder)
        _show_single(result, folder, as_json=as_json)
        return
    curve = CurveConfiguration(totals=tuple(epsilon or TOTALS), sampled=sampled, **settings)
    folder = out or Path("runs") / _curve_name(private.name, epsilon, sampled, backbone, seeds)
    with show_progress("run") as progress:
        result = run_curve(private, curve, folder, device=device, progress=progress)
    write_curve_page(result, folder, files)
    _show_curve(result, folder, files, as_json=as_json)


def _one_budget(
    totals: Sequence[float] | None, epsilon_x: float | None, epsilon_y: float | None, sampled: int
) -> PrivacyBudget | None:
    """Return the budget of a single collection, or None for the curve."""
    if epsilon_x is None and epsilon_y is None:
        return None
    if totals:
        raise RunError("--epsilon draws the curve, --epsilon-x and --epsilon-y describe one collection: give either")
    if epsilon_x is None:
        return PrivacyBudget(epsilon_y=float(epsilon_y or 0))
    return PrivacyBudget(epsilon_x, 1.0 if epsilon_y is None else epsilon_y, sampled)


def _load(
    dataset: str, data_dir: Path | None, edges: Path | None, nodes: Path | None, schema: Path | None, label: str | None
) -> tuple[PrivateGraph, CampaignFiles]:
    """Return the records, and the files that a campaign for the same people would use."""
    from veilgraph.datasets import from_tables, load
    from veilgraph.datasets.registry import is_path
    from veilgraph.datasets.table_folder import TableFolder
    from veilgraph.pages.curve_page import CampaignFiles

    if edges is None and nodes is None and schema is None and label is None:
        if not is_path(dataset) or not Path(dataset).is_dir():
            return load(dataset, data_dir), CampaignFiles()
        tables = TableFolder.find(Path(dataset))
        private = tables.read()
    elif edges is None or nodes is None or schema is None or label is None:
        raise RunError("for your own data give all four: --edges, --nodes, --schema and --label")
    else:
        tables = TableFolder(edges=edges, nodes=nodes, schema=schema, label=label)
        private = from_tables(edges=edges, nodes=nodes, schema=schema, label=label)
    return private, CampaignFiles(str(tables.schema), str(tables.edges), str(tables.nodes), tables.label)


def _budget_name(dataset: str, budget: PrivacyBudget, backbone: str, seeds: int) -> str:
    features = f"-x{budget.epsilon_x:g}-m{budget.sampled}" if budget.collects_features else ""
    return f"{dataset}{features}-y{budget.epsilon_y:g}-{backbone}-{seeds}seeds"


def _curve_name(dataset: str, totals: Sequence[float] | None, sampled: int, backbone: str, seeds: int) -> str:
    given = "".join(f"-e{total:g}" for total in sorted(totals or ()))
    drawn = "" if sampled == _SAMPLED else f"-m{sampled}"
    return f"{dataset}-curve{given}{drawn}-{backbone}-{seeds}seeds"


def _show_curve(result: dict[str, Any], folder: Path, files: CampaignFiles, *, as_json: bool) -> None:
    from veilgraph.pages.curve_page import (
        CURVE_TITLES,
        campaign_commands,
        headline,
        invitation,
        point_rows,
        recommended_design,
        summary,
    )
    from veilgraph.pages.formatting import accuracy_text

    design, commands = recommended_design(result), campaign_commands(result, files)
    if as_json:
        shown = {key: result[key] for key in ("dataset", "totals", "designs", "methods", "not_private")}
        recommended = {"headline": headline(result), "design": design, "commands": commands}
        echo_json(shown | recommended | {"folder": str(folder)})
        return
    console = Console(markup=False)
    seeds = result["configuration"]["seeds"]
    table = Table(title=f"{escape(result['dataset'])}: test accuracy over {counted(seeds, 'seed')}, by total epsilon")
    table.add_column("user-level\nepsilon", justify="right")
    table.add_column("classes that a\nreport names", justify="right")
    for name in result["methods"]:
        table.add_column(CURVE_TITLES[name].split(",")[0], justify="right")
    for row in point_rows(result):
        table.add_row(row.epsilon, row.reports, *row.accuracies)
    console.print(table)
    levels = "; ".join(f"{CURVE_TITLES[name]}: {accuracy_text(level)}" for name, level in result["not_private"].items())
    for line in (f"{levels}.", headline(result), *summary(result), f"Recommended: {design}"):
        console.print(escape(line), highlight=False, soft_wrap=True)
    console.print(escape(f"{invitation(files)}: {commands[0]}"), highlight=False, soft_wrap=True)
    console.print(escape(f"Page: {folder / 'report.html'}"), highlight=False, soft_wrap=True)


def _show_single(result: dict[str, Any], folder: Path, *, as_json: bool) -> None:
    if as_json:
        methods = {name: {key: row[key] for key in _PRINTED} for name, row in result["methods"].items()}
        shown = {key: result[key] for key in ("dataset", "guarantee")}
        echo_json(shown | {"methods": methods, "folder": str(folder)})
        return
    console = Console(markup=False)
    seeds = counted(result["configuration"]["seeds"], "seed")
    table = Table(title=f"{escape(result['dataset'])}: test accuracy over {seeds}")
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
