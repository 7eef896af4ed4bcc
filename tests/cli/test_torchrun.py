"""`veilgraph train` under torchrun: the same model, and nothing lost when a process ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from tests.support.collected import Collected
from tests.support.command_words import words_of
from tests.support.torchrun import torchrun
from veilgraph.cli import main
from veilgraph.models import RGNN

pytestmark = pytest.mark.slow

EPOCHS = 200
PATIENCE = 120  # seconds; two cores may be busy with other tests


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Collected:
    return Collected(tmp_path_factory.mktemp("collected"))


def train(collected: Collected, out: Path, *, restarts: int = 0, **changes: object) -> subprocess.Popen[str]:
    options: dict[str, object] = {
        "store": collected.store,
        "campaign": collected.folder / "campaign.json",
        "graph": collected.folder / "edges.csv",
        "nodes": collected.folder / "nodes.csv",
        "out": out,
        "method": "rgnn",
        "epochs": EPOCHS,
        "device": "cpu",
        **changes,
    }
    return torchrun(2, "veilgraph", *words_of("train", **options), restarts=restarts)


def process_of(rank: int, launcher: int) -> int:
    """Return the id of the process that has a rank: the agent of torchrun starts processes in this order."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children")
    if not children.exists():
        pytest.skip("there is no /proc here that tells a process's children")
    return int(children.read_text(encoding="utf-8").split()[rank])


def kill_after_checkpoint(started: subprocess.Popen[str], rank: int, out: Path, *, epochs: int) -> None:
    """Kill one process as soon as the checkpoint has more than a number of epochs."""
    deadline = time.monotonic() + PATIENCE
    while epochs_done(out / "checkpoint.npz") <= epochs:
        assert started.poll() is None, started.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(process_of(rank, started.pid), signal.SIGKILL)


def epochs_done(checkpoint: Path) -> int:
    return int(np.load(checkpoint)["record.steps"].item()) if checkpoint.exists() else 0


def test_a_run_whose_process_was_killed_goes_on_where_it_stopped(collected: Collected, tmp_path: Path) -> None:
    out = tmp_path / "model"
    started = train(collected, out, hold_out=0.2)
    kill_after_checkpoint(started, 1, out, epochs=0)
    said, _ = started.communicate(timeout=PATIENCE)
    assert started.returncode != 0
    assert "error: process 0 of 2 stops, since another one ended or did not answer" in said
    assert not (out / "training.json").exists()
    first = epochs_done(out / "checkpoint.npz")
    assert [path.name for path in out.iterdir()] == ["checkpoint.npz"]
    kept = sorted(path.name for path in (tmp_path / "model.shards" / "cuts").iterdir())

    # The same command goes on; this time its leader is killed, and torchrun may start it once more.
    again = train(collected, out, hold_out=0.2, restarts=1)
    kill_after_checkpoint(again, 0, out, epochs=first)
    said, _ = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, said
    assert "by label propagation" not in said  # the parts are kept, though the shards are written again
    assert f"train: training resumes after epoch {first}" in said
    assert f"Graph and reports as shards, for predict --graph: {out}.shards" in said
    facts = json.loads((out / "training.json").read_text(encoding="utf-8"))
    assert 0 < first < facts["resumed_after_epochs"] < EPOCHS
    assert facts["processes"] == 2

    # One process on these shards gives the same model, up to the rounding of sums in many steps.
    shards, alone = tmp_path / "model.shards", tmp_path / "alone"
    assert sorted(path.name for path in (shards / "cuts").iterdir()) == kept
    given: dict[str, object] = {
        "graph": shards,
        "campaign": collected.folder / "campaign.json",
        "method": "rgnn",
        "epochs": EPOCHS,
    }
    given |= {"hold_out": 0.2, "device": "cpu", "out": alone}
    assert main(words_of("train", **given)) == 0
    together, apart = RGNN.load(out, device="cpu"), RGNN.load(alone, device="cpu")
    np.testing.assert_allclose(together.curve_.train_loss, apart.curve_.train_loss, rtol=1e-3)
    expected = json.loads((alone / "training.json").read_text(encoding="utf-8"))
    same = {"nodes", "edges", "feature_reports", "label_reports", "train", "validation", "held_out", "campaign"}
    assert {key: facts[key] for key in same} == {key: expected[key] for key in same}
    found, wanted = facts["estimated_accuracy"], expected["estimated_accuracy"]
    assert found["structure_only"] == pytest.approx(wanted["structure_only"])
    # Where two classes are about equally likely, a few of the held-out nodes may be predicted differently.
    assert found["rgnn"]["accuracy"] == pytest.approx(wanted["rgnn"]["accuracy"], abs=found["rgnn"]["standard_error"])


def test_the_leaders_mistake_ends_all_processes_with_its_message(collected: Collected, tmp_path: Path) -> None:
    started = train(collected, tmp_path / "model", backbone="gta")
    said, _ = started.communicate(timeout=PATIENCE)
    assert started.returncode != 0
    assert said.count("error: backbone is 'gta': choose gat, gcn, sage") == 1
    assert said.count("error: ") == 1  # the others end without a message, and nothing promises a checkpoint
    assert "veilgraph.errors" not in said  # no traceback of ours
