"""Accuracy against the edge epsilon: all answers about private neighbours, between floor and public graph."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from veilgraph.datasets import PrivateGraph
from veilgraph.errors import RunError
from veilgraph.experiments.edge_knowledge import ALONE, IN_WAVES, KNOWLEDGE, PUBLIC
from veilgraph.experiments.grid import BEST_LABELS, GRR_LABELS, Cell, make_cell
from veilgraph.experiments.neighbour_design import ANSWERS, LIST, NeighbourDesign
from veilgraph.experiments.results import summarize_seeds
from veilgraph.experiments.run_folder import RunFolder, run_cells, run_identity
from veilgraph.privacy.epsilon import check_epsilon, json_epsilon
from veilgraph.privacy.mechanisms import RandomizedNeighbourList
from veilgraph.privacy.mechanisms.randomized_neighbour_list import MOST_PEOPLE
from veilgraph.progress import Progress, no_progress

EDGE_EPSILONS = (1.0, 2.0, 4.0, 8.0)
FLOOR, TOLD, CONTROL, CEILING = "label_alone", "label_and_features", "control", "public_graph"
MAX_MUTUAL_PAIRS = 1_000_000
"""Pairs up to which randomized lists are learned from; more are far more false neighbours than true ones."""


@dataclass(frozen=True, kw_only=True)
class NeighbourConfiguration:
    """Everything that decides a curve, except the data.

    Attributes:
        epsilon_y: budget of the label.
        edge_epsilons: budgets of all answers of a person together, ascending.
        epsilon_x: budget of each sampled feature; None asks for none.
        sampled: number of features to spend it on, given together with `epsilon_x`.
        seeds: number of splits and reports.
        first_seed: the first seed.
    """

    epsilon_y: float
    edge_epsilons: tuple[float, ...] = EDGE_EPSILONS
    epsilon_x: float | None = None
    sampled: int | None = None
    seeds: int = 3
    first_seed: int = 0

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise RunError(f"seeds is {self.seeds}: run at least 1")
        for epsilon in self.edge_epsilons:
            check_epsilon(epsilon, "edge_epsilon")
        object.__setattr__(self, "edge_epsilons", tuple(sorted({float(each) for each in self.edge_epsilons})))
        self.designs()  # refuses a budget of features without a number of them

    def designs(self) -> dict[str, list[NeighbourDesign]]:
        """Return the designs of each answer, one for each edge epsilon."""
        features: dict[str, Any] = {"epsilon_x": self.epsilon_x, "sampled": self.sampled}
        return {
            answer: [NeighbourDesign.usual(answer, self.epsilon_y, total, **features) for total in self.edge_epsilons]
            for answer in ANSWERS
        }


def run_neighbour_curve(
    private: PrivateGraph,
    configuration: NeighbourConfiguration,
    folder: Path,
    *,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Simulate all answers at several edge epsilons; write everything into `folder`; return accuracies, JSON-ready.

    The floor is the own label without any neighbour, which is the largest class for a silent person. Veil and the
    control on the same label reports with the graph, if it were public, are above. Where features are asked, what own
    label and own features reach without any neighbour is beside them. Lists are simulated among at most 50,000 people,
    where at most a million pairs name each other.

    A run that was stopped continues from the cells that its folder holds.

    Args:
        private: the true records; its edges are the neighbour lists.
        configuration: the settings.
        folder: folder of the results. A folder of another run, or of other files, is refused.
        progress: called with the cell, the number of finished cells, and the number of all cells.
    """
    if configuration.epsilon_x is not None and not private.schema.num_features:
        raise RunError(f"{private.name} has no features: leave epsilon_x and sampled out")
    own = RunFolder(folder, run_identity(private, asdict(configuration)))
    groups = _cells(private, configuration)
    cells = [cell for group in groups.values() for cell in group]
    finished = (result for _, result in run_cells(private, cells, own, progress=progress))
    found = {key: summarize_seeds([next(finished) for _ in group]) for key, group in groups.items()}
    result = _summary(private, configuration, found)
    own.write("result.json", json.dumps(result, indent=2))
    return result


_Key = tuple[str, float | None]
"""An answer or a level, and the edge epsilon where it has one."""


def _cells(private: PrivateGraph, configuration: NeighbourConfiguration) -> dict[_Key, list[Cell]]:
    """Return the cells of all seeds, by answer or level and edge epsilon."""

    def group(method: str, neighbours: str, total: float | None = None, epsilon_x: float = 0.0) -> list[Cell]:
        labels = BEST_LABELS if KNOWLEDGE[neighbours].takes_sets else GRR_LABELS
        return [
            make_cell(
                dataset=private.name,
                method=method,
                epsilon_x=epsilon_x,
                epsilon_y=configuration.epsilon_y,
                sampled=configuration.sampled or 1,
                seed=seed,
                parameters={},
                label_mechanism=labels,
                neighbours=neighbours,
                edge_epsilon=total,
            )
            for seed in range(configuration.first_seed, configuration.first_seed + configuration.seeds)
        ]

    told, waves = configuration.epsilon_x or 0.0, "neighbour_waves"
    return {
        (FLOOR, None): group(waves, ALONE),
        **({(TOLD, None): group(waves, ALONE, epsilon_x=told)} if told else {}),
        (CONTROL, None): group("structure_only", PUBLIC),
        (CEILING, None): group("veil_labels", PUBLIC),
        **{
            (answer, total): group(waves, answer, total, told)
            for answer in IN_WAVES
            for total in configuration.edge_epsilons
        },
        **{
            (LIST, total): group("veil_equal" if told else "veil_labels", LIST, total, told)
            for total in configuration.edge_epsilons
            if _mutual_pairs(private, total) <= MAX_MUTUAL_PAIRS
        },
    }


def _mutual_pairs(private: PrivateGraph, total: float) -> float:
    """Return how many pairs name each other, roughly; infinity where there are too many people for lists."""
    people = private.graph.num_nodes
    if people > MOST_PEOPLE:
        return math.inf
    return private.graph.num_edges + people * RandomizedNeighbourList(people, total).false_neighbours / 2


def _summary(
    private: PrivateGraph, configuration: NeighbourConfiguration, found: Mapping[_Key, Mapping[str, Any]]
) -> dict[str, Any]:
    settings = {key: value for key, value in asdict(configuration).items() if key not in ("seeds", "first_seed")}
    first = configuration.first_seed
    return {
        "dataset": private.name,
        "nodes": private.graph.num_nodes,
        "edges": private.graph.num_edges,
        "classes": private.schema.num_classes,
        **settings,
        "edge_epsilons": list(configuration.edge_epsilons),
        "seeds": list(range(first, first + configuration.seeds)),
        "answers": {
            answer: [
                {
                    "edge_epsilon": total,
                    "design": design.title,
                    **found.get((answer, total), {"accuracy_mean": None}),
                    **_protected_and_spent(private, design),
                }
                for total, design in zip(configuration.edge_epsilons, designs, strict=True)
            ]
            for answer, designs in configuration.designs().items()
        },
        "levels": {level: found[level, None] for level in (FLOOR, TOLD, CONTROL, CEILING) if (level, None) in found},
    }


def _protected_and_spent(private: PrivateGraph, design: NeighbourDesign) -> dict[str, Any]:
    """Return the guarantee of a design, and what its lists cost; no guarantee where it cannot be collected.

    The user level is any two records with any two lists. It is computed from the design.
    """
    people, schema = private.graph.num_nodes, private.schema
    if design.answer == LIST and people > MOST_PEOPLE:
        reason = f"Not collected: there are {people:,} people, and lists are reported among at most {MOST_PEOPLE:,}."
        return {"guarantee": None, "guarantee_in_words": [reason]}
    guarantee = design.guarantee(schema.num_classes, people, schema.domain_sizes)
    costs = design.list_facts(people, mean_degree=2 * private.graph.num_edges / people)
    return {
        "epsilon_user_level": json_epsilon(guarantee.total_user_level),
        "guarantee": guarantee.as_dict(),
        "guarantee_in_words": guarantee.in_words(),
        **({} if costs is None else asdict(costs)),
    }
