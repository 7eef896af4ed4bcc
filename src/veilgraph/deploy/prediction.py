"""Predictions of a deployed model, as a table.

Nothing is known about a person if neither they nor anybody whom links join them to has sent a report. Such people
(`unknown_people`) get the estimated class shares and all classes.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from veilgraph.atomic_files import write_atomically
from veilgraph.deploy.model_folder import Model
from veilgraph.deploy.stored_reports import stored_reports, withdrawn_people
from veilgraph.distributed.exchange import current_exchange
from veilgraph.distributed.graph_rows import rows_of_part
from veilgraph.errors import FitError, GraphError, RunError
from veilgraph.graph import Graph, PerturbedGraph
from veilgraph.graph.arrow import ArrowArray, arrow
from veilgraph.graph.graph import Adjacency
from veilgraph.graph.io import frame_to_csv
from veilgraph.graph.partition import GraphPart
from veilgraph.graph.shard_manifest import MANIFEST
from veilgraph.graph.shard_writer import drafted_folder, write_shard
from veilgraph.graph.shards import ShardFolder
from veilgraph.models.baselines import class_shares
from veilgraph.models.conformal import ConformalSets
from veilgraph.privacy.epsilon import json_epsilon, show_epsilon, state_epsilon
from veilgraph.progress import Watch, unwatched

COVERAGE = 0.9
"""Coverage of the sets of classes that nobody asked for otherwise."""

CERTAIN = 0.8
"""Least probability of an answer that counts as certain enough."""

LeftOut = Literal["withdrawn", "silent"]
"""Who can be left out of predictions."""

_DIGITS = 6


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictions:
    """Predicted classes of nodes.

    Attributes:
        nodes: names of the nodes.
        classes: names of the classes.
        probabilities: class probabilities, [nodes, classes].
        reported: nodes that sent a report, [nodes].
        sets: sets of classes that hold the true one with a stated probability, [nodes, classes]; None if the method
            gives none.
        certain_from: least probability of an answer that counts as certain enough.
        epsilon_user_level: what a person's reports to the campaign reveal at most (any two records).
        epsilon_one_entry: what answers about neighbours reveal about one entry of a list; None without such answers.
        campaign: id of the campaign.
    """

    nodes: tuple[str, ...] = field(repr=False)
    classes: tuple[str, ...]
    probabilities: NDArray[np.float32] = field(repr=False)
    reported: NDArray[np.bool_] = field(repr=False)
    sets: NDArray[np.bool_] | None = field(default=None, repr=False)
    certain_from: float = CERTAIN
    epsilon_user_level: float
    epsilon_one_entry: float | None = None
    campaign: str

    def __post_init__(self) -> None:
        if not 0 < self.certain_from <= 1:
            raise FitError(f"certain is {self.certain_from}: give a probability above 0, at most 1, for example 0.8")

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        return f"Predictions({len(self)} nodes, {len(self.classes)} classes)"

    @property
    def certain(self) -> NDArray[np.bool_]:
        """Whether the answer is certain enough, by `certain_answers`, [nodes]."""
        return certain_answers(self.probabilities, self.sets, self.certain_from)

    def select(self, rows: NDArray[np.int64]) -> Predictions:
        """Return the predictions of some nodes, by their positions."""
        return replace(
            self,
            nodes=tuple(self.nodes[row] for row in rows.tolist()),
            probabilities=self.probabilities[rows],
            reported=self.reported[rows],
            sets=None if self.sets is None else self.sets[rows],
        )

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each node.

        Columns are `id`, `class` (the most likely one, by name), `probability`, `set`, `certain`, `reported`,
        `probability_CLASS` for each class, `epsilon_user_level`, `epsilon_one_entry` with private neighbours, and
        `campaign`. A set is a tuple of classes by name, the most likely first; the column is left out if the method
        gives none. `certain` says whether the set has one class and the probability is at least `certain_from`, and
        `reported` whether a report of the node is held. Where none is, its row states no epsilon: nothing was sent, or
        a person withdrew what they had sent, and what that revealed is not known here.
        """
        rows, names = self.probabilities, self.classes
        columns: dict[str, object] = {
            "id": list(self.nodes),
            "class": [names[code] for code in rows.argmax(axis=1)],
            "probability": rows.max(axis=1).astype(float).round(_DIGITS),
        }
        if self.sets is not None:
            columns["set"] = [
                tuple(names[code] for code in np.argsort(-row, kind="stable") if named[code])
                for row, named in zip(rows, self.sets, strict=True)
            ]
        columns |= {"certain": self.certain, "reported": self.reported}
        columns |= {
            f"probability_{name}": rows[:, code].astype(float).round(_DIGITS) for code, name in enumerate(names)
        }
        columns["epsilon_user_level"] = _spent(self.epsilon_user_level, self.reported)
        if self.epsilon_one_entry is not None:
            columns["epsilon_one_entry"] = _spent(self.epsilon_one_entry, self.reported)
        columns["campaign"] = self.campaign
        return pd.DataFrame(columns)

    def write(self, path: Path) -> None:
        """Write the table as .csv or .parquet, by the suffix of the file."""
        write_predictions(self.to_frame(), path)


def predict_nodes(
    model: Model,
    graph: Graph,
    *,
    nodes: Sequence[str] | None = None,
    store: str | None = None,
    coverage: float | None = None,
    certain: float = CERTAIN,
    without: Collection[LeftOut] = (),
    watch: Watch = unwatched,
) -> Predictions:
    """Predict classes of nodes from their neighbourhoods, with or without a report of the node itself.

    On the graph and the reports of the training, predictions are those that the model keeps.

    Args:
        model: the trained model.
        graph: the public graph as it is now.
        nodes: names of the nodes to predict; default: all nodes of the graph, in its order. A node without an edge
            must have sent a report, or must have been in the graph of the training.
        store: URL of the store with the reports as they are now; default: the reports of the training.
        coverage: probability with which a set holds the true class; default: 0.9, and no sets where the method gives
            none.
        certain: least probability of an answer that counts as certain enough.
        without: whom to leave out: people who are "silent", without a report, or have "withdrawn", by the store.
        watch: shows the progress of reading.
    """
    sets = calibrated_sets(model, coverage)  # refused before anything is read
    withdrawn = _withdrawn(model, store, without)
    public = _with_nodes(graph, nodes or ()).reordered(model.nodes or ())
    if store is None:
        perturbed = model.perturbed(public)
    else:
        with stored_reports(store, model.campaign, watch=watch) as reports:
            perturbed = model.perturbed(public, reports)
    chosen = tuple(name for name in nodes or graph.names if name not in withdrawn)
    numbers = pd.Index(public.names).get_indexer(pd.Index(chosen))
    is_of_training = store is None and public.names == model.nodes and public.fingerprint == model.campaign.graph_sha256
    found = model.method.predict_proba(None if is_of_training else perturbed)
    alone, trained = ~(perturbed.has_report | perturbed.is_linked)[numbers], set(model.nodes or ())
    if strangers := [node for node, none in zip(chosen, alone, strict=True) if none and node not in trained]:
        raise GraphError(f"node '{strangers[0]}' has neither an edge nor a report: nothing is known to predict it from")
    unknown = unknown_people(perturbed)
    all_rows = with_class_shares(found, perturbed, unknown)
    rows = all_rows[numbers]
    if not np.isfinite(rows).all():
        raise FitError("predictions are not finite numbers: the model is damaged; train it again")
    lists, reported = model.campaign.guarantee.lists, perturbed.has_report[numbers]
    answers = Predictions(
        nodes=chosen,
        classes=model.campaign.schema.classes,
        probabilities=rows,
        reported=reported,
        sets=None
        if sets is None
        else sets_of_classes(sets, all_rows, perturbed, unknown, coverage or COVERAGE)[numbers],
        certain_from=certain,
        epsilon_user_level=model.campaign.guarantee.total_user_level,
        epsilon_one_entry=None if lists is None else lists.one_entry,
        campaign=model.campaign.id,
    )
    return answers.select(np.flatnonzero(reported)) if "silent" in without else answers


def _withdrawn(model: Model, store: str | None, without: Collection[LeftOut]) -> set[str]:
    """Return the people who are left out because they have withdrawn."""
    if unknown := set(without).difference(get_args(LeftOut)):
        raise RunError(f"'{min(unknown)}' cannot be left out: give {' or '.join(get_args(LeftOut))}")
    if "withdrawn" not in without:
        return set()
    if store is None:
        raise RunError("who has withdrawn is in the store alone: give it, or leave nobody out for having withdrawn")
    return withdrawn_people(store, model.campaign)


def _spent(epsilon: float, reported: NDArray[np.bool_]) -> pd.Series[Any]:
    """Return the epsilon of each node whose report is held, as it is printed elsewhere; none for others, [nodes]."""
    stated = json_epsilon(epsilon if math.isinf(epsilon) else float(show_epsilon(state_epsilon(epsilon))))
    return pd.Series([stated if each else None for each in reported.tolist()], dtype=type(stated))


def certain_answers(
    probabilities: NDArray[Any], sets: NDArray[np.bool_] | None, certain_from: float = CERTAIN
) -> NDArray[np.bool_]:
    """Return whose answer is certain enough, [nodes]: a probability of `certain_from`, and a set with this class alone.

    Args:
        probabilities: class probabilities, [nodes, classes].
        sets: sets of classes, [nodes, classes]; None if the method gives none, and the probability alone decides.
        certain_from: least probability of a certain answer.
    """
    enough = np.asarray(probabilities.max(axis=1) >= certain_from)
    return enough if sets is None else enough & (sets.sum(axis=1) == 1)


def with_class_shares(
    probabilities: NDArray[np.float32], perturbed: PerturbedGraph, unknown: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """Return probabilities [nodes, classes] with the class shares of all reports where nothing is known about a person.

    No path of links joins such a person to a report. A method may read something into the number of their links; a
    deployed model does not.
    """
    return np.where(unknown[:, None], class_shares(perturbed), probabilities) if unknown.any() else probabilities


def sets_of_classes(
    calibrated: ConformalSets,
    probabilities: NDArray[np.float32],
    perturbed: PerturbedGraph,
    unknown: NDArray[np.bool_],
    coverage: float,
) -> NDArray[np.bool_]:
    """Return the sets of classes of all people [nodes, classes], with all classes where nothing is known about one.

    Sets are calibrated on people who reported. The class shares are no knowledge about one person.
    """
    chosen = calibrated.sets(probabilities, perturbed.has_label, coverage)
    return np.asarray(chosen | unknown[:, None])


def count_set_sizes(sets: NDArray[np.bool_] | None) -> list[int] | None:
    """Return the number of nodes with a set of each size, [classes + 1], for sets [nodes, classes]; None for none.

    >>> count_set_sizes(np.array([[True, False], [True, True], [False, True]]))
    [0, 2, 1]
    """
    if sets is None:
        return None
    sizes: list[int] = np.bincount(sets.sum(axis=1), minlength=sets.shape[1] + 1).tolist()
    return sizes


def calibrated_sets(model: Model, coverage: float | None) -> ConformalSets | None:
    """Return the sets of the method; None if it gives none and none were asked for."""
    try:
        sets = model.method.conformal_sets()
    except FitError:
        if coverage is not None:
            raise
        return None
    sets.threshold(COVERAGE if coverage is None else coverage)
    return sets


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
        buffer.write(frame_to_csv(table.assign(**texts)).encode())
    else:
        table.to_parquet(buffer, index=False)
    write_atomically(path, buffer.getvalue())


def write_prediction_shards(found: Predictions, shards: Path, out: Path) -> None:
    """Write predictions of the nodes of a folder of shards as shards `predictions-00000.parquet` and so on.

    Each has the nodes of the shard of the same number, in the same order, but those without a prediction. The folder
    appears when it is complete.

    Args:
        found: predictions of the nodes.
        shards: folder of the graph's shards.
        out: folder to write.
    """
    folder = ShardFolder.open(shards)
    row_of = {name: row for row, name in enumerate(found.nodes)}
    with drafted_folder(out, folder.parts) as draft:
        described = []
        for shard in range(folder.parts):
            ids = folder.nodes(shard).ids
            ids = ids.filter(arrow().array([str(each) in row_of for each in ids.to_pylist()], arrow().bool_()))
            rows = np.array([row_of[str(each)] for each in ids.to_pylist()], dtype=np.int64)
            described.append(write_prediction_shard(found.select(rows), ids, draft, shard))
        write_predictions_manifest(draft, described, graph=folder.identity, campaign=found.campaign)


def write_prediction_shard(found: Predictions, ids: ArrowArray, folder: Path, shard: int) -> dict[str, Any]:
    """Write one shard of predictions, and return its description for the manifest.

    Args:
        found: predictions of the shard's nodes.
        ids: ids of these nodes, in the same order; they are written with their type, so that tables join on them.
        folder: folder of the predictions.
        shard: number of the shard.
    """
    pa = arrow()

    table = pa.Table.from_pandas(found.to_frame().drop(columns="id"), preserve_index=False)
    return write_shard(folder, "predictions", shard, table.add_column(0, "id", ids))


def write_predictions_manifest(folder: Path, described: Sequence[dict[str, Any]], *, graph: str, campaign: str) -> None:
    """Write the manifest of shards of predictions: rows, bytes and SHA-256 of each file."""
    total = sum(each["rows"] for each in described)
    content = {"predictions": total, "graph": graph, "campaign": campaign, "shards": list(described)}
    write_atomically(folder / MANIFEST, json.dumps(content, indent=1))


def _joined(names: Sequence[str]) -> str:
    r"""Return the names of a set as one text, a|b; a "|" within a name is written as "\|"."""
    return "|".join(name.replace("|", r"\|") for name in names)


def _with_nodes(graph: Graph, nodes: Sequence[str]) -> Graph:
    """Return the graph with `nodes` added if they have no edge."""
    known = set(graph.names)
    names = [*graph.names, *(node for node in nodes if node not in known)]
    if len(names) > graph.num_nodes and not graph.num_edges:
        raise GraphError(f"node '{names[graph.num_nodes]}' is not among the people of the series")
    return graph if len(names) == graph.num_nodes else graph.renumbered(range(graph.num_nodes), names)


_BLOCK_NODES = 2**18


def unknown_people(perturbed: PerturbedGraph) -> NDArray[np.bool_]:
    """Return about whom nothing is known, `[nodes]`: no path of links joins them to a report.

    On a part of a graph, all processes call this together.
    """
    graph, known = perturbed.graph, perturbed.has_report
    if not isinstance(graph, GraphPart):
        return ~joined_to(graph.adjacency, known)
    exchange = current_exchange()
    _, halo = rows_of_part(graph, exchange)
    while True:
        extended = halo.extend(known.astype(np.uint8)).astype(np.bool_)
        reached = joined_to(graph.extended.adjacency, extended)[graph.own_rows]
        more = exchange.sum(np.array([np.count_nonzero(reached & ~known)]))[0]
        known = reached
        if not more:
            return ~known


def joined_to(adjacency: Adjacency, people: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return whom a path joins to one of some people, `[nodes]`, these people included.

    >>> from veilgraph.graph import Graph
    >>> graph = Graph.from_edges([[0, 1, 3], [1, 2, 4]], num_nodes=6)
    >>> joined_to(graph.adjacency, np.arange(6) == 0).tolist()
    [True, True, True, False, False, False]
    """
    starts, neighbours = adjacency
    joined = people.copy()
    frontier = np.flatnonzero(people)
    while len(frontier):
        found = []
        for first in range(0, len(frontier), _BLOCK_NODES):
            nodes = frontier[first : first + _BLOCK_NODES]
            counts = (starts[nodes + 1] - starts[nodes]).astype(np.int64)
            ends = np.cumsum(counts)
            places = np.repeat(starts[nodes] - (ends - counts), counts) + np.arange(counts.sum())
            reached = neighbours[places]
            new = np.unique(reached[~joined[reached]])
            joined[new] = True
            found.append(new)
        frontier = np.concatenate(found)
    return joined
