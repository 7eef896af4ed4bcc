"""`veilgraph run`: simulate collections on one graph, learn from their reports, and compare."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from veilgraph.cli._common import needs_extra, show_progress
from veilgraph.cli.completion import complete_dataset
from veilgraph.cli.neighbour_run import run_neighbours
from veilgraph.cli.options import DeviceOption, JsonOption, Settings, takes_groups
from veilgraph.cli.output import Facts, Sentence, emit
from veilgraph.errors import RunError
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.epsilon import show_epsilon
from veilgraph.privacy.plain_text import counted, escape

if TYPE_CHECKING:
    from veilgraph.datasets import PrivateGraph
    from veilgraph.datasets.table_folder import TableFolder
    from veilgraph.pages.curve_page import CampaignFiles

_PRINTED = ("accuracy_mean", "accuracy_std", "epsilon_user_level")
_SAMPLED, _SEEDS, _NEIGHBOURS_EPSILON = 10, 5, 2.0


@dataclass(frozen=True, kw_only=True)
class _Rare(Settings):
    """One budget instead of the curve, how models are trained, and private neighbours."""

    epsilon_y: Annotated[
        float | None, typer.Option(help="One budget instead of the curve, of the label; private neighbours: default 2.")
    ] = None
    epsilon_x: Annotated[
        float | None, typer.Option(help="One budget instead of the curve, of each sampled feature.")
    ] = None
    sampled: Annotated[int | None, typer.Option(help="Number of features that each person samples; default: 10.")] = (
        None
    )
    backbone: Annotated[str, typer.Option(help="sage, gcn or gat.")] = "sage"
    feature_hops: Annotated[int | None, typer.Option(help="K_x; default: chosen.")] = None
    label_hops: Annotated[int | None, typer.Option(help="K_y; default: chosen.")] = None
    clusters: Annotated[int, typer.Option(help="C, the number of clusters (bags).")] = 16
    llp_weight: Annotated[float, typer.Option(help="alpha, the weight of the bags in the loss.")] = 1.0
    epochs: Annotated[int, typer.Option(help="Training epochs of every GNN.")] = 100
    edge_epsilon: Annotated[
        list[float] | None, typer.Option(help="Private neighbours: budgets of a list; default: 1,2,4,8.")
    ] = None
    first_seed: Annotated[int, typer.Option(help="Private neighbours: the first seed.")] = 0
    data_dir: Annotated[str | None, typer.Option(help="Folder of fetched data sets, and of your own.")] = None

    @property
    def folder(self) -> Path | None:
        """Folder of data sets."""
        return None if self.data_dir is None else Path(self.data_dir)

    @property
    def drawn(self) -> int:
        """Number of features that each person samples."""
        return _SAMPLED if self.sampled is None else self.sampled

    def one_budget(self, totals: list[float] | None) -> PrivacyBudget | None:
        """Return the budget of a single collection; None for the curve."""
        return PrivacyBudget.of_one_collection(
            totals=totals or (), epsilon_x=self.epsilon_x, epsilon_y=self.epsilon_y, sampled=self.drawn
        )

    def configuration(self, seeds: int) -> dict[str, Any]:
        """Return what a configuration takes besides its budgets."""
        names = ("backbone", "feature_hops", "label_hops", "llp_weight", "epochs")
        return {name: getattr(self, name) for name in names} | {"num_clusters": self.clusters, "seeds": seeds}


@dataclass(frozen=True, kw_only=True)
class _JobOptions:
    """How often, where results go, and what computes them."""

    seeds: Annotated[int | None, typer.Option(help="Independent repetitions; default: 5, of private neighbours 3.")] = (
        None
    )
    out: Annotated[Path | None, typer.Option(help="Folder of results; default: runs/NAME-..., by the settings.")] = None
    device: DeviceOption = "auto"

    @property
    def repetitions(self) -> int:
        """Number of repetitions of a simulation on a known graph."""
        return _SEEDS if self.seeds is None else self.seeds


@dataclass(frozen=True, kw_only=True)
class _OwnOptions:
    """A reader's own graph and records."""

    graph: Annotated[Path | None, typer.Option(help="Your own graph: edge table, .csv or .parquet.")] = None
    nodes: Annotated[Path | None, typer.Option(help="Your own records: node table with a column 'id'.")] = None
    schema: Annotated[Path | None, typer.Option(help="Your own schema, .toml.")] = None
    label: Annotated[str | None, typer.Option(help="The node table's column that holds the class.")] = None

    @property
    def tables(self) -> TableFolder | None:
        """The tables, all four; None if none is given."""
        from veilgraph.datasets.table_folder import TableFolder

        if self.graph is None and self.nodes is None and self.schema is None and self.label is None:
            return None
        if self.graph is None or self.nodes is None or self.schema is None or self.label is None:
            raise RunError("for your own data give all four: --graph, --nodes, --schema and --label")
        return TableFolder(edges=self.graph, nodes=self.nodes, schema=self.schema, label=self.label)


@takes_groups
def run(
    *,
    dataset: Annotated[
        str,
        typer.Option(
            help="A name that `veilgraph lab data` shows, or a path: ./MINE.npz, or a folder of tables.",
            autocompletion=complete_dataset,
        ),
    ] = "voters",
    epsilon: Annotated[
        list[float] | None,
        typer.Option(help="Total of the curve, user level (any two records); repeat it. Default: 0.25 to 8."),
    ] = None,
    rare: _Rare,
    job: _JobOptions,
    own: _OwnOptions,
    private_contacts: Annotated[
        bool,
        typer.Option("--private-neighbours", help="Nobody holds the graph: accuracy over the edge epsilon instead."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what can be learned at which epsilon: simulate collections, learn from their reports, write a page.

    With --set epsilon_x=... or epsilon_y=... it simulates one collection with that budget, in more detail.
    """
    if private_contacts:
        if epsilon or own != _OwnOptions():
            raise RunError("private neighbours are simulated on --dataset: leave out --epsilon and your own tables")
        emit(_of_neighbours(dataset, rare, job), as_json=as_json)
        return
    one_budget = rare.one_budget(epsilon)
    with needs_extra("lab"):
        from veilgraph.experiments.privacy_curve import TOTALS, CurveConfiguration, run_curve
        from veilgraph.experiments.single_run import RunConfiguration, run_comparison
        from veilgraph.models.engine.device import resolve_device
        from veilgraph.pages.curve_page import write_curve_page
        from veilgraph.pages.run_page import write_run_page
    resolve_device(job.device)
    private, files = _load(dataset, rare.folder, own.tables)
    settings = rare.configuration(job.repetitions)
    if one_budget is not None:
        single = RunConfiguration(budget=one_budget, **settings)
        folder = job.out or Path("runs") / _budget_name(private.name, one_budget, settings)
        with show_progress("run") as progress:
            result = run_comparison(private, single, folder, device=job.device, progress=progress)
        write_run_page(result, folder)
        emit(_budget_facts(result, folder), as_json=as_json)
        return
    curve = CurveConfiguration(totals=tuple(epsilon or TOTALS), sampled=rare.drawn, **settings)
    folder = job.out or Path("runs") / _curve_name(private.name, epsilon, rare.drawn, settings)
    with show_progress("run") as progress:
        result = run_curve(private, curve, folder, device=job.device, progress=progress)
    write_curve_page(result, folder, files)
    emit(_curve_facts(result, folder, files), as_json=as_json)


def _of_neighbours(dataset: str, rare: _Rare, job: _JobOptions) -> Facts:
    """Simulate answers about private neighbour lists."""
    settings = {"epsilon_x": rare.epsilon_x, "sampled": rare.sampled, "edge_epsilons": rare.edge_epsilon}
    settings |= {"seeds": job.seeds, "first_seed": rare.first_seed}
    epsilon_y = _NEIGHBOURS_EPSILON if rare.epsilon_y is None else rare.epsilon_y
    return run_neighbours(dataset, rare.folder, job.out, epsilon_y=epsilon_y, **settings)


def _load(dataset: str, data_dir: Path | None, own: TableFolder | None) -> tuple[PrivateGraph, CampaignFiles]:
    """Return the records, and the files that a campaign for the same people would use."""
    from veilgraph.datasets import from_tables, load
    from veilgraph.datasets.registry import is_path
    from veilgraph.datasets.table_folder import TableFolder
    from veilgraph.pages.curve_page import CampaignFiles

    if own is not None:
        tables, private = own, from_tables(edges=own.edges, nodes=own.nodes, schema=own.schema, label=own.label)
    elif not is_path(dataset) or not Path(dataset).is_dir():
        return load(dataset, data_dir), CampaignFiles()
    else:
        tables = TableFolder.find(Path(dataset))
        private = tables.read()
    return private, CampaignFiles(str(tables.schema), str(tables.edges), str(tables.nodes), tables.label)


def _budget_name(dataset: str, budget: PrivacyBudget, settings: dict[str, Any]) -> str:
    features = f"-x{budget.epsilon_x:g}-m{budget.sampled}" if budget.collects_features else ""
    return f"{dataset}{features}-y{budget.epsilon_y:g}-{settings['backbone']}-{settings['seeds']}seeds"


def _curve_name(dataset: str, totals: list[float] | None, sampled: int, settings: dict[str, Any]) -> str:
    given = "".join(f"-e{total:g}" for total in sorted(totals or ()))
    drawn = "" if sampled == _SAMPLED else f"-m{sampled}"
    return f"{dataset}-curve{given}{drawn}-{settings['backbone']}-{settings['seeds']}seeds"


def _curve_facts(result: dict[str, Any], folder: Path, files: CampaignFiles) -> Facts:
    """Return the accuracy over the total epsilon, what it means, and the next command."""
    from veilgraph.pages import curve_page as page
    from veilgraph.pages.formatting import accuracy_text

    commands, levels = page.campaign_commands(result, files), result["not_private"]
    told, design = page.headline(result), page.recommended_design(result)
    shown = {key: result[key] for key in ("dataset", "totals", "designs", "methods", "not_private")}
    shown["largest_class"] = result["graph"]["majority_share"]
    recommended = {"headline": told, "design": design, "commands": commands}
    sentences: list[Sentence] = [
        _curve_table(result),
        "; ".join(f"{page.CURVE_TITLES[name]}: {accuracy_text(level)}" for name, level in levels.items()) + ".",
        told,
        *page.summary(result),
        f"Recommended: {design}",
        *(f"{page.invitation(files)}: {command}" for command in commands[:1]),
        f"Page: {folder / 'report.html'}",
    ]
    return Facts(shown | recommended | {"folder": str(folder)}, sentences)


def _curve_table(result: dict[str, Any]) -> Table:
    from veilgraph.pages.curve_page import CURVE_TITLES, point_rows
    from veilgraph.pages.formatting import spread_text

    name, seeds = escape(result["dataset"]), counted(result["configuration"]["seeds"], "seed")
    table = Table(title=f"{name}: test accuracy in percent over {seeds}, by total epsilon")
    table.add_column("user-level\nepsilon", justify="right")
    table.add_column("classes\nnamed", justify="right")
    for method in result["methods"]:
        table.add_column(CURVE_TITLES[method].replace(", ", ",\n"), justify="right")
    for i, row in enumerate(point_rows(result)):
        points = [summaries[i] for summaries in result["methods"].values()]
        accuracies = [spread_text(point["accuracy_mean"], point["accuracy_std"]) for point in points]
        table.add_row(row.epsilon, row.reports, *accuracies)
    return table


def _budget_facts(result: dict[str, Any], folder: Path) -> Facts:
    """Return the methods at one budget, with the guarantee."""
    from veilgraph.pages.formatting import percent

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
    methods = {name: {key: row[key] for key in _PRINTED} for name, row in result["methods"].items()}
    shown = {key: result[key] for key in ("dataset", "guarantee")}
    largest = shown["largest_class"] = result["graph"]["majority_share"]
    told = f"The largest class alone is right for {percent(largest)}."
    sentences = [table, told, *result["guarantee_in_words"], f"Page: {folder / 'report.html'}"]
    return Facts(shown | {"methods": methods, "folder": str(folder)}, sentences)
