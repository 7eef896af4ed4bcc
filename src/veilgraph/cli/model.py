"""`veilgraph train`: a GNN from the reports that a campaign collected."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilgraph.atomic_files import write_whole
from veilgraph.cli._common import needs_extra, parse_bytes, show_progress
from veilgraph.errors import GraphError, RunError
from veilgraph.privacy.epsilon import json_epsilon

if TYPE_CHECKING:
    from veilgraph.campaign import Campaign
    from veilgraph.campaign.report import Report
    from veilgraph.deploy.fit_collected import Preparation

_TOLD = 1000


def train(
    store: Annotated[str, typer.Option(help="Where the reports are: sqlite:///FILE or postgresql://...")],
    campaign: Annotated[Path, typer.Option(help="The campaign, .json.")],
    graph: Annotated[Path, typer.Option(help="The public graph that the campaign was made for: edge table.")],
    out: Annotated[Path, typer.Option(help="Folder of the model.")],
    nodes: Annotated[Path | None, typer.Option(help="Node table with a column 'id', for nodes without edges.")] = None,
    method: Annotated[str, typer.Option(help="rgnn or plain.")] = "rgnn",
    backbone: Annotated[str, typer.Option(help="sage, gcn or gat.")] = "sage",
    feature_hops: Annotated[int | None, typer.Option(help="K_x; default: from the graph.")] = None,
    label_hops: Annotated[int | None, typer.Option(help="K_y; default: from the graph.")] = None,
    clusters: Annotated[int | None, typer.Option(help="C, the number of bags.")] = None,
    llp_weight: Annotated[float | None, typer.Option(help="alpha, the weight of the bags in the loss.")] = None,
    epochs: Annotated[int, typer.Option(help="Training epochs.")] = 100,
    hold_out: Annotated[float, typer.Option(help="Share of labels kept out, to estimate the accuracy.")] = 0.0,
    screened: Annotated[bool, typer.Option("--screen", help="Leave implausible reports out.")] = False,
    seed: Annotated[int, typer.Option(help="Of the split and the weights.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    memory: Annotated[str, typer.Option(help="Of a process, for inputs and hidden units: 8GiB, 500MB.")] = "8GiB",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Train on collected reports; missing ones are masked."""
    with needs_extra("server"):
        from veilgraph.deploy.fit_collected import check_folder, save, train_spread
        from veilgraph.deploy.fit_collected import train as fit
        from veilgraph.distributed.process_group import join_process_group
        from veilgraph.models.engine.device import resolve_device
        from veilgraph.models.engine.distributed_fit import join_fit

    allowed = parse_bytes(memory)
    with join_process_group(resolve_device(device)) as processes:
        if not processes.is_leader:
            join_fit(processes, memory=allowed)
            return
        prepared = partial(
            _prepared,
            store,
            campaign,
            graph,
            nodes,
            check_folder(out),
            screened=screened,
            hold_out=hold_out,
            method=method,
            backbone=backbone,
            feature_hops=feature_hops,
            label_hops=label_hops,
            num_clusters=clusters,
            llp_weight=llp_weight,
            epochs=epochs,
            seed=seed,
            device=device,
        )
        telling = partial(show_progress, "train")
        if processes.world_size > 1:
            trained = train_spread(processes, prepared, out, memory=allowed, telling=telling)
        else:
            preparation = prepared()
            with telling():
                trained = fit(preparation, memory=allowed)
        save(trained, out)
        _print(trained.facts | {"folder": str(out)}, trained.campaign, as_json)


def _prepared(
    store: str,
    campaign: Path,
    graph: Path,
    nodes: Path | None,
    folder: Path,
    *,
    method: str,
    seed: int,
    hold_out: float,
    screened: bool,
    **parameters: Any,
) -> Preparation:
    """Everything that is to be read, and what follows from it before training; in whichever process it is called."""
    from veilgraph.campaign import Campaign
    from veilgraph.campaign.assemble import check_graph, perturbed_graph
    from veilgraph.campaign.screening import screen
    from veilgraph.deploy.fit_collected import method_for_graph, prepare
    from veilgraph.graph import Graph

    asked = Campaign.from_json(campaign.read_bytes())
    public = check_graph(asked, Graph.from_files(graph, nodes=nodes))
    with reading(store, asked) as reports:
        perturbed = perturbed_graph(asked, public, reports)
    screening = screen(perturbed)
    if screened:
        perturbed = screening.exclude(perturbed)
    chosen = method_for_graph(method, public, seed=seed, **parameters)
    with show_progress("train"):
        preparation = prepare(asked, perturbed, chosen, seed=seed, hold_out=hold_out, folder=folder)
    preparation.outline.facts["screening"] = {
        "excluded": screened,
        "suspicions": [asdict(suspicion) for suspicion in screening.suspicions],
    }
    return preparation


@contextmanager
def reading(store: str, campaign: Campaign) -> Iterator[Iterator[Report]]:
    """Every report of the campaign in the store, one at a time and with progress."""
    with needs_extra("collector"):
        from veilgraph.collector.store import ReportStore
    opened = ReportStore.open(store, create=False)
    try:
        total = opened.count(campaign.id)
        with show_progress("read reports") as progress:
            yield _counted(opened.iterate(campaign), lambda done: progress("", done, total))
    finally:
        opened.close()


def _counted(reports: Iterator[Report], tell: Callable[[int], None]) -> Iterator[Report]:
    for number, report in enumerate(reports, start=1):
        yield report
        if number % _TOLD == 0:
            tell(number)


def _print(facts: dict[str, Any], campaign: Campaign, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    typer.echo(
        f"Trained {facts['method']} on {facts['feature_reports']:,} feature reports and {facts['label_reports']:,} "
        f"label reports of {facts['nodes']:,} nodes."
    )
    if facts["resumed_after_epochs"]:
        typer.echo(f"Went on after epoch {facts['resumed_after_epochs']:,} of an earlier run.")
    for suspicion in facts["screening"]["suspicions"]:
        fate = "left out" if facts["screening"]["excluded"] else "kept, --screen leaves them out"
        flagged, expected = suspicion["flagged"], suspicion["expected"]
        typer.echo(f"{flagged:,} implausible ({suspicion['kind']}), {expected:.3g} expected at most: {fate}")
    for name, estimate in facts.get("estimated_accuracy", {}).items():
        typer.echo(
            f"Estimated accuracy of {name}: {estimate['accuracy']:.1%} ± {estimate['standard_error'] * 100:.1f} "
            f"(standard error, from {facts['held_out']:,} randomized labels that were held out)"
        )
    for sentence in campaign.guarantee.in_words()[:3]:
        typer.echo(sentence)
    typer.echo(f"Model: {facts['folder']}")


if TYPE_CHECKING:
    import pandas as pd

    from veilgraph.deploy.fit_collected import Model
    from veilgraph.graph import Graph, PerturbedGraph

_DIGITS = 6


def predict(
    model: Annotated[Path, typer.Option(help="Folder that `veilgraph train` wrote.")],
    graph: Annotated[Path, typer.Option(help="The public graph as it is now: edge table.")],
    out: Annotated[Path, typer.Option(help="Table to write, .csv or .parquet.")],
    nodes: Annotated[Path | None, typer.Option(help="Whom to predict: table with a column 'id'; default: all.")] = None,
    store: Annotated[
        str | None, typer.Option(help="Where the reports are now; default: those that trained the model.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Predict classes from neighbourhoods, with or without a report of the node itself."""
    if out.suffix not in (".csv", ".parquet"):
        raise RunError(f"{out}: predictions are written as .csv or .parquet, not '{out.suffix}'")
    with needs_extra("server"):
        from veilgraph.deploy.fit_collected import Model
    from veilgraph.graph import read_ids

    loaded = Model.load(model, device=device)
    wanted = None if nodes is None else [str(node) for node in read_ids(nodes)]
    public = _graph(graph, wanted or [])
    if store is None:
        perturbed = loaded.perturbed(public)
    else:
        with reading(store, loaded.campaign) as reports:
            perturbed = loaded.perturbed(public, reports)
    table = _table(loaded, perturbed, wanted or list(public.names))
    _write(table, out)
    typer.echo(f"Predicted {len(table):,} nodes: {out}")


def _graph(edges: Path, wanted: Sequence[str]) -> Graph:
    """The graph, with wanted nodes that have no edge."""
    from veilgraph.graph import Graph

    graph = Graph.from_files(edges)
    known = set(graph.names)
    names = [*graph.names, *(node for node in wanted if node not in known)]
    return graph if len(names) == graph.num_nodes else Graph.from_edges(graph.edges, len(names), node_ids=names)


def _table(model: Model, perturbed: PerturbedGraph, wanted: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    number_of = {name: number for number, name in enumerate(perturbed.graph.names)}
    numbers = [number_of[node] for node in wanted]
    reported = (perturbed.has_features | perturbed.has_label)[numbers]
    known = reported | (perturbed.graph.degrees[numbers] > 0)
    if not known.all():
        node = wanted[int(known.argmin())]
        raise GraphError(f"node '{node}' has neither an edge nor a report: nothing is known to predict it from")
    rows = model.method.predict_proba(perturbed)[numbers]
    classes = model.campaign.schema.classes
    columns: dict[str, object] = {
        "node": wanted,
        "predicted": [classes[code] for code in rows.argmax(axis=1)],
        "reported": reported,
    }
    columns |= {f"probability_{name}": rows[:, code].astype(float).round(_DIGITS) for code, name in enumerate(classes)}
    epsilon = json_epsilon(model.method.epsilon_spent(model.campaign.guarantee))
    columns |= {"epsilon_user_level": epsilon, "campaign": model.campaign.id}
    return pd.DataFrame(columns)


def _write(table: pd.DataFrame, path: Path) -> None:
    buffer = io.BytesIO()
    if path.suffix == ".csv":
        table.to_csv(buffer, index=False, lineterminator="\n")
    else:
        table.to_parquet(buffer, index=False)
    write_whole(path, buffer.getvalue())
