"""The main job: what can a GNN learn from randomized reports on this graph, and at which epsilon?"""

from __future__ import annotations

import csv
import io
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import veilgraph
from veilgraph.budget import PrivacyBudget, json_epsilon
from veilgraph.datasets import PrivateGraph
from veilgraph.errors import RunError
from veilgraph.evaluation import accuracy, compare_frequencies, majority_share
from veilgraph.experiments.report import render_report
from veilgraph.experiments.run_folder import RunFolder
from veilgraph.experiments.simulate import reports_rng, simulate
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.learn import RGNN, Method, PlainGNN, StructureOnly
from veilgraph.learn.gnn import GNNMethod
from veilgraph.reconstruct.propagation import reach
from veilgraph.schema import NO_LABEL

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
    """Randomize, reconstruct, train and compare; write everything into `folder`; return what result.json holds.

    Every seed has its own split and reports, shared by all methods, so that methods are compared on the same draw.
    """
    configuration = _with_hops(configuration, private.graph)
    store = RunFolder(folder, _identity(private, configuration))
    fits: dict[str, list[dict[str, Any]]] = {method: [] for method in METHODS}
    total = configuration.seeds * len(METHODS)
    for seed in range(configuration.seeds):
        draw = _Draw.of(private, configuration.budget, seed)
        for method in METHODS:
            progress(f"{method}, seed {seed}", sum(map(len, fits.values())), total)
            fit = store.finished_fit(method, seed)
            if fit is None:
                fit = _fit(method, draw, private, configuration, device, store)
                store.keep_fit(method, seed, fit)
            fits[method].append(fit)
    progress("report", total, total)
    result = _summary(private, configuration, fits)
    store.write("result.json", json.dumps(result, indent=2))
    store.write("report.html", render_report(result))
    return result


@dataclass(frozen=True, kw_only=True, eq=False)
class _Draw:
    """One seed's split and reports, randomized and (for the ceiling) not."""

    seed: int
    split: Split
    perturbed: PerturbedGraph
    not_randomized: PerturbedGraph

    @classmethod
    def of(cls, private: PrivateGraph, budget: PrivacyBudget, seed: int) -> _Draw:
        split = Split.random(private.graph.num_nodes, seed=seed, eligible=private.labels != NO_LABEL)
        rng = reports_rng(seed)
        not_private = PrivacyBudget.not_private(private.schema.num_features)
        return cls(
            seed=seed,
            split=split,
            perturbed=simulate(private, budget, split, rng=rng),
            not_randomized=simulate(private, not_private, split, rng=rng),
        )


def _fit(
    name: str, draw: _Draw, private: PrivateGraph, configuration: RunConfiguration, device: str, store: RunFolder
) -> dict[str, Any]:
    method = _make_method(name, configuration, draw.seed, device)
    reports = draw.not_randomized if name == "non_private" else draw.perturbed
    started = time.perf_counter()
    method.fit(reports, draw.split)
    seconds = time.perf_counter() - started
    if isinstance(method, RGNN) and draw.seed == 0:
        store.claim()
        method.save(store.path / "model")
        store.write("predictions.csv", _predictions_table(private, method.predict_proba()))
    return {
        "accuracy": accuracy(method.predict(), private, draw.split.test),
        "epsilon_user_level": json_epsilon(method.epsilon_spent(reports.guarantee)),
        "seconds": seconds,
        "curve": asdict(method.curve) if isinstance(method, GNNMethod) else None,
    }


def _make_method(name: str, c: RunConfiguration, seed: int, device: str) -> Method:
    if name == "structure_only":
        return StructureOnly()
    if name == "rgnn":
        return RGNN(
            backbone=c.backbone,
            feature_hops=c.feature_hops or 0,
            label_hops=c.label_hops or 0,
            num_clusters=c.num_clusters,
            llp_weight=c.llp_weight,
            epochs=c.epochs,
            seed=seed,
            device=device,
        )
    return PlainGNN(backbone=c.backbone, epochs=c.epochs, seed=seed, device=device)


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
    first = _Draw.of(private, configuration.budget, 0).perturbed
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
