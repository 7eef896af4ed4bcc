"""`veilgraph shard`: shards of a graph and of reports, which `train` and `predict` read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.support.collected import Collected
from tests.support.command_words import words_of
from veilgraph.campaign.assemble import reports_of
from veilgraph.cli import main
from veilgraph.collector.export import write_parquet
from veilgraph.deploy.shard_reports import perturbed_from_shards
from veilgraph.graph.shards import ShardFolder
from veilgraph.models import StructureOnly


@pytest.fixture(scope="module", params=[32, 0], ids=["features", "label sets"])
def collected(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Collected:
    return Collected(tmp_path_factory.mktemp("collected"), features=request.param)


def shard(collected: Collected, out: Path, **changes: object) -> int:
    options: dict[str, object] = {
        "graph": collected.folder / "edges.csv",
        "nodes": collected.folder / "nodes.csv",
        "campaign": collected.folder / "campaign.json",
        "store": collected.store,
        "parts": 3,
        "out": out,
        **changes,
    }
    return main(words_of("shard", **options))


def test_shards_hold_the_reports_of_a_store_and_of_its_export(collected: Collected, tmp_path: Path) -> None:
    assert shard(collected, tmp_path / "stored") == 0
    write_parquet(collected.campaign, reports_of(collected.perturbed, collected.campaign), tmp_path / "all.parquet")
    assert shard(collected, tmp_path / "exported", store=tmp_path / "all.parquet") == 0
    for name in ("stored", "exported"):
        folder = ShardFolder.open(tmp_path / name)
        graph = folder.graph()
        read, sent = perturbed_from_shards(collected.campaign, folder, graph), collected.perturbed
        place = np.array([sent.graph.names.index(name) for name in graph.names])
        for key in ("has_features", "has_label"):
            np.testing.assert_array_equal(getattr(read, key), getattr(sent, key)[place])
        np.testing.assert_array_equal(read.named_classes(), sent.named_classes()[place])
        np.testing.assert_array_equal(read.features[read.has_features], sent.features[place][read.has_features])


def test_a_model_of_shards_predicts_shards(
    collected: Collected, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shards, model = tmp_path / "shards", tmp_path / "model"
    assert shard(collected, shards) == 0
    campaign = collected.folder / "campaign.json"
    learned = {"campaign": campaign, "graph": shards, "out": model, "method": "structure_only"}
    assert collected.command("train", **learned) == 0
    for out in (tmp_path / "predicted", tmp_path / "predicted.parquet"):
        assert collected.command("predict", model=model, graph=shards, out=out) == 0
    table = pd.read_parquet(tmp_path / "predicted.parquet")
    parts = [pd.read_parquet(tmp_path / "predicted" / f"predictions-{part:05d}.parquet") for part in range(3)]
    pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), table)
    for part, written in enumerate(parts):
        assert written.id.tolist() == ShardFolder.open(shards).nodes(part).ids.to_pylist()
    manifest = json.loads((tmp_path / "predicted" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["predictions"] == len(table)
    kept = StructureOnly.load(model, device="cpu").predict_proba()
    np.testing.assert_allclose(table.probability, kept.max(axis=1), atol=1e-6)
    capsys.readouterr()
    (shards / "edges-00001.parquet").unlink()
    assert collected.command("train", **{**learned, "out": tmp_path / "other"}) == 2
    assert "edges-00001.parquet is missing" in capsys.readouterr().err


def test_what_does_not_belong_together_is_refused(
    collected: Collected, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shard(collected, tmp_path / "shards", parts=0) == 2
    assert "parts is 0" in capsys.readouterr().err
    edges = collected.folder / "edges.csv"
    assert main(["shard", "--graph", str(edges), "--out", str(tmp_path / "bare"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reports"] is None
    learned = {"campaign": collected.folder / "campaign.json", "out": tmp_path / "model"}
    assert collected.command("train", graph=tmp_path / "bare", **learned) == 2
    assert "error:" in capsys.readouterr().err
    assert collected.command("train", graph=edges, nodes=collected.folder / "nodes.csv", **learned) == 2
    assert "there are no reports: give the store" in capsys.readouterr().err
    assert shard(collected, tmp_path / "other", store=tmp_path / "nothing.parquet") == 2
    assert "nothing.parquet is not a readable table of reports" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_a_misspelled_folder_is_said_not_to_exist(
    collected: Collected, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learned = {"campaign": collected.folder / "campaign.json", "out": tmp_path / "model"}
    assert collected.command("train", graph=tmp_path / "nothere", **learned) == 2
    assert "nothere does not exist" in capsys.readouterr().err


def test_shards_of_another_graph_than_the_campaigns_are_not_written(
    collected: Collected, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (collected.folder / "edges.csv").read_text(encoding="utf-8").splitlines()
    (tmp_path / "fewer.csv").write_text("\n".join(lines[:-1]), encoding="utf-8")
    assert shard(collected, tmp_path / "shards", graph=tmp_path / "fewer.csv") == 2
    assert "fewer.csv (400 nodes) is not the campaign's: give the tables" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["fewer.csv"]


def test_reports_of_unknown_nodes_are_counted(
    collected: Collected, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = list(reports_of(collected.perturbed, collected.campaign))
    strangers = [replace(report, node=f"stranger {number}") for number, report in enumerate(sent[:3])]
    write_parquet(collected.campaign, [*sent, *strangers], tmp_path / "all.parquet")
    assert shard(collected, tmp_path / "shards", store=tmp_path / "all.parquet") == 0
    said = capsys.readouterr().out
    assert f"{len(sent)} reports" in said
    assert "Left out: 3 reports of nodes that the graph lacks." in said
    assert ShardFolder.open(tmp_path / "shards").manifest["dropped_reports"] == 3
