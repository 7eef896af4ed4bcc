"""`veilgraph run` at one budget: what methods learn from the reports of one collection, in detail."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.datasets import PrivateGraph
from veilgraph.errors import RunError
from veilgraph.evaluation import compare_frequencies
from veilgraph.experiments.cells import Fit
from veilgraph.experiments.grid import BEST_LABELS, GRR_LABELS, Cell, make_cell
from veilgraph.experiments.results import graph_facts, label_facts, summarize_seeds
from veilgraph.experiments.run_folder import RunFolder, RunSettings, gnns_first, run_cells
from veilgraph.graph.text_tables import write_text_table
from veilgraph.models.engine.gnn_method import GNNMethod
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.progress import Progress, no_progress

_WITH_FEATURES = ("veil", "rgnn", "plain", "structure_only", "veil_non_private", "non_private")
_LABEL_ALONE = ("veil_labels", "structure_only", "veil_non_private", "non_private")
_PAPER = ("rgnn", "plain")
"""Methods of the paper, whose labels are randomized by GRR; the others have the best label mechanism."""


@dataclass(frozen=True, kw_only=True)
class RunConfiguration(RunSettings):
    """Everything that decides the results of a run at one budget, except the data.

    Attributes:
        budget: privacy budget of each report.
    """

    budget: PrivacyBudget


def compared_methods(private: PrivateGraph, budget: PrivacyBudget) -> tuple[str, ...]:
    """Return the methods that can learn from a collection, Veil first, and those without privacy last.

    A GNN needs features: on data without any, none is compared.
    """
    if budget.collects_features and not private.schema.num_features:
        raise RunError(f"{private.name} has no features to collect: give epsilon_y alone")
    if budget.collects_features:
        return _WITH_FEATURES
    return _LABEL_ALONE if private.schema.num_features else _LABEL_ALONE[:-1]


def run_comparison(
    private: PrivateGraph,
    configuration: RunConfiguration,
    folder: Path,
    *,
    device: str = "auto",
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Randomize, reconstruct, train and compare; write everything into `folder`; return the content of result.json.

    Every seed has its own split and reports. All methods share the split and the feature reports. Veil and the control
    share label reports by the best label mechanism; RGNN and the plain GNN share those by GRR, as in the paper.
    A run that was stopped continues from the cells that its folder holds.

    Args:
        private: the true records.
        configuration: the settings.
        folder: folder of the results. A folder of another run, or of other files, is refused.
        device: "auto", "cpu" or "cuda".
        progress: called with the cell, the number of finished cells, and the number of all cells.
    """
    own = RunFolder(folder, configuration.identity(private))
    keep = partial(_keep, private=private, folder=own)
    results = run_cells(private, _cells(private, configuration), own, device=device, keep=keep, progress=progress)
    result = _summary(private, compared_methods(private, configuration.budget), own.identity, results)
    own.write("result.json", json.dumps(result, indent=2))
    return result


def _cells(private: PrivateGraph, configuration: RunConfiguration) -> list[Cell]:
    budget = configuration.budget
    return [
        make_cell(
            dataset=private.name,
            method=method,
            epsilon_x=budget.epsilon_x,
            epsilon_y=budget.epsilon_y,
            sampled=min(budget.sampled or 0, private.schema.num_features),
            seed=seed,
            label_mechanism=GRR_LABELS if method in _PAPER else BEST_LABELS,
            parameters=asdict(configuration),
        )
        for method in gnns_first(compared_methods(private, budget))
        for seed in range(configuration.seeds)
    ]


def _keep(fit: Fit, *, private: PrivateGraph, folder: RunFolder) -> dict[str, Any]:
    """Return details of a fit for the summary; write model and predictions of the first fit of Veil."""
    details: dict[str, Any] = {"curve": asdict(fit.method.curve_) if isinstance(fit.method, GNNMethod) else None}
    if fit.cell.method in (_WITH_FEATURES[0], _LABEL_ALONE[0]) and fit.cell.seed == 0:
        fit.method.save(folder.path / "model")
        folder.write("predictions.csv", _predictions_table(private, fit.method.predict_proba()))
        details["collection"] = {
            "guarantee": fit.perturbed.guarantee.as_dict(),
            "guarantee_in_words": fit.perturbed.guarantee.in_words(),
            "label": label_facts(fit.perturbed.label_mechanism),
            "frequencies": [asdict(row) for row in compare_frequencies(private, fit.perturbed)],
        }
    return details


def _summary(
    private: PrivateGraph,
    methods: tuple[str, ...],
    identity: dict[str, Any],
    results: list[tuple[Cell, dict[str, Any]]],
) -> dict[str, Any]:
    fits = {method: [found for cell, found in results if cell.method == method] for method in methods}
    collection = fits[methods[0]][0]["collection"]
    return {
        "dataset": private.name,
        "graph": graph_facts(private),
        "configuration": identity,
        "guarantee": collection["guarantee"],
        "guarantee_in_words": collection["guarantee_in_words"],
        "label": collection["label"],
        "methods": {method: summarize_seeds(found) for method, found in fits.items()},
        "learning_curves": {
            method: [each["curve"] for each in found] for method, found in fits.items() if found[0]["curve"]
        },
        "frequencies": collection["frequencies"],
    }


def _predictions_table(private: PrivateGraph, probabilities: NDArray[np.float32]) -> str:
    """Return each node with its class, the probability of that class, and the probabilities of all classes, as CSV."""
    classes = private.schema.classes
    rows = (
        [node, classes[int(row.argmax())], *(round(float(p), 6) for p in (row.max(), *row))]
        for node, row in zip(private.graph.names, probabilities, strict=True)
    )
    return write_text_table(["id", "class", "probability", *(f"probability_{name}" for name in classes)], rows)
