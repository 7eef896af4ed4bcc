"""How far Veil is from the limit: block models, where the optimal answer is known.

On a block model, belief propagation with the true parameters and the external field of the non-edges is optimal, as
the graph grows (Decelle, Krzakala, Moore and Zdeborova 2011). It is compared with Veil and the control on `csbm`
graphs of 3,000 nodes and mean degree 10. Labels are randomized by GRR; three quarters of the people report. Epsilons
are at user level (any two records), spent on the label alone.

python -m studies.bayes_limit --first-seed 100 --draws 10
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from veilgraph.datasets import csbm
from veilgraph.evaluation import accuracy
from veilgraph.experiments.simulation import label_rng, randomize_labels, simulated_collection
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models import LabelVeil, StructureOnly
from veilgraph.models.veil.block_model import BlockModel
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.privacy.mechanisms import GRR

EPSILONS = (2.0, 1.0, 0.5)
METHODS = ("control", "Veil", "optimal")
_SWEEPS = 200


@dataclass(frozen=True, kw_only=True)
class Model:
    """A block model.

    Attributes:
        shares: Share of each class.
        homophily: Probability that an edge is within a class.
        nodes: Number of nodes.
        mean_degree: Mean number of neighbours.
    """

    shares: tuple[float, ...]
    homophily: float
    nodes: int = 3000
    mean_degree: float = 10.0

    def __str__(self) -> str:
        equal = len(set(self.shares)) == 1
        kind = str(len(self.shares)) if equal else " / ".join(f"{100 * share:.0f}" for share in self.shares) + " %"
        return f"{kind}, {self.homophily:g}"


def equal(classes: int, homophily: float) -> Model:
    """Return a block model of classes of equal size."""
    return Model(shares=(1 / classes,) * classes, homophily=homophily)


MODELS = (
    *(equal(4, homophily) for homophily in (0.4, 0.5, 0.6, 0.7)),
    *(equal(10, homophily) for homophily in (0.4, 0.5, 0.6, 0.8)),
    Model(shares=(0.4, 0.3, 0.2, 0.1), homophily=0.6),
    Model(shares=(0.7, 0.2, 0.07, 0.03), homophily=0.8),
)

Task = tuple[Model, float, int]
"""Block model, epsilon and seed."""


def optimal_prediction(model: Model, reports: PerturbedGraph) -> NDArray[np.int64]:
    r"""Return the most likely classes [nodes] given the graph, the reports and the true parameters of the model.

    All pairs within a class are equally likely, and so are all pairs of different classes. With h the homophily, the
    ratio of an edge to chance is :math:`h / \sum_x \pi_x^2` within a class and
    :math:`(1 - h) / (1 - \sum_x \pi_x^2)` between two.
    """
    shares = torch.tensor(model.shares)
    chance = float(shares.square().sum())
    attraction, affinity = (model.homophily - chance) / (1 - chance), None  # classes of equal size: K = diag(1 / pi)
    if len(set(model.shares)) > 1:
        attraction = 1.0
        affinity = torch.full((len(shares), len(shares)), (1 - model.homophily) / (1 - chance))
        affinity.fill_diagonal_(model.homophily / chance)
    block_model = BlockModel(
        exchangeable=len(set(model.shares)) == 1,
        graph=reports.graph,
        prior=shares,
        weights=torch.full((model.nodes,), model.mean_degree),
        attraction=attraction,
        affinity=affinity,
    )
    evidence = CrossFitting.random(reports, seed=0).local_evidence[:, -1:]
    beliefs = block_model.log_posterior(evidence, max_sweeps=_SWEEPS, tolerance=1e-4)
    predicted: NDArray[np.int64] = beliefs[:, 0].argmax(1).numpy()
    return predicted


def compare(task: Task) -> dict[str, float]:
    """Return the test accuracy of each of `METHODS`, for one seed."""
    model, epsilon, seed = task
    torch.set_num_threads(1)
    private = csbm(
        model.nodes,
        num_classes=len(model.shares),
        homophily=model.homophily,
        mean_degree=model.mean_degree,
        class_shares=model.shares,
        num_features=0,
        seed=seed,
    )
    split, mechanism = Split.random(model.nodes, seed=seed), GRR(len(model.shares), epsilon)
    labels = randomize_labels(private, mechanism, split, rng=label_rng(seed))
    reports = simulated_collection(private, split, mechanism, labels)
    predicted = {
        "control": StructureOnly(device="cpu").fit(reports, split).predict(),
        "Veil": LabelVeil(seed=seed).fit(reports, split).predict(),
        "optimal": optimal_prediction(model, reports),
    }
    return {method: accuracy(classes, private, split.test) for method, classes in predicted.items()}


def summary(model: Model, epsilon: float, draws: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return means and standard errors, in percent, and the paired difference of Veil to the optimum."""
    columns = {method: 100 * np.array([each[method] for each in draws]) for method in METHODS}
    columns["Veil - optimal"] = columns["Veil"] - columns["optimal"]
    row: dict[str, Any] = {"model": str(model), "epsilon_user_level": epsilon, "draws": len(draws)}
    for name, values in columns.items():
        row[name] = {"mean": values.mean(), "standard_error": values.std(ddof=1) / len(values) ** 0.5}
    return row


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as a Markdown table, in percent."""
    keys = (*METHODS, "Veil - optimal")
    lines = [f"| classes, homophily | epsilon | {' | '.join(keys)} |", "| --- |" + " ---: |" * (1 + len(keys))]
    for row in rows:
        cells = [f"{row[key]['mean']:.1f} ± {row[key]['standard_error']:.1f}" for key in keys]
        lines.append(f"| {row['model']} | {row['epsilon_user_level']:g} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the table or JSON. Epsilons are at user level (any two records), spent on the label alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=5, help="number of seeds, at least 2")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    cells = list(itertools.product(MODELS, options.epsilons))
    seeds = range(options.first_seed, options.first_seed + options.draws)
    tasks = [(*cell, seed) for cell in cells for seed in seeds]
    draws = list[dict[str, float]]()
    with ProcessPoolExecutor(options.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        for number, found in enumerate(pool.map(compare, tasks), start=1):
            draws.append(found)
            print(f"\r{number} of {len(tasks)}", end="", file=sys.stderr)
    print(file=sys.stderr)
    groups = [draws[start : start + len(seeds)] for start in range(0, len(draws), len(seeds))]
    rows = [summary(*cell, group) for cell, group in zip(cells, groups, strict=True)]
    print(json.dumps(rows, indent=2) if options.json else table(rows))


if __name__ == "__main__":
    main()
