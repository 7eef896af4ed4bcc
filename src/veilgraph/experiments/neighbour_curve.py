"""Accuracy against the edge epsilon: private neighbours between the label alone and a public graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from veilgraph.datasets import PrivateGraph
from veilgraph.errors import RunError
from veilgraph.evaluation import accuracy
from veilgraph.experiments.grid import HISTOGRAM
from veilgraph.experiments.neighbour_design import ANSWERS, NeighbourDesign
from veilgraph.experiments.private_neighbours import simulate_neighbour_waves
from veilgraph.experiments.simulation import label_rng, randomize_labels, simulated_collection
from veilgraph.graph import Split
from veilgraph.models import LabelVeil, NeighbourWaves
from veilgraph.privacy.mechanisms import GRR
from veilgraph.privacy.schema import NO_LABEL

EDGE_EPSILONS = (1.0, 2.0, 4.0, 8.0)
FLOOR, CEILING, TOLD = "label_alone", "public_graph", "label_and_features"


def neighbour_curve(
    private: PrivateGraph,
    *,
    epsilon_y: float,
    edge_epsilons: Sequence[float] = EDGE_EPSILONS,
    epsilon_x: float | None = None,
    sampled: int | None = None,
    seeds: int = 3,
    first_seed: int = 0,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> dict[str, Any]:
    """Simulate both answers at several edge epsilons; return accuracies on silent people, JSON-ready.

    The floor is the own label without any neighbour, which is the largest class for a silent person. The ceiling is
    Veil on the same label reports with the graph, if it were public. Where features are asked, what own label and own
    features reach without any neighbour is beside both.

    Args:
        private: the true records; its edges are the neighbour lists.
        epsilon_y: budget of the label.
        edge_epsilons: budgets of all answers of a person together.
        epsilon_x: budget of each sampled feature; None asks for none.
        sampled: number of features to spend it on, given together with `epsilon_x`.
        seeds: number of splits and reports.
        first_seed: the first seed.
        progress: called with what is done, how much and of how much.
    """
    if seeds < 1:
        raise RunError(f"seeds is {seeds}: run at least 1")
    if epsilon_x is not None and not private.schema.num_features:
        raise RunError(f"{private.name} has no features: leave epsilon_x and sampled out")
    totals = sorted(dict.fromkeys(edge_epsilons))
    classes, sizes = private.schema.num_classes, private.schema.domain_sizes
    designs = {
        answer: [
            NeighbourDesign.usual(answer, epsilon_y, total, epsilon_x=epsilon_x, sampled=sampled) for total in totals
        ]
        for answer in ANSWERS
    }
    features = designs[HISTOGRAM][0].features(sizes)
    found: dict[str, list[list[float]]] = {answer: [[] for _ in totals] for answer in ANSWERS}
    levels: dict[str, list[float]] = {each: [] for each in (FLOOR, CEILING, *([TOLD] if features else []))}
    steps, done = seeds * (len(ANSWERS) * len(totals) + 1), 0
    for seed in range(first_seed, first_seed + seeds):
        split = Split.random(private.graph.num_nodes, seed=seed, eligible=private.labels != NO_LABEL)
        labels = randomize_labels(private, GRR(classes, epsilon_y), split, rng=label_rng(seed))
        public = simulated_collection(private, split, GRR(classes, epsilon_y), labels)
        for level, method in ((FLOOR, NeighbourWaves(seed=seed)), (CEILING, LabelVeil(seed=seed))):
            levels[level].append(accuracy(method.fit(public, split).predict(), private, split.test))
        if features is not None:
            _, method = simulate_neighbour_waves(
                private, split, GRR(classes, epsilon_y), [], seed=seed, features=features
            )
            levels[TOLD].append(accuracy(method.predict(), private, split.test))
        progress("fits", done := done + 1, steps)
        for answer, planned in designs.items():
            for design, scores in zip(planned, found[answer], strict=True):
                _, method = simulate_neighbour_waves(
                    private,
                    split,
                    design.label(classes),
                    design.waves(classes),
                    seed=seed,
                    in_turn=design.in_turn,
                    features=features,
                )
                scores.append(accuracy(method.predict(), private, split.test))
                progress("fits", done := done + 1, steps)
    return {
        "dataset": private.name,
        "nodes": private.graph.num_nodes,
        "edges": private.graph.num_edges,
        "classes": classes,
        "epsilon_y": epsilon_y,
        "epsilon_x": epsilon_x,
        "sampled": sampled,
        "edge_epsilons": totals,
        "seeds": list(range(first_seed, first_seed + seeds)),
        "answers": {
            answer: [
                {
                    "edge_epsilon": total,
                    "design": design.title,
                    "guarantee": design.guarantee(classes, sizes).as_dict(),
                    "guarantee_in_words": design.guarantee(classes, sizes).in_words(),
                    **_spread(scores),
                }
                for total, design, scores in zip(totals, designs[answer], found[answer], strict=True)
            ]
            for answer in ANSWERS
        },
        "levels": {level: _spread(scores) for level, scores in levels.items()},
    }


def _spread(scores: Sequence[float]) -> dict[str, Any]:
    return {
        "accuracies": list(scores),
        "accuracy_mean": float(np.mean(scores)),
        "accuracy_std": float(np.std(scores, ddof=1)) if len(scores) > 1 else None,
    }
