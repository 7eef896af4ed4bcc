"""Predictions of a deployed model, as a table."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from veilgraph.atomic_files import write_atomically
from veilgraph.deploy.fit_collected import stored_reports
from veilgraph.deploy.model_folder import Model
from veilgraph.errors import FitError, GraphError, RunError
from veilgraph.graph import Graph, PerturbedGraph
from veilgraph.graph.io import frame_to_cells
from veilgraph.models.baselines import class_shares
from veilgraph.privacy.epsilon import json_epsilon
from veilgraph.progress import Watch, unwatched

_DIGITS = 6


def predict_nodes(
    model: Model,
    graph: Graph,
    *,
    nodes: Sequence[str] | None = None,
    store: str | None = None,
    coverage: float | None = None,
    watch: Watch = unwatched,
) -> pd.DataFrame:
    """Predict classes of nodes from their neighbourhoods, with or without a report of the node itself.

    Args:
        model: the trained model.
        graph: the public graph as it is now.
        nodes: names of the nodes to predict; default: all nodes of the graph. A node without an edge must have sent a
            report, or must have been in the graph of the training.
        store: URL of the store with the reports as they are now; default: the reports of the training.
        coverage: probability with which `set` holds the true class; default: no such column.
        watch: shows the progress of reading.

    Returns:
        A row for each node: `id`, `class` (the most likely one, by name) and its `probability`, `reported` (whether
        the node sent a report), `probability_CLASS` for each class, `epsilon_user_level` and `campaign`.
        With `coverage` also `set`, a tuple of classes by name, the most likely first.
    """
    if coverage is not None:
        model.method.conformal_sets().threshold(coverage)  # refused before anything is read
    public = _with_nodes(graph, nodes or ()).reordered(model.nodes or ())
    if store is None:
        perturbed = model.perturbed(public)
    else:
        with stored_reports(store, model.campaign, watch=watch) as reports:
            perturbed = model.perturbed(public, reports)
    return _table(model, perturbed, nodes or list(public.names), coverage)


def check_table_format(path: Path) -> Path:
    """Return `path` if predictions can be written in its format."""
    if path.suffix not in (".csv", ".parquet"):
        raise RunError(f"{path}: predictions are written as .csv or .parquet, not '{path.suffix}'")
    return path


def write_predictions(table: pd.DataFrame, path: Path) -> None:
    """Write a table as .csv or .parquet, whole or not at all. No text of a .csv table is a formula.

    A `set` of classes is a list in a .parquet table, and names that are joined by "|" in a .csv table.
    """
    buffer = io.BytesIO()
    if check_table_format(path).suffix == ".csv":
        texts = {"set": table["set"].map(_joined)} if "set" in table else {}
        frame_to_cells(table.assign(**texts)).to_csv(buffer, index=False, lineterminator="\n")
    else:
        table.to_parquet(buffer, index=False)
    write_atomically(path, buffer.getvalue())


def _joined(names: Sequence[str]) -> str:
    r"""Return the names of a set as one text, a|b; a "|" within a name is written as "\|"."""
    return "|".join(name.replace("|", r"\|") for name in names)


def _with_nodes(graph: Graph, nodes: Sequence[str]) -> Graph:
    """Return the graph with `nodes` added if they have no edge."""
    known = set(graph.names)
    names = [*graph.names, *(node for node in nodes if node not in known)]
    return graph if len(names) == graph.num_nodes else Graph.from_edges(graph.edges, len(names), node_ids=names)


def _table(
    model: Model, perturbed: PerturbedGraph, nodes: Sequence[str], coverage: float | None = None
) -> pd.DataFrame:
    number_of = {name: number for number, name in enumerate(perturbed.graph.names)}
    numbers = [number_of[node] for node in nodes]
    reported = (perturbed.has_features | perturbed.has_label)[numbers]
    informed = reported | (perturbed.graph.degrees[numbers] > 0)
    trained = set(model.nodes or ())
    if strangers := [node for node, known in zip(nodes, informed, strict=True) if not known and node not in trained]:
        raise GraphError(f"node '{strangers[0]}' has neither an edge nor a report: nothing is known to predict it from")
    rows = model.method.predict_proba(perturbed)[numbers]
    if not informed.all():
        rows[~informed] = class_shares(perturbed)
    if not np.isfinite(rows).all():
        raise FitError("predictions are not finite numbers: the model is damaged; train it again")
    classes = model.campaign.schema.classes
    columns: dict[str, object] = {
        "id": nodes,
        "class": [classes[code] for code in rows.argmax(axis=1)],
        "probability": rows.max(axis=1).astype(float).round(_DIGITS),
        "reported": reported,
    }
    if coverage is not None:
        chosen = model.method.conformal_sets().sets(rows, perturbed.has_label[numbers], coverage)
        columns["set"] = [
            tuple(classes[code] for code in np.argsort(-row, kind="stable") if named[code])
            for row, named in zip(rows, chosen, strict=True)
        ]
    columns |= {f"probability_{name}": rows[:, code].astype(float).round(_DIGITS) for code, name in enumerate(classes)}
    epsilon = json_epsilon(model.method.epsilon_spent(model.campaign.guarantee))
    columns |= {"epsilon_user_level": epsilon, "campaign": model.campaign.id}
    return pd.DataFrame(columns)
