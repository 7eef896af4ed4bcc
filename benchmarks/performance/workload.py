"""Data of the stages: the paper's largest graph, or a block model of its size."""

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

EPSILON_X, SAMPLED = 1.0, 10
BUDGET = PrivacyBudget(epsilon_x=EPSILON_X, epsilon_y=1.0, sampled=SAMPLED)


@dataclass(frozen=True, kw_only=True, eq=False)
class Workload:
    """A data set with one draw of reports.

    Attributes:
        private: the data set.
        split: split of its nodes.
        perturbed: its reports.
        stands_for: name of the data set that a block model replaces, or "".
    """

    private: PrivateGraph
    split: Split
    perturbed: PerturbedGraph
    stands_for: str = ""

    @classmethod
    def of(cls, private: PrivateGraph, *, stands_for: str = "") -> Workload:
        """Draw a split and reports from seed 0."""
        split = Split.random(private.graph.num_nodes, seed=0, eligible=private.labels != NO_LABEL)
        perturbed = simulate(private, BUDGET, split, rng=np.random.default_rng(0))
        return cls(private=private, split=split, perturbed=perturbed, stands_for=stands_for)

    @property
    def graph(self) -> Graph:
        """The public graph."""
        return self.private.graph

    @property
    def sizes(self) -> Sizes:
        """Sizes for lower bounds. Features of all measured data sets are binary."""
        return Sizes(
            nodes=self.graph.num_nodes,
            edges=self.graph.num_edges,
            columns=self.private.schema.num_features,
            classes=self.private.schema.num_classes,
            hidden=HIDDEN,
        )

    def unseen(self) -> PrivateGraph:
        """Return the data set as a new object, so that no cache knows it."""
        return replace(self.private, graph=replace(self.private.graph))

    def in_words(self) -> str:
        """Return a description for people."""
        source = f"a block model of the size of {self.stands_for}" if self.stands_for else self.private.name
        return (
            f"{source}: {self.graph.num_nodes:,} nodes, {self.graph.num_edges:,} edges, "
            f"{self.private.schema.num_features} binary features, {self.private.schema.num_classes} classes"
        )


def largest(data_dir: Path | None = None) -> Workload:
    """Return Facebook, or a block model of its size if the data set is not on this machine."""
    try:
        return Workload.of(load("facebook", data_dir))
    except RunError:  # it was never fetched
        nodes, edges = 22_470, 170_823
        private = csbm(nodes, mean_degree=2 * edges / nodes, num_features=48, num_classes=4)
        return Workload.of(private, stands_for="Facebook")
