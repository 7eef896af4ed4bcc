"""A source is found from the files that are given, and says what it cannot do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.collected import Collected
from veilgraph.deploy import GivenReports, ShardSource, StoreSource, TrainingOptions, open_source, train
from veilgraph.distributed.process_group import ProcessGroup
from veilgraph.errors import FitError, GraphError, RunError
from veilgraph.graph.shard_writer import write_shards
from veilgraph.graph.shards import read_graph

TWO = ProcessGroup(rank=0, world_size=2)


@pytest.fixture(scope="module")
def shards(collected: Collected) -> Path:
    folder = collected.folder / "shards"
    write_shards(folder, collected.folder / "edges.csv", parts=3, nodes=collected.folder / "nodes.csv")
    return folder


def test_the_source_follows_from_what_is_given(collected: Collected, shards: Path) -> None:
    campaign, edges = collected.folder / "campaign.json", collected.folder / "edges.csv"
    stored = open_source(campaign, edges, store=collected.store, nodes=collected.folder / "nodes.csv")
    assert isinstance(stored, StoreSource)
    assert isinstance(open_source(collected.campaign, shards), ShardSource)
    np.testing.assert_array_equal(stored.read().perturbed.has_label, collected.perturbed.has_label)


def test_files_without_reports_are_refused(collected: Collected, shards: Path, tmp_path: Path) -> None:
    campaign = collected.folder / "campaign.json"
    with pytest.raises(RunError, match="there are no reports: give the store"):
        open_source(campaign, collected.folder / "edges.csv")
    with pytest.raises(GraphError, match="nothere does not exist"):  # a misspelled folder of shards
        open_source(campaign, tmp_path / "nothere")
    with pytest.raises(GraphError, match="holds no reports"):
        train(open_source(campaign, shards), TrainingOptions(device="cpu"), out=tmp_path / "model")


def test_what_several_processes_cannot_share_is_refused(collected: Collected, shards: Path, tmp_path: Path) -> None:
    out, campaign = tmp_path / "model", collected.campaign
    refused = {
        "leave the store out": StoreSource(campaign=campaign, store=collected.store, table=shards),
        "give its path": StoreSource(campaign=campaign, store=collected.store, table=read_graph(shards)),
        "one process that holds all of them": GivenReports(campaign=campaign, perturbed=collected.perturbed),
    }
    for message, source in refused.items():
        with pytest.raises(RunError, match=message):
            train(source, TrainingOptions(device="cpu"), out=out, processes=TWO)
    given = ShardSource(campaign=campaign, path=shards)
    for options, message in (({"screened": True}, "screening"), ({"plausible": Path("p.toml")}, "plausible")):
        with pytest.raises(RunError, match=f"{message} needs one process that holds all reports"):
            train(given, TrainingOptions(device="cpu", **options), out=out, processes=TWO)
    with pytest.raises(RunError, match="give out"):
        train(given, TrainingOptions(device="cpu"), processes=TWO)
    assert not out.exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [({"hold_out": 1.0}, "hold_out is 1.0"), ({"hold_out": -0.1}, "hold_out"), ({"device": "tpu"}, "device is 'tpu'")],
)
def test_options_check_themselves(given: dict[str, Any], message: str) -> None:
    with pytest.raises((FitError, RunError), match=message):
        TrainingOptions(**given)
