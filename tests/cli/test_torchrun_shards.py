"""`veilgraph train` and `predict` on shards under torchrun: the answers of one process, from the share of each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.test_torchrun import PATIENCE, epochs_done, kill_after_checkpoint, process_of
from tests.support.collected import Collected
from tests.support.command_words import words_of
from tests.support.torchrun import forked
from veilgraph.cli import main

pytestmark = pytest.mark.slow

EPOCHS = 40
PARTS = 7


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Collected:
    collected = Collected(tmp_path_factory.mktemp("collected"))
    written = words_of(
        "shard", **collected.files(), store=collected.store, out=collected.folder / "shards", parts=PARTS
    )
    assert main(written) == 0
    return collected


def together(*command: str) -> str:
    started = forked(4, "veilgraph", *command)
    said, _ = started.communicate(timeout=PATIENCE)
    assert started.returncode == 0, said
    return said


def probabilities(folder: Path) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    table = pd.concat([pd.read_parquet(folder / f"predictions-{part:05d}.parquet") for part in range(PARTS)])
    return table.filter(like="probability_").to_numpy(dtype=np.float64)


def set_sizes(folder: Path) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    tables = [pd.read_parquet(folder / f"predictions-{part:05d}.parquet") for part in range(PARTS)]
    return pd.concat(tables)["set"].map(len).to_numpy(dtype=np.int64)


def test_four_processes_answer_as_one_and_go_on_after_one_was_killed(collected: Collected, tmp_path: Path) -> None:
    shards, model, alone = collected.folder / "shards", tmp_path / "model", tmp_path / "alone"
    learned = {"campaign": collected.folder / "campaign.json", "graph": shards, "method": "rgnn", "epochs": EPOCHS}
    started: subprocess.Popen[str] = forked(4, "veilgraph", *words_of("train", device="cpu", out=model, **learned))
    kill_after_checkpoint(started, 2, model, epochs=0)
    said, _ = started.communicate(timeout=PATIENCE)
    assert started.returncode != 0
    assert "error: process 0 of 4 stops, since another one ended or did not answer" in said
    assert "partition: 4 parts by label propagation" in said
    first = epochs_done(model / "checkpoint.npz")

    said = together(*words_of("train", device="cpu", out=model, **learned))
    assert "by label propagation" not in said  # the parts are kept
    facts = json.loads((model / "training.json").read_text(encoding="utf-8"))
    assert 0 < first <= facts["resumed_after_epochs"] < EPOCHS
    assert facts["processes"] == 4
    together(*words_of("predict", device="cpu", model=model, graph=shards, out=tmp_path / "predicted"))

    assert main(words_of("train", device="cpu", out=alone, **learned)) == 0
    assert main(words_of("predict", device="cpu", model=alone, graph=shards, out=tmp_path / "expected")) == 0
    found, expected = probabilities(tmp_path / "predicted"), probabilities(tmp_path / "expected")
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_veil_in_four_processes_answers_as_one_and_goes_on_after_one_was_killed(
    collected: Collected, tmp_path: Path
) -> None:
    shards, model, alone = collected.folder / "shards", tmp_path / "model", tmp_path / "alone"
    learned = {"campaign": collected.folder / "campaign.json", "graph": shards, "method": "veil"}
    started: subprocess.Popen[str] = forked(4, "veilgraph", *words_of("train", device="cpu", out=model, **learned))
    deadline = time.monotonic() + PATIENCE
    while len(list(model.glob("checkpoint/*-of-4.npz"))) < 8:  # two kinds of views of each process
        assert started.poll() is None, started.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(process_of(1, started.pid), signal.SIGKILL)
    said, _ = started.communicate(timeout=PATIENCE)
    assert started.returncode != 0
    assert "error: process 0 of 4 stops, since another one ended or did not answer" in said

    said = together(*words_of("train", device="cpu", out=model, **learned))
    assert "Veil: block model with degrees, from the checkpoint" in said
    assert "train: Veil: communities" in said
    facts = json.loads((model / "training.json").read_text(encoding="utf-8"))
    assert facts["restored_views"][:2] == ["block model", "block model with degrees"]
    assert not (model / "checkpoint").exists()
    together(*words_of("predict", device="cpu", model=model, graph=shards, out=tmp_path / "predicted"))

    assert main(words_of("train", device="cpu", out=alone, **learned)) == 0
    assert main(words_of("predict", device="cpu", model=alone, graph=shards, out=tmp_path / "expected")) == 0
    found, expected = probabilities(tmp_path / "predicted"), probabilities(tmp_path / "expected")
    np.testing.assert_allclose(found, expected, atol=1e-5)
    sizes, alone_sizes = set_sizes(tmp_path / "predicted"), set_sizes(tmp_path / "expected")
    # A class whose probability is at the threshold up to rounding may be in one set and not in the other.
    assert (sizes != alone_sizes).mean() < 0.01


def test_no_process_holds_more_than_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The C library gives arrays of more than 32 MB back when they are freed, and smaller ones with this setting. So
    # a small graph is measured as a large one behaves, and not by how its freed arrays are scattered.
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", str(2**18))
    # Few edges between parts: rows of neighbours in other parts come on top of the share.
    for name, nodes in (("small", 20_000), ("large", 200_000)):
        given = [str(nodes), "--set", "homophily=0.98", "--set", "parts=32", "--out", str(tmp_path / name)]
        assert main(["lab", "generate", *given]) == 0
    measured = [str(tmp_path / name) for name in ("small", "large", "")]
    for processes in (1, 4):
        started = forked(processes, "tests.support.shard_memory", *measured)
        said, _ = started.communicate(timeout=2 * PATIENCE)
        assert started.returncode == 0, said
    growth = {
        path.stem: large - small
        for path in tmp_path.glob("memory-*.json")
        for small, large in [json.loads(path.read_text(encoding="ascii"))]
    }
    alone = growth.pop("memory-1-0")
    assert len(growth) == 4
    assert max(growth.values()) <= 1.4 / 4 * alone, (growth, alone)
