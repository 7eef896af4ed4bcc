"""`veilgraph run`: what a GNN learns from randomized reports on one graph, compared with a control and a ceiling."""

from __future__ import annotations

import csv
import io
import json
import statistics
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import veilgraph
from veilgraph.datasets import PrivateGraph
from veilgraph.errors import RunError
from veilgraph.evaluation import compare_frequencies, majority_share
from veilgraph.experiments.cells import Fit
from veilgraph.experiments.grid import Cell, Experiment, make_cell
from veilgraph.experiments.results import ResultStore, write_result
from veilgraph.experiments.runner import run_experiment
from veilgraph.graph import Graph
from veilgraph.graph.io import to_cell
from veilgraph.models.engine.gnn_method import GNNMethod
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.epsilon import json_epsilon
from veilgraph.progress import Progress, no_progress
from veilgraph.reconstruct.propagation import default_hops

COMPARED = ("rgnn", "plain", "structure_only", "non_private")
"""RGNN, the same GNN on raw reports, the control without features, and the ceiling without privacy."""

_CONFIGURATION = "configuration.json"


@dataclass(frozen=True, kw_only=True)
class RunConfiguration:
    """Everything that decides the results of a run, except the data.

    Attributes:
        budget: privacy budget of each report.
        backbone: backbone of every GNN.
        seeds: number of repetitions, each with its own split, reports and initial weights.
        feature_hops: K_x; default: twice `default_hops` of the graph.
        label_hops: K_y; default: `default_hops` of the graph.
        num_clusters: C.
        llp_weight: alpha.
        epochs: number of epochs of every GNN.
    """

    budget: PrivacyBudget
    backbone: str = "sage"
    seeds: int = 5
    feature_hops: int | None = None
    label_hops: int | None = None
    num_clusters: int = 16
    llp_weight: float = 1.0
    epochs: int = 100

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise RunError(f"seeds is {self.seeds}: run at least 1")


def run(
    private: PrivateGraph,
    configuration: RunConfiguration,
    folder: Path,
    *,
    device: str = "auto",
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Randomize, reconstruct, train and compare; write everything into `folder`; return the content of result.json.

    Every seed has its own split and reports. All methods share them, so that they are compared on the same draw.
    A run that was stopped continues from the cells that its folder holds.

    Args:
        private: the true records.
        configuration: the settings.
        folder: folder of the results. A folder of another run, or of other files, is refused.
        device: "auto", "cpu" or "cuda".
        progress: called with the cell, the number of finished cells, and the number of all cells.
    """
    configuration = _with_hops(configuration, private.graph)
    identity = _identity(private, configuration)
    _check_folder(folder, identity)
    experiment, store = _experiment(private, configuration), ResultStore(folder)

    def data(cell: Cell) -> PrivateGraph:
        return private

    run_experiment(
        experiment,
        store,
        data=data,
        device=device,
        on_fit=partial(_keep, private=private, folder=folder, identity=identity),
        progress=progress,
    )
    result = _summary(private, identity, list(store.finished(experiment, data)))
    write_result(folder / "result.json", json.dumps(result, indent=2))
    return result


def _with_hops(configuration: RunConfiguration, graph: Graph) -> RunConfiguration:
    """Derive missing hops from the graph. Features are much noisier than labels and get twice as many hops."""
    hops = default_hops(graph)
    return replace(
        configuration,
        feature_hops=2 * hops if configuration.feature_hops is None else configuration.feature_hops,
        label_hops=hops if configuration.label_hops is None else configuration.label_hops,
    )


def _identity(private: PrivateGraph, configuration: RunConfiguration) -> dict[str, Any]:
    """Return everything that decides the results, JSON-ready."""
    budget = {
        name: json_epsilon(value) if isinstance(value, float) else value
        for name, value in asdict(configuration.budget).items()
    }
    return {
        "dataset": private.name,
        "data_sha256": private.fingerprint,
        **asdict(configuration),
        "budget": budget,
        "version": veilgraph.__version__,
    }


def _check_folder(folder: Path, identity: dict[str, Any]) -> None:
    """Refuse a folder that holds the result of another run, or other files."""
    stored = folder / _CONFIGURATION
    try:
        if stored.exists():
            found = json.loads(stored.read_text(encoding="utf-8"))
        elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise RunError(f"{folder} exists and is not a run's folder: choose another --out")
        else:
            return
    except (OSError, ValueError) as error:
        raise RunError(f"{folder} cannot be used as a run's folder: {error}; choose another --out") from error
    differing = [key for key in identity if identity[key] != found.get(key)]
    if differing:
        key = differing[0]
        raise RunError(
            f"{folder} holds another run's result ({key} was {found.get(key)}, now {identity[key]}): "
            "choose another --out or delete it"
        )


def _experiment(private: PrivateGraph, configuration: RunConfiguration) -> Experiment:
    budget = configuration.budget
    cells = tuple(
        make_cell(
            dataset=private.name,
            method=method,
            epsilon_x=budget.epsilon_x,
            epsilon_y=budget.epsilon_y,
            sampled=min(budget.sampled or 0, private.schema.num_features),
            seed=seed,
            parameters=asdict(configuration),
        )
        for method in COMPARED
        for seed in range(configuration.seeds)
    )
    return Experiment(name="run", title=private.name, cells=cells, published=())


def _keep(fit: Fit, *, private: PrivateGraph, folder: Path, identity: dict[str, Any]) -> dict[str, Any]:
    """Return what the summary needs of a fit; write model and predictions of the first RGNN.

    The first fit also claims the folder: until then, a mistake leaves no file behind.
    """
    if not (folder / _CONFIGURATION).exists():
        write_result(folder / _CONFIGURATION, json.dumps(identity, indent=2))
    details: dict[str, Any] = {"curve": asdict(fit.method.curve_) if isinstance(fit.method, GNNMethod) else None}
    if fit.cell.method == COMPARED[0] and fit.cell.seed == 0 and isinstance(fit.method, GNNMethod):
        fit.method.save(folder / "model")
        write_result(folder / "predictions.csv", _predictions_table(private, fit.method.predict_proba()))
        details["collection"] = {
            "guarantee": fit.perturbed.guarantee.as_dict(),
            "guarantee_in_words": fit.perturbed.guarantee.in_words(),
            "frequencies": [asdict(row) for row in compare_frequencies(private, fit.perturbed)],
        }
    return details


def _summary(
    private: PrivateGraph, identity: dict[str, Any], results: list[tuple[Cell, dict[str, Any]]]
) -> dict[str, Any]:
    graph = private.graph
    fits = {method: [found for cell, found in results if cell.method == method] for method in COMPARED}
    collection = fits[COMPARED[0]][0]["collection"]
    return {
        "dataset": private.name,
        "graph": {
            "nodes": graph.num_nodes,
            "edges": graph.num_edges,
            "mean_degree": 2 * graph.num_edges / graph.num_nodes,
            "features": private.schema.num_features,
            "classes": private.schema.num_classes,
            "majority_share": majority_share(private),
        },
        "configuration": identity,
        "guarantee": collection["guarantee"],
        "guarantee_in_words": collection["guarantee_in_words"],
        "methods": {method: _method_summary(found) for method, found in fits.items()},
        "learning_curves": {
            method: [each["curve"] for each in found] for method, found in fits.items() if found[0]["curve"]
        },
        "frequencies": collection["frequencies"],
    }


def _method_summary(fits: list[dict[str, Any]]) -> dict[str, Any]:
    accuracies = [fit["accuracy"] for fit in fits]
    return {
        "accuracy_mean": statistics.mean(accuracies),
        # One seed has no spread.
        "accuracy_std": statistics.stdev(accuracies) if len(accuracies) > 1 else None,
        "epsilon_user_level": fits[0]["epsilon_user_level"],
        "accuracies": accuracies,
        "seconds_mean": statistics.mean(fit["seconds"] for fit in fits),
    }


def _predictions_table(private: PrivateGraph, probabilities: NDArray[np.float32]) -> str:
    """Return node, predicted class and class probabilities, as CSV."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    classes = private.schema.classes
    writer.writerow(["node", "predicted", *(f"probability_{name}" for name in classes)])
    ids = private.graph.node_ids or range(private.graph.num_nodes)
    for node, row in zip(ids, probabilities, strict=True):
        writer.writerow([to_cell(node), to_cell(classes[int(row.argmax())]), *(f"{p:.6f}" for p in row)])
    return table.getvalue()
