"""Training and prediction on shards, in one process; tests/cli/test_torchrun_shards.py has four."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.support.trained import train_files
from veilgraph.datasets.csbm_blocks import CsbmBlocks
from veilgraph.deploy import Model, predict_shards
from veilgraph.deploy.prediction import certain_answers, predict_nodes, write_prediction_shards
from veilgraph.errors import FitError, RunError
from veilgraph.experiments.shard_simulation import write_simulated_shards
from veilgraph.graph.arrow import arrow
from veilgraph.graph.shards import read_graph
from veilgraph.models import RGNN, Veil
from veilgraph.privacy.budget import PrivacyBudget

SHARED = {"max_kept_nodes": 0}
"""As on a graph that is too large for one process to keep its reports."""


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards") / "simulated"
    blocks = CsbmBlocks(num_nodes=300, num_features=6, blocks=3)
    write_simulated_shards(folder, blocks, PrivacyBudget(2.0, 2.0, 3))
    return folder


def predictions(folder: Path) -> pd.DataFrame:
    return pd.concat([pd.read_parquet(folder / f"predictions-{part:05d}.parquet") for part in range(3)])


@pytest.mark.parametrize("method", ["rgnn", "structure_only", "veil_labels", "veil"])
def test_the_model_of_shards_has_the_weights_and_answers_of_the_whole_graph(
    shards: Path, tmp_path: Path, method: str
) -> None:
    options: dict[str, Any] = {"method": method, "hold_out": 0.2, "device": "cpu"} | (
        {"epochs": 5} if method == "rgnn" else {}
    )
    campaign = shards / "campaign.json"
    trained = train_files(None, campaign, shards, out=tmp_path / "shards", **options, **SHARED)
    whole = train_files(None, campaign, shards, out=tmp_path / "whole", card=False, **options)
    same = trained.facts.keys() & whole.facts.keys() - {"screening", "plausibility"}
    assert {"estimated_accuracy", "train", "nodes"} <= same
    assert {key: trained.facts[key] for key in same} == {key: whole.facts[key] for key in same}
    if isinstance(whole.method, RGNN):
        weights = RGNN.load(tmp_path / "shards", device="cpu").weights_
        assert all(np.array_equal(weights[name], each) for name, each in whole.method.weights_.items())
    found = predict_shards(tmp_path / "shards", shards, tmp_path / "predicted", device="cpu")
    assert found is not None
    kept = whole.method.predict_proba()
    answers = predictions(tmp_path / "predicted").filter(like="probability_").to_numpy(dtype=np.float64)
    np.testing.assert_allclose(answers, kept, atol=1e-6)
    sets = whole.method.predict_sets(0.9) if isinstance(whole.method, Veil) else None
    assert found[1].certain == int(certain_answers(kept, sets, 0.8).sum())
    if sets is not None:
        assert found[1].set_sizes is not None
        assert found[1].set_sizes == np.bincount(sets.sum(axis=1), minlength=sets.shape[1] + 1).tolist()
        assert predictions(tmp_path / "predicted")["set"].map(len).tolist() == sets.sum(axis=1).tolist()
    else:
        assert found[1].set_sizes is None


def test_predictions_join_the_nodes_of_their_shard_on_the_id(shards: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"method": "structure_only", "device": "cpu"}
    train_files(None, shards / "campaign.json", shards, out=tmp_path / "model", **options, **SHARED)
    predict_shards(tmp_path / "model", shards, tmp_path / "processes", device="cpu")
    whole = train_files(None, shards / "campaign.json", shards, out=tmp_path / "whole", card=False, **options)
    write_prediction_shards(predict_nodes(whole, read_graph(shards)), shards, tmp_path / "one")
    for folder in (tmp_path / "processes", tmp_path / "one"):
        for part in range(3):
            nodes = arrow("parquet").read_table(shards / f"nodes-{part:05d}.parquet")
            table = arrow("parquet").read_table(folder / f"predictions-{part:05d}.parquet")
            assert table.column("id").equals(nodes.column("id")), "the same type, values and order"
            read = pd.read_parquet(folder / f"predictions-{part:05d}.parquet")
            assert len(nodes.to_pandas().merge(read, on="id")) == len(nodes) > 0


def test_a_model_of_shards_keeps_no_report_and_no_probability(shards: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"method": "rgnn", "epochs": 2, "device": "cpu", **SHARED}
    train_files(None, shards / "campaign.json", shards, out=tmp_path / "model", **options)
    model = Model.load(tmp_path / "model", device="cpu")
    assert list(model.reports()) == []
    assert model.method.predict_proba().shape == (0, 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "majority"}, "the method 'majority' needs the whole graph in one process"),
        ({"method": "rgnn", "backbone": "gta"}, "backbone is 'gta': choose gat, gcn, sage"),
        ({"method": "rgnn", "hold_out": 1.0}, "hold_out is 1.0"),
    ],
)
def test_what_several_processes_cannot_do_is_refused(
    shards: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(FitError, match=message):
        train_files(None, shards / "campaign.json", shards, out=tmp_path / "model", **options, **SHARED)


def test_one_process_keeps_no_reports_of_a_large_graph(shards: Path, tmp_path: Path) -> None:
    campaign, out = shards / "campaign.json", tmp_path / "model"
    options: dict[str, Any] = {"method": "structure_only", "device": "cpu"}
    trained = train_files(None, campaign, shards, out=out, max_kept_nodes=299, **options)
    assert trained.facts["processes"] == 1
    assert list(trained.report_lines()) == []
    with pytest.raises(RunError, match="one process that holds all reports"):
        train_files(None, campaign, shards, out=out, max_kept_nodes=299, screened=True, **options)
    kept = train_files(None, campaign, shards, out=tmp_path / "kept", max_kept_nodes=300, **options)
    assert 0 < len(list(kept.report_lines())) < 300, "three quarters report a label, and the control reads no features"
