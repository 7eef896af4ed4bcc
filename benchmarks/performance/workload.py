"""What the stages are measured on: the paper's largest graph where it is at hand, otherwise one of its size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.performance.floors import Sizes
from veilgraph.datasets import PrivateGraph, csbm, load
from veilgraph.errors import RunError
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.models.engine.backbones import HIDDEN
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.schema import NO_LABEL

BUDGET = PrivacyBudget(epsilon_x=1.0, epsilon_y=1.0, sampled=10)


@dataclass(frozen=True, kw_only=True, eq=False)
class Workload:
    """A data set with one draw of reports.

    Attributes:
        private: the data set.
        split: of its nodes.
        perturbed: its reports.
        stands_for: the data set that a block model stands for, or "".
    """

    private: PrivateGraph
    split: Split
    perturbed: PerturbedGraph
    stands_for: str = ""

    @classmethod
    def of(cls, private: PrivateGraph, *, stands_for: str = "") -> Workload:
        """With a split and reports drawn from seed 0."""
        split = Split.random(private.graph.num_nodes, seed=0, eligible=private.labels != NO_LABEL)
        perturbed = simulate(private, BUDGET, split, rng=np.random.default_rng(0))
        return cls(private=private, split=split, perturbed=perturbed, stands_for=stands_for)

    @property
    def graph(self) -> Graph:
        """The public graph."""
        return self.private.graph

    @property
    def sizes(self) -> Sizes:
        """What floors are computed from; features are binary in all data sets that are measured."""
        return Sizes(
            nodes=self.graph.num_nodes,
            edges=self.graph.num_edges,
            columns=self.private.schema.num_features,
            classes=self.private.schema.num_classes,
            hidden=HIDDEN,
        )

    def unseen(self) -> PrivateGraph:
        """The same data set as a new object: nothing that is kept between fits knows it."""
        return replace(self.private, graph=replace(self.private.graph))

    def in_words(self) -> str:
        """For a person."""
        source = f"a block model of the size of {self.stands_for}" if self.stands_for else self.private.name
        return (
            f"{source}: {self.graph.num_nodes:,} nodes, {self.graph.num_edges:,} edges, "
            f"{self.private.schema.num_features} binary features, {self.private.schema.num_classes} classes"
        )


def largest(data_dir: Path | None = None) -> Workload:
    """Facebook, or without the data folder a block model of its size."""
    try:
        return Workload.of(load("facebook", data_dir))
    except RunError:  # it was never fetched
        nodes, edges = 22_470, 170_823
        private = csbm(nodes, mean_degree=2 * edges / nodes, num_features=48, num_classes=4)
        return Workload.of(private, stands_for="Facebook")
