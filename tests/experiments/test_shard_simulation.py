"""Simulated shards hold randomized reports of a campaign, the same for any number of processes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from veilgraph.campaign import Campaign
from veilgraph.datasets.csbm_blocks import CsbmBlocks
from veilgraph.deploy.shard_reports import perturbed_from_shards
from veilgraph.experiments.shard_simulation import write_simulated_shards
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import SubsetSelection


@pytest.mark.parametrize(
    ("features", "classes", "budget"),
    [(5, 4, PrivacyBudget(1.0, 2.0, 3)), (0, 8, PrivacyBudget(epsilon_y=1.0))],
    ids=["features", "label sets"],
)
def test_reports_are_those_that_the_mechanisms_would_send(
    tmp_path: Path, features: int, classes: int, budget: PrivacyBudget
) -> None:
    blocks = CsbmBlocks(num_nodes=2000, num_classes=classes, num_features=features, blocks=3)
    folder = write_simulated_shards(tmp_path / "shards", blocks, budget, label_share=0.5)
    campaign = Campaign.from_json((folder.path / "campaign.json").read_bytes())
    read = perturbed_from_shards(campaign, folder, folder.graph())
    assert isinstance(campaign.label_mechanism, SubsetSelection) == (features == 0)
    assert read.graph.num_edges == blocks.num_edges
    np.testing.assert_array_equal([int(name) for name in read.graph.names], blocks.ids(np.arange(2000)))
    assert abs(read.has_label.mean() - 0.5) < 5 * 0.5 / np.sqrt(2000)
    true = blocks.labels(np.arange(2000))[read.has_label]
    named = read.named_classes()[read.has_label]
    keep = float(read.label_mechanism.channel.keep)
    error = 5 * np.sqrt(keep * (1 - keep) / len(true))
    assert abs(named[np.arange(len(true)), true].mean() - keep) < error
    assert read.has_features.all() == (features > 0)
