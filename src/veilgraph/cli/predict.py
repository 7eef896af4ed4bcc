"""`veilgraph predict`: class probabilities of nodes, those that joined later included."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from veilgraph.budget import json_epsilon
from veilgraph.cli.extras import needs_extra
from veilgraph.cli.train import reading
from veilgraph.errors import GraphError, RunError
from veilgraph.files import write_whole

if TYPE_CHECKING:
    import pandas as pd

    from veilgraph.graph import Graph, PerturbedGraph
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
