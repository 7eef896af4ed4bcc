"""Fits of Veil for which one process and several must give equal results; under torchrun, the leader writes them."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tests.support.partition import Partition
from veilgraph.datasets import csbm
from veilgraph.distributed.process_group import join_process_group
from veilgraph.experiments import simulate
from veilgraph.graph import PerturbedGraph, PublicAttributes, Split
from veilgraph.graph.attribute_kinds import Categories
from veilgraph.graph.encoded_attributes import EncodedColumn
from veilgraph.graph.partition import GraphPart
from veilgraph.graph.shards import ShardGraph
from veilgraph.models import LabelVeil, Veil
from veilgraph.models.veil.communities import community_log_posterior
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.reconstruct.operators import operators_of

NODES = 3000


@cache
def perturbed() -> PerturbedGraph:
    """Simulate a collection on a graph whose random draws come from counters of nodes, as on shards."""
    private, split = csbm(NODES, mean_degree=8, homophily=0.5, feature_signal=0.8, seed=0), Split.random(NODES, seed=0)
    drawn = simulate(
        private, PrivacyBudget(epsilon_x=2.0, epsilon_y=2.0, sampled=8), split, rng=np.random.default_rng(0)
    )
    graph = ShardGraph(num_nodes=NODES, edges=private.graph.edges, identity="a graph")
    return replace(drawn, graph=graph, public=known(private.labels))


def known(labels: NDArray[np.int64]) -> PublicAttributes:
    """Return public columns that say something about the class, encoded once as shards have them."""
    rng = np.random.default_rng(1)
    rows, village = rng.normal(size=(NODES, 150)), labels * (rng.random(NODES) < 0.3)
    rows[np.arange(NODES), labels] += 1
    columns = PublicAttributes.from_matrix(rows) + PublicAttributes((Categories.of("village", village.tolist()),))
    return PublicAttributes(tuple(EncodedColumn.of(each) for each in columns))


def part_of(whole: PerturbedGraph, rank: int, processes: int) -> PerturbedGraph:
    """Return the reports of one process's part."""
    part = Partition(whole.graph, processes)[rank]
    names = ("features", "labels", "has_features", "has_label")
    arrays: dict[str, Any] = {name: getattr(whole, name)[part.global_ids] for name in names}
    public = None if whole.public is None else whole.public.select(part.global_ids)
    return replace(whole, graph=part, public=public, **arrays)


def answers(reports: PerturbedGraph) -> dict[str, NDArray[Any]]:
    """Return what must not depend on the number of processes, for the nodes of this process, [nodes, ...]."""
    device = torch.device("cpu")
    operators, labels = operators_of(reports.graph, device), CrossFitting.random(reports, seed=0)
    communities = community_log_posterior(labels, operators, max_edges=0)
    half = np.arange(len(reports.has_label)) % 2 == 0  # folds of the reports replace the split
    split = Split(train=half, validation=~half, test=np.zeros_like(half))
    with_public = LabelVeil(device="cpu").fit(reports, split)
    assert with_public.public_ == ("x", "village")
    fitted = Veil(device="cpu").fit(replace(reports, public=None), split)
    assert fitted.feature_pool_ is not None  # otherwise features would not be tested
    return {
        "eigenvectors": operators.decompositions.eigenvectors(64).numpy(),
        "communities": communities.exp().numpy(),
        "probabilities": fitted.predict_proba(),
        "predicted": fitted.predict_proba(reports),
        "sets": fitted.predict_sets(0.8),
        "public": with_public.predict_proba(),
        "public predicted": with_public.predict_proba(reports),
    }


def main(out: Path) -> None:
    """Compute the answers, in all processes together."""
    with join_process_group(torch.device("cpu")) as processes:
        reports = part_of(perturbed(), processes.rank, processes.world_size)
        assert isinstance(reports.graph, GraphPart)
        everyone = processes.gather((reports.graph.global_ids, answers(reports)))
        if processes.is_leader:
            order = np.argsort(np.concatenate([numbers for numbers, _ in everyone]))
            joined: dict[str, Any] = {
                name: np.concatenate([found[name] for _, found in everyone])[order] for name in everyone[0][1]
            }
            np.savez(out, **joined)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
