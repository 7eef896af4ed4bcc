"""A series of rounds in a store, with the files that `veilgraph train` reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from tests.support.campaigns import NONCE
from tests.support.collection import CLOSES
from veilgraph.campaign import Campaign, Report
from veilgraph.campaign.budget import CampaignBudget
from veilgraph.campaign.notice import Notice
from veilgraph.collector.store import ReportStore
from veilgraph.datasets import csbm
from veilgraph.graph import Graph
from veilgraph.privacy.budget import RoundBudget
from veilgraph.privacy.mechanisms import NOT_ASKED, LongitudinalFeatures, RoundEvidence
from veilgraph.privacy.mechanisms.round_evidence import NO_REPORT
from veilgraph.privacy.schema import FeatureSchema

NODES, ROUNDS = 300, 6


class RoundSeries:
    """Reports of six rounds in a store; a third of the people leave every second round out, some send nothing.

    With features, one person in seven leaves the label out in the first round.
    """

    def __init__(self, folder: Path, *, features: bool) -> None:
        made = csbm(NODES, num_features=12, num_classes=4, seed=0)
        self.names = [f"u{i}" for i in range(NODES)]
        self.graph = Graph.from_edges(made.graph.edges, NODES, node_ids=self.names)
        self.campaign = Campaign.new(
            schema=made.schema if features else FeatureSchema(classes=made.schema.classes),
            graph=self.graph,
            notice=Notice(purpose="p", contact="c", closes=CLOSES),
            budget=CampaignBudget(
                epsilon_x=2.0 if features else None,
                sampled=5 if features else None,
                epsilon_y=3.0,
                rounds=RoundBudget(rounds=ROUNDS, round_epsilon=1.0),
            ),
            nonce=NONCE,
        )
        series, asked = self.campaign.label_mechanism, self.campaign.feature_mechanism
        assert isinstance(series, RoundEvidence)
        rng = np.random.default_rng(0)
        self.codes = series.randomize(np.repeat(made.labels[:, None], ROUNDS, axis=1), rng=rng).astype(np.int64)
        sent = np.ones((NODES, ROUNDS), dtype=np.bool_)
        sent[::3, ::2] = sent[::5] = False
        self.codes[~sent] = NO_REPORT
        self.columns = np.full((NODES, ROUNDS, made.schema.num_features), NOT_ASKED)
        if isinstance(asked, LongitudinalFeatures):
            self.codes[::7, 0] = NO_REPORT
            drawn = asked.randomize(np.tile(made.features, ROUNDS), rng=rng).reshape(self.columns.shape)
            self.columns[sent] = drawn[sent]
        self.reports = [
            Report(
                campaign=self.campaign.id,
                node=self.names[node],
                features=tuple(None if code == NOT_ASKED else code for code in self.columns[node, number].tolist())
                if features
                else None,
                label=None if self.codes[node, number] == NO_REPORT else int(self.codes[node, number]),
                number=number + 1,
            )
            for number in range(ROUNDS)
            for node in np.flatnonzero(sent[:, number]).tolist()
        ]
        self.store = f"sqlite:///{folder}/reports.db"
        store = ReportStore.open(self.store)
        store.reports.put(self.reports, now=0)
        store.close()
        (folder / "campaign.json").write_text(self.campaign.to_json(), encoding="utf-8")
        pd.DataFrame({"id": self.names}).to_csv(folder / "nodes.csv", index=False)
        pd.DataFrame(np.array(self.names)[self.graph.edges.T], columns=["a", "b"]).to_csv(
            folder / "edges.csv", index=False
        )
        self.folder = folder
