"""The main job: what can a GNN learn from randomized reports on this graph, and at which epsilon?"""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import veilgraph
from veilgraph.datasets import PrivateGraph
from veilgraph.errors import RunError
from veilgraph.evaluation import compare_frequencies, majority_share
from veilgraph.experiments.cells import draw_reports, fit_cells
from veilgraph.experiments.grid import Cell
from veilgraph.experiments.result_store import RunFolder
from veilgraph.graph import Graph
from veilgraph.models import RGNN
from veilgraph.models.engine.gnn_method import GNNMethod
from veilgraph.models.registry import find_method
from veilgraph.privacy.budget import PrivacyBudget, check_sampled
from veilgraph.privacy.epsilon import json_epsilon
from veilgraph.reconstruct.propagation import reach

METHODS = ("rgnn", "plain", "structure_only", "non_private")
"""RGNN, the same GNN on raw reports, the control without features, and the ceiling without privacy."""


@dataclass(frozen=True, kw_only=True)
class RunConfiguration:
    """Everything that decides a run's results, apart from the data.

    Args:
        budget: what each report may cost.
        backbone: of every GNN.
        seeds: how many times everything is drawn anew: split, reports, weights.
        feature_hops: K_x; None follows from the graph.
        label_hops: K_y; None follows from the graph.
        num_clusters: C.
        llp_weight: alpha.
        epochs: of every GNN.
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


Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many fits are finished, and how many there are."""


def run(
    private: PrivateGraph,
    configuration: RunConfiguration,
    folder: Path,
    *,
    device: str = "auto",
    progress: Progress = lambda what, done, total: None,
) -> dict[str, Any]:
    """Randomizes, reconstructs, trains and compares; writes everything into `folder`; returns what result.json holds.

    Every seed has its own split and reports, shared by all methods, so that methods are compared on the same draw.
    """
    configuration = _with_hops(configuration, private.graph)
    store = RunFolder(folder, _identity(private, configuration))
    fits: dict[str, list[dict[str, Any]]] = {method: [] for method in METHODS}
    total = configuration.seeds * len(METHODS)
    for seed in range(configuration.seeds):
        for method in METHODS:
            progress(f"{method}, seed {seed}", sum(map(len, fits.values())), total)
            fit = store.finished_fit(method, seed)
            if fit is None:
                fit = _fit(method, seed, private, configuration, device, store)
                store.keep_fit(method, seed, fit)
            fits[method].append(fit)
    result = _summary(private, configuration, fits)
    store.write("result.json", json.dumps(result, indent=2))
    return result


def _cell(method: str, seed: int, private: PrivateGraph, configuration: RunConfiguration) -> Cell:
    entry, budget = find_method(method), configuration.budget
    parameters = asdict(configuration)
    return Cell(
        dataset=private.name,
        method=method,
        epsilon_x=budget.epsilon_x if entry.private else None,
        epsilon_y=budget.epsilon_y if entry.private else None,
        sampled=check_sampled(budget.sampled, private.schema.num_features),
        seed=seed,
        parameters={key: parameters[key] for key in parameters if key in entry.parameters},
    )


def _fit(
    method: str, seed: int, private: PrivateGraph, configuration: RunConfiguration, device: str, store: RunFolder
) -> dict[str, Any]:
    (fit,) = fit_cells([_cell(method, seed, private, configuration)], private, device)
    if isinstance(fit.method, RGNN) and seed == 0:
        store.claim()
        fit.method.save(store.path / "model")
        store.write("predictions.csv", _predictions_table(private, fit.method.predict_proba()))
    return {
        "accuracy": fit.accuracy,
        "epsilon_user_level": json_epsilon(fit.method.epsilon_spent(fit.perturbed.guarantee)),
        "seconds": fit.seconds,
        "curve": asdict(fit.method.curve_) if isinstance(fit.method, GNNMethod) else None,
    }


def _with_hops(configuration: RunConfiguration, graph: Graph) -> RunConfiguration:
    """Hops left open follow from the graph; features are far noisier than labels and get twice as many."""
    hops = reach(graph)
    return replace(
        configuration,
        feature_hops=2 * hops if configuration.feature_hops is None else configuration.feature_hops,
        label_hops=hops if configuration.label_hops is None else configuration.label_hops,
    )


def _summary(
    private: PrivateGraph, configuration: RunConfiguration, fits: dict[str, list[dict[str, Any]]]
) -> dict[str, Any]:
    first, _ = draw_reports(_cell("rgnn", 0, private, configuration), private)
    graph = private.graph
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
        "configuration": _identity(private, configuration),
        "guarantee": first.guarantee.as_dict(),
        "guarantee_in_words": first.guarantee.in_words(),
        "methods": {method: _method_summary(runs) for method, runs in fits.items()},
        "learning_curves": {
            method: [run["curve"] for run in runs] for method, runs in fits.items() if runs[0]["curve"]
        },
        "frequencies": [asdict(row) for row in compare_frequencies(private, first)],
    }


def _method_summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    accuracies = [run["accuracy"] for run in runs]
    return {
        "accuracy_mean": statistics.mean(accuracies),
        # One seed has no spread.
        "accuracy_std": statistics.stdev(accuracies) if len(accuracies) > 1 else None,
        "epsilon_user_level": runs[0]["epsilon_user_level"],
        "accuracies": accuracies,
        "seconds_mean": statistics.mean(run["seconds"] for run in runs),
    }


def _identity(private: PrivateGraph, configuration: RunConfiguration) -> dict[str, Any]:
    """What decides the results; infinities as JSON can hold them."""
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


def _predictions_table(private: PrivateGraph, probabilities: NDArray[np.float32]) -> str:
    """Node, predicted class and class probabilities, as CSV."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    classes = private.schema.classes
    writer.writerow(["node", "predicted", *(f"probability_{name}" for name in classes)])
    ids = private.graph.node_ids or range(private.graph.num_nodes)
    for node, row in zip(ids, probabilities, strict=True):
        writer.writerow([node, classes[int(row.argmax())], *(f"{p:.6f}" for p in row)])
    return table.getvalue()
