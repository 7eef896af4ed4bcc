"""Veil with features on shards: two processes answer as one where the likelihood of the reports hardly decides."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.support.torchrun import forked
from veilgraph.cli import main
from veilgraph.datasets.csbm_blocks import CsbmBlocks
from veilgraph.experiments.shard_simulation import write_simulated_shards
from veilgraph.models import Veil
from veilgraph.privacy.budget import PrivacyBudget

pytestmark = pytest.mark.slow

PARTS = 5


def answers(model: Path, shards: Path, out: Path) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    assert main(["predict", "--device", "cpu", "--model", str(model), "--graph", str(shards), "--out", str(out)]) == 0
    table = pd.concat([pd.read_parquet(out / f"predictions-{part:05d}.parquet") for part in range(PARTS)])
    return table.filter(like="probability_").to_numpy(dtype=np.float64)


def test_two_processes_fit_the_pools_of_one(tmp_path: Path) -> None:
    """In 32 bits, the last Newton step of this pool was taken in one process and not in two: 4e-5 apart."""
    shards, alone, together = tmp_path / "shards", tmp_path / "alone", tmp_path / "together"
    blocks = CsbmBlocks(
        num_nodes=3000, num_classes=5, mean_degree=8, homophily=0.5, num_features=8, blocks=PARTS, seed=2
    )
    write_simulated_shards(shards, blocks, PrivacyBudget(epsilon_x=1.0, epsilon_y=1.0, sampled=4))
    words = ["train", "--device", "cpu", "--graph", str(shards), str(shards / "campaign.json")]
    assert main([*words, "--out", str(alone)]) == 0
    started = forked(2, "veilgraph", *words, "--out", together)
    said, _ = started.communicate(timeout=240)
    assert started.returncode == 0, said

    one, two = Veil.load(alone, device="cpu").feature_pool_, Veil.load(together, device="cpu").feature_pool_
    assert one is not None  # otherwise features would not be tested
    assert two is not None
    np.testing.assert_allclose(two.weights, one.weights, rtol=0, atol=5e-6)
    np.testing.assert_allclose(two.bias, one.bias, rtol=0, atol=5e-6)
    found, expected = (answers(model, shards, tmp_path / f"{model.name} answers") for model in (together, alone))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
