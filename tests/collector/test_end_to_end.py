"""Devices, HTTP, collector, store and training give the same model as the same reports in memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from benchmarks.performance.collecting import Server

from tests.support.collection import CLOSES, Collection
from veilgraph.campaign import Campaign
from veilgraph.campaign.budget import CampaignBudget
from veilgraph.campaign.notice import Notice
from veilgraph.cli import main
from veilgraph.client import answer, send
from veilgraph.datasets import csbm
from veilgraph.deploy import Model
from veilgraph.evaluation import accuracy
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.models import RGNN

pytestmark = pytest.mark.slow

CLIENTS = 2000


def test_thousands_of_clients_a_store_and_a_model_equal_to_the_one_in_memory(store_url: str, tmp_path: Path) -> None:
    private = csbm(CLIENTS, num_features=8, seed=0)
    graph = Graph.from_edges(private.graph.edges, CLIENTS, node_ids=[f"u{i}" for i in range(CLIENTS)])
    campaign = Campaign.new(
        schema=private.schema,
        graph=graph,
        notice=Notice(purpose="p", contact="c", closes=CLOSES),
        budget=CampaignBudget(epsilon_x=1.0, sampled=4, epsilon_y=1.0),
    )
    collection = Collection(campaign=campaign, graph=graph)
    options = collection.write(tmp_path)
    text, columns, classes = campaign.to_json(), private.schema.feature_names, private.schema.classes

    with Server([*options, "--store", store_url], log=tmp_path / "log") as collector:

        def participate(i: int) -> dict[str, object]:
            record = dict(zip(columns, private.features[i].tolist(), strict=True))
            record["label"] = None if i % 5 == 0 else classes[private.labels[i]]
            report = answer(text, record, node=f"u{i}", store=tmp_path / "devices" / f"u{i}", max_epsilon=5.0)
            assert send(collector.url, report, collection.token(f"u{i}"))
            return report

        with ThreadPoolExecutor(16) as threads:
            reports = list(threads.map(participate, range(CLIENTS)))
        assert collector.stop() == 0

    has_label = np.array([report["label"] is not None for report in reports])
    simulated = PerturbedGraph(
        graph=graph,
        schema=private.schema,
        features=np.array([report["features"] for report in reports], dtype=np.uint8),
        labels=np.array([report["label"] or 0 for report in reports], dtype=np.int64),
        has_features=np.ones(CLIENTS, dtype=np.bool_),
        has_label=has_label,
        feature_mechanism=campaign.feature_mechanism,
        label_mechanism=campaign.label_mechanism,  # type: ignore[arg-type]
    )
    split = Split.random(CLIENTS, seed=0, train=2 / 3, validation=1 / 3, eligible=has_label)
    in_memory = RGNN(feature_hops=4, label_hops=2, epochs=5, device="cpu").fit(simulated, split)

    words = [
        tmp_path / "campaign.json",
        "--graph",
        tmp_path / "edges.csv",
        "--nodes",
        tmp_path / "nodes.csv",
    ]
    words += ["--store", store_url, "--out", tmp_path / "model", "--method", "rgnn"]
    words += ["--set=epochs=5", "--set=feature_hops=4", "--set=label_hops=2"]
    assert main(["train", "--device", "cpu", *map(str, words)]) == 0
    from_store = Model.load(tmp_path / "model", device="cpu").method
    np.testing.assert_array_equal(from_store.predict_proba(), in_memory.predict_proba())
    silent = ~has_label
    assert accuracy(from_store.predict(), private, silent) == accuracy(in_memory.predict(), private, silent)
