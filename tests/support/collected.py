"""A finished collection: reports in a store, and the files that `veilgraph train` reads."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.support.campaigns import NONCE
from tests.support.collection import CLOSES
from tests.support.command_words import words_of
from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import reports_of
from veilgraph.campaign.budget import CampaignBudget
from veilgraph.campaign.notice import Notice
from veilgraph.cli import main
from veilgraph.collector.store import ReportStore
from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.experiments import simulate
from veilgraph.experiments.simulation import randomize_labels, simulated_collection
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import JointGRR, SubsetSelection
from veilgraph.privacy.schema import FeatureSchema

NODES = 400
BUDGET = PrivacyBudget(epsilon_x=2.0, epsilon_y=2.0, sampled=8)


class Collected:
    """A simulated collection whose reports are also in a store, with the files that the commands read.

    Args:
        folder: folder of the files.
        features: number of binary features; 0 collects the label alone, by sets of the eight classes.
        joint: collect the features by joint GRR instead of GRR-FS.
    """

    def __init__(self, folder: Path, *, features: int = 32, joint: bool = False) -> None:
        made = csbm(NODES, num_features=max(features, 1), num_classes=4 if features else 8, seed=0)
        names = [f"u{i}" for i in range(NODES)]
        graph = Graph.from_edges(made.graph.edges, NODES, node_ids=names)
        self.private = made if features else without_features(made)
        self.folder = folder
        self.campaign = Campaign.new(
            schema=self.private.schema,
            graph=graph,
            notice=Notice(purpose="p", contact="c", closes=CLOSES),
            budget=CampaignBudget(
                epsilon_x=2.0 if features else None, sampled=8 if features else None, epsilon_y=2.0 if features else 1.0
            ),
            nonce=NONCE,
        )
        split = Split.random(NODES, seed=0)
        if joint:
            sizes = self.private.schema.domain_sizes
            self.campaign = replace(
                self.campaign,
                asked=replace(self.campaign.asked, feature_mechanism=JointGRR(sizes, sampled=3, epsilon=1.0)),
            )
        if features:
            mechanism = self.campaign.feature_mechanism
            assert mechanism is not None
            rng = np.random.default_rng(0)
            drawn = simulate(self.private, BUDGET, split, rng=rng, features=lambda *_: mechanism)
        else:
            sets = self.campaign.label_mechanism
            assert isinstance(sets, SubsetSelection)
            labels = randomize_labels(self.private, sets, split, rng=np.random.default_rng(0))
            drawn = simulated_collection(self.private, split, sets, labels)
        # Some send no features, some nothing at all.
        silent = np.random.default_rng(1).random(NODES) < 0.1
        self.perturbed: PerturbedGraph = replace(
            drawn,
            graph=graph,
            has_features=drawn.has_features & ~silent,
            has_label=drawn.has_label & (np.arange(NODES) % 7 > 0),
        )
        self.store = f"sqlite:///{folder}/reports.db"
        store = ReportStore.open(self.store)
        store.reports.put(list(reports_of(self.perturbed, self.campaign)), now=0)
        store.close()
        (folder / "campaign.json").write_text(self.campaign.to_json(), encoding="utf-8")
        # The node table keeps the order of the simulation.
        pd.DataFrame({"id": names}).to_csv(folder / "nodes.csv", index=False)
        pd.DataFrame(np.array(names)[graph.edges.T], columns=["a", "b"]).to_csv(folder / "edges.csv", index=False)

    @cached_property
    def backwards(self) -> str:
        """A store of the same reports, which were put in small parts from the last to the first."""
        address = f"sqlite:///{self.folder}/backwards.db"
        store = ReportStore.open(address)
        reports = list(reports_of(self.perturbed, self.campaign))
        for end in range(len(reports), 0, -20):
            store.reports.put(reports[max(end - 20, 0) : end], now=0)
        store.close()
        return address

    def files(self) -> dict[str, Any]:
        """Return the files that `train_files` reads."""
        names = {"campaign": "campaign.json", "graph": "edges.csv", "nodes": "nodes.csv"}
        return {key: self.folder / name for key, name in names.items()}

    def command(self, verb: str, **options: object) -> int:
        return main(words_of(verb, device="cpu", **options))

    def train(self, **options: object) -> int:
        given = {"out": self.folder / "model", "method": "rgnn", "epochs": 15, **self.files(), **options}
        return self.command("train", store=self.store, **given)


def without_features(private: PrivateGraph) -> PrivateGraph:
    """Return the same people with their labels alone."""
    schema = FeatureSchema(classes=private.schema.classes)
    return replace(private, schema=schema, features=np.zeros((NODES, 0), dtype=schema.code_dtype))
