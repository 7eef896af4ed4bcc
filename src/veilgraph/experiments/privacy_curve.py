"""The privacy curve of `veilgraph run`: what can be learned on one graph, at which total epsilon.

Totals are at user level (any two records). Every method gets the same total at each point of the curve, and spends it
in its own way:

    Veil, control   the whole total on the label, by the mechanism of `best_label_mechanism`; no features
    RGNN            epsilon_x = epsilon_y = total / (m + 1), GRR-FS and GRR: the paper's split where both are equal;
                    and the best of this split and of a half and nine tenths for the label
    not private     Veil and a GNN on the true records
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from veilgraph.datasets import PrivateGraph
from veilgraph.errors import RunError
from veilgraph.experiments.grid import BEST_LABELS, GRR_LABELS, Cell, make_cell
from veilgraph.experiments.results import graph_facts, label_facts, summarize_seeds
from veilgraph.experiments.run_folder import RunFolder, RunSettings, gnns_first, run_cells
from veilgraph.models.registry import find_method
from veilgraph.privacy.accounting import guarantee_of
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.epsilon import check_epsilon
from veilgraph.privacy.mechanisms.registry import best_label_mechanism
from veilgraph.privacy.schema import FeatureSchema
from veilgraph.progress import Progress, no_progress

TOTALS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""User-level epsilons (any two records) of the curve, unless others are given."""
LABEL_ALONE = ("veil_labels", "structure_only")
"""Methods that spend the total on the label alone. They share their reports."""
PAPER, BEST_SPLIT = "rgnn", "rgnn_best"
"""The paper's method, which divides the total between features and label: as the paper does, and as suits it best."""
_LABEL_SHARES = (0.5, 0.9)
"""Shares of the total for the label that are tried beside the paper's."""
NOT_PRIVATE = ("veil_non_private", "non_private")
"""Veil and a GNN on true records."""


def paper_split(total: float, sampled: int) -> PrivacyBudget:
    """Divide a total as the paper does at epsilon_x = epsilon_y: m epsilon_x + epsilon_y = total.

    >>> paper_split(11.0, sampled=10)
    PrivacyBudget(epsilon_x=1.0, epsilon_y=1.0, sampled=10)
    """
    share = total / (sampled + 1)
    return PrivacyBudget(epsilon_x=share, epsilon_y=share, sampled=sampled)


def splits(total: float, sampled: int) -> tuple[PrivacyBudget, ...]:
    """Return the divisions of a total that RGNN tries, first the paper's.

    >>> [round(split.epsilon_y, 3) for split in splits(11.0, sampled=10)]
    [1.0, 5.5, 9.9]
    """
    others = [PrivacyBudget((1 - share) * total / sampled, share * total, sampled) for share in _LABEL_SHARES]
    return (paper_split(total, sampled), *others)


@dataclass(frozen=True, kw_only=True)
class CurveConfiguration(RunSettings):
    """Everything that decides a curve, except the data.

    Attributes:
        totals: user-level epsilons (any two records), ascending.
        sampled: m of RGNN; more than there are means all features.
    """

    totals: tuple[float, ...] = TOTALS
    sampled: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        for total in self.totals:
            check_epsilon(total, "epsilon")
            if math.isinf(total):
                raise RunError("epsilon is infinite: the curve shows methods without privacy anyway; give a number")
        if not self.totals:
            raise RunError("there is no total epsilon: give at least one")
        if self.sampled < 1:
            raise RunError(f"sampled is {self.sampled}: give a whole number of features, at least 1")
        object.__setattr__(self, "totals", tuple(sorted({float(total) for total in self.totals})))


def run_curve(
    private: PrivateGraph,
    configuration: CurveConfiguration,
    folder: Path,
    *,
    device: str = "auto",
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Fit every method at every total and seed; write everything into `folder`; return the content of result.json.

    A run that was stopped continues from the cells that its folder holds. A method that needs features is left out
    where the schema has none.

    Args:
        private: the true records.
        configuration: the settings.
        folder: folder of the results. A folder of another run, or of other files, is refused.
        device: "auto", "cpu" or "cuda".
        progress: called with the cell, the number of finished cells, and the number of all cells.
    """
    configuration = replace(configuration, sampled=max(1, min(configuration.sampled, private.schema.num_features)))
    own = RunFolder(folder, configuration.identity(private))
    results = run_cells(private, list(_cells(private, configuration)), own, device=device, progress=progress)
    result = _summary(private, configuration, own.identity, results)
    own.write("result.json", json.dumps(result, indent=2))
    return result


def private_methods(schema: FeatureSchema) -> tuple[str, ...]:
    """Return the private methods that a curve fits; RGNN is one of them where there are features."""
    return (*LABEL_ALONE, PAPER) if schema.num_features else LABEL_ALONE


def methods_without_privacy(schema: FeatureSchema) -> tuple[str, ...]:
    """Return the methods of a curve that read true records; the GNN is one of them where there are features."""
    return NOT_PRIVATE if schema.num_features else NOT_PRIVATE[:1]


def _cells(private: PrivateGraph, configuration: CurveConfiguration) -> Iterator[Cell]:
    """Yield one cell for each method, total, division and seed; methods without privacy have no total."""
    for method in gnns_first((*private_methods(private.schema), *methods_without_privacy(private.schema))):
        divided = find_method(method).uses_features
        for epsilon_x, epsilon_y in _budgets(method, configuration):
            for seed in range(configuration.seeds):
                yield make_cell(
                    dataset=private.name,
                    method=method,
                    epsilon_x=epsilon_x,
                    epsilon_y=epsilon_y,
                    sampled=configuration.sampled,
                    seed=seed,
                    label_mechanism=GRR_LABELS if divided else BEST_LABELS,
                    parameters=asdict(configuration),
                )


def _budgets(method: str, configuration: CurveConfiguration) -> Iterator[tuple[float | None, float]]:
    """Yield epsilon_x and epsilon_y of each total, and of each division of it where the method uses features."""
    entry = find_method(method)
    for total in configuration.totals if entry.private else (math.inf,):
        if entry.private and entry.uses_features:
            yield from ((split.epsilon_x, split.epsilon_y) for split in splits(total, configuration.sampled))
        else:
            yield total, total


def _summary(
    private: PrivateGraph,
    configuration: CurveConfiguration,
    identity: dict[str, Any],
    results: list[tuple[Cell, dict[str, Any]]],
) -> dict[str, Any]:
    seeds, totals = configuration.seeds, configuration.totals

    def by_setting(method: str) -> list[dict[str, Any]]:
        """Return a summary for each total, and division; cells are in the order of totals, divisions, then seeds."""
        found = [result for cell, result in results if cell.method == method]
        return [summarize_seeds(found[start : start + seeds]) for start in range(0, len(found), seeds)]

    methods = {method: by_setting(method) for method in private_methods(private.schema)}
    designs = [_design(total, private.schema) for total in totals]
    if PAPER in methods:
        # The division is chosen by its accuracy on these very seeds: an advantage that no other method has.
        tried, methods[PAPER], methods[BEST_SPLIT] = iter(methods[PAPER]), [], []
        for design in designs:
            offered = splits(design["epsilon"], configuration.sampled)
            found = list(zip(offered, tried, strict=False))
            best, summary = max(found, key=lambda pair: float(pair[1]["accuracy_mean"]))
            methods[PAPER].append(found[0][1])
            methods[BEST_SPLIT].append(summary)
            design |= {PAPER: asdict(offered[0]), BEST_SPLIT: asdict(best)}
    return {
        "dataset": private.name,
        "graph": graph_facts(private),
        "configuration": identity,
        "totals": list(totals),
        "designs": designs,
        "methods": methods,
        "not_private": {method: by_setting(method)[0] for method in methods_without_privacy(private.schema)},
    }


def _design(total: float, schema: FeatureSchema) -> dict[str, Any]:
    """Describe the reports about the label alone at a total."""
    label = best_label_mechanism(schema.num_classes, total)
    guarantee = guarantee_of(None, label)
    return {
        "epsilon": total,
        **label_facts(label),
        "guarantee": guarantee.as_dict(),
        "guarantee_in_words": guarantee.in_words(),
        PAPER: None,
        BEST_SPLIT: None,
    }
