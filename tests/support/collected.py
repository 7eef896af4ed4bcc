"""A finished collection: reports in a store, and the files that `veilgraph train` reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from tests.support.collection import CLOSES
from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import reports_of
from veilgraph.cli import main
from veilgraph.collector.store import ReportStore
from veilgraph.datasets import csbm
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.privacy.budget import PrivacyBudget

NODES = 400
BUDGET = PrivacyBudget(epsilon_x=2.0, epsilon_y=2.0, sampled=8)


class Collected:
    """A simulated collection whose reports are also in a store, with the files that the commands read."""

    def __init__(self, folder: Path, *, features: int = 32) -> None:
        private = csbm(NODES, num_features=features, seed=0)
        names = [f"u{i}" for i in range(NODES)]
        graph = Graph.from_edges(private.graph.edges, NODES, node_ids=names)
        self.private, self.folder = private, folder
        drawn = simulate(private, BUDGET, Split.random(NODES, seed=0), rng=np.random.default_rng(0))
        # Some send no features, some nothing at all.
        silent = np.random.default_rng(1).random(NODES) < 0.1
        self.perturbed: PerturbedGraph = replace(
            drawn, graph=graph, has_features=~silent, has_label=drawn.has_label & (np.arange(NODES) % 7 > 0)
        )
        self.campaign = Campaign.new(
            schema=private.schema,
            graph=graph,
            purpose="p",
            contact="c",
            closes=CLOSES,
            epsilon_x=2.0,
            sampled=8,
            epsilon_y=2.0,
        )
        self.store = f"sqlite:///{folder}/reports.db"
        store = ReportStore.open(self.store)
        store.put(list(reports_of(self.perturbed, self.campaign)), now=0)
        store.close()
        (folder / "campaign.json").write_text(self.campaign.to_json(), encoding="utf-8")
        # The node table keeps the order of the simulation.
        pd.DataFrame({"id": names}).to_csv(folder / "nodes.csv", index=False)
        pd.DataFrame(np.array(names)[graph.edges.T], columns=["a", "b"]).to_csv(folder / "edges.csv", index=False)

    def command(self, verb: str, **options: object) -> int:
        words = [str(word) for key, value in options.items() for word in (f"--{key.replace('_', '-')}", value)]
        return main([verb, "--device", "cpu", *words])

    def train(self, **options: object) -> int:
        files = {"campaign": self.folder / "campaign.json", "graph": self.folder / "edges.csv"}
        files["nodes"] = self.folder / "nodes.csv"
        given = {"out": self.folder / "model", "method": "rgnn", "epochs": 15, **files, **options}
        return self.command("train", store=self.store, **given)
