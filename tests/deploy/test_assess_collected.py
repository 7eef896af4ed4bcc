"""A collection is assessed from its reports alone, by what predictions did not use."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.collected import Collected
from veilgraph.campaign.assessment import Assessment
from veilgraph.cli import main
from veilgraph.deploy import TrainingOptions, open_source
from veilgraph.deploy.assess_collected import assess_collection

NOW = datetime(2027, 1, 31, tzinfo=UTC)


def test_accuracy_control_and_gain_have_intervals_and_something_was_learned(collected: Collected) -> None:
    source = open_source(collected.campaign, collected.perturbed.graph, store=collected.store)
    found = assess_collection(source, TrainingOptions(device="cpu"), now=NOW)
    assert (found.campaign, found.method) == (collected.campaign.id, "veil")
    assert found.label_reports == int(collected.perturbed.has_label.sum())
    assert found.accuracy is not None
    assert found.control is not None
    assert found.second_half is not None
    assert found.next_hundred is not None
    for each in (found.accuracy, found.control, found.second_half, found.floor, found.features):
        assert each is not None
        assert each.value is not None
        assert each.low <= each.value <= each.high
    # Four classes of equal size: a model that learned nothing has 0.25.
    assert found.accuracy.low > 0.25


def test_the_command_says_and_writes_what_the_dashboard_shows(
    collected: Collected, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "a.json"
    out.write_text("of an earlier run")
    files = [str(collected.folder / "campaign.json"), "--graph", str(collected.folder / "edges.csv")]
    options = ["--nodes", str(collected.folder / "nodes.csv"), "--store", collected.store, "--set", "device=cpu"]
    assert main(["status", *files, *options, "--out", str(out), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["assessment"]
    found = Assessment.read(out, collected.campaign.id)
    assert found is not None
    assert printed["verdict"] == found.verdict
    assert printed["sentences"] == found.sentences
    assert len(found.sentences) == 7
    assert list(found.shares) == list(collected.campaign.schema.classes)
    assert all(f"'{name}' {share.text}" in "".join(found.sentences) for name, share in found.shares.items())
    assert found.sentences[3:5] == found.worth
