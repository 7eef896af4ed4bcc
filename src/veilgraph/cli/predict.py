"""`veilgraph predict`: class probabilities of nodes, those that joined later included."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from veilgraph.budget import json_epsilon
from veilgraph.cli.extras import needs_extra
from veilgraph.cli.train import read_reports
from veilgraph.errors import GraphError, RunError
from veilgraph.files import write_whole

if TYPE_CHECKING:
    import pandas as pd

    from veilgraph.graph import Graph
    from veilgraph.report import Report
    from veilgraph.training import Model

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
        from veilgraph.training import Model
    from veilgraph.graph import read_ids

    loaded = Model.load(model, device=device)
    reports = list(loaded.reports) if store is None else read_reports(store, loaded.campaign)
    wanted = None if nodes is None else [str(node) for node in read_ids(nodes)]
    public = _graph(graph, wanted or [], {report.node for report in reports})
    table = _table(loaded, public, reports, wanted or list(public.names))
    _write(table, out)
    typer.echo(f"Predicted {len(table):,} nodes: {out}")


def _graph(edges: Path, wanted: Sequence[str], reported: set[str]) -> Graph:
    """The graph, with wanted nodes that have no edge but a report; one that has neither is a mistake."""
    from veilgraph.graph import Graph

    graph = Graph.from_files(edges)
    lonely = [node for node in wanted if node not in set(graph.names)]
    if unknown := [node for node in lonely if node not in reported]:
        raise GraphError(f"node '{unknown[0]}' has neither an edge nor a report: nothing is known to predict it from")
    if not lonely:
        return graph
    names = [*graph.names, *lonely]
    return Graph.from_edges(graph.edges, len(names), node_ids=names)


def _table(model: Model, graph: Graph, reports: Sequence[Report], wanted: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    probabilities = model.predict_proba(graph, reports)
    number_of = {name: number for number, name in enumerate(graph.names)}
    rows = probabilities[[number_of[node] for node in wanted]]
    classes = model.campaign.schema.classes
    reported = {report.node for report in reports}
    columns: dict[str, object] = {
        "node": wanted,
        "predicted": [classes[code] for code in rows.argmax(axis=1)],
        "reported": [node in reported for node in wanted],
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
