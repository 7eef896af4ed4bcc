"""An interrupted fit ends with the same result as an uninterrupted one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.support.damage import FILE_DAMAGES, SEALED, bomb, changed_arrays, packed, seal_checkpoint, unpacked
from tests.support.distributed_cases import SPLIT
from tests.support.distributed_cases import perturbed as perturbed_shards
from veilgraph.errors import RunError
from veilgraph.graph import Graph, PerturbedGraph
from veilgraph.models import RGNN, PlainGNN
from veilgraph.models.base import FitTask
from veilgraph.models.checkpoint import Checkpoint, digest_of_task


class Interrupted(Checkpoint):
    """A checkpoint that stops the fit after its third write."""

    def write(self, state: Mapping[str, Tensor]) -> None:
        super().write(state)
        if int(state["record.steps"]) == 3 * self.every:
            raise KeyboardInterrupt


def perturbed(everyone: bool) -> PerturbedGraph:
    """Return the collection on an ordinary graph, where masks come from generators and not from counters."""
    shards = perturbed_shards(everyone)
    return replace(shards, graph=Graph.from_edges(shards.graph.edges, shards.graph.num_nodes))


def rgnn(backbone: str) -> RGNN:
    return RGNN(backbone=backbone, feature_hops=2, label_hops=2, epochs=30, device="cpu")


@pytest.mark.parametrize("collected", [perturbed, perturbed_shards])
@pytest.mark.parametrize("backbone", ["sage", "gcn"])
def test_an_interrupted_fit_ends_as_an_uninterrupted_one_to_the_last_bit(
    tmp_path: Path, backbone: str, collected: Callable[[bool], PerturbedGraph]
) -> None:
    reports, path = collected(False), tmp_path / "checkpoint.npz"
    expected = rgnn(backbone).fit(reports, SPLIT)
    with pytest.raises(KeyboardInterrupt):
        rgnn(backbone).fit(reports, SPLIT, checkpoint=Interrupted(task_digest="w", path=path, every=7))
    opened = Checkpoint.open(path, "w", every=7)
    assert opened.epochs == 21
    resumed = rgnn(backbone).fit(reports, SPLIT, checkpoint=opened)
    assert resumed.curve_ == expected.curve_
    np.testing.assert_array_equal(resumed.predict_proba(), expected.predict_proba())


def test_a_reader_resumes_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    Checkpoint(task_digest="w", path=path).write({"record.steps": torch.tensor(4)})
    before = path.read_bytes()
    reader = Checkpoint.open(path, "w").reader()
    reader.write({"record.steps": torch.tensor(9)})
    assert reader.epochs == 4
    assert path.read_bytes() == before


def test_a_checkpoint_of_another_fit_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "checkpoint.npz"
    Checkpoint(task_digest="one", path=path).write({"record.steps": torch.tensor(4)})
    with caplog.at_level("INFO", logger="veilgraph"):
        assert Checkpoint.open(path, "other").epochs == 0
    assert "starts again" in caplog.text


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    for content in (b"", b"half", b"PK\x03\x04"):
        path.write_bytes(content)
        with pytest.raises(RunError, match="remove it to start again"):
            Checkpoint.open(path, "w")
    with pytest.raises(RunError, match="every 0 epochs"):
        Checkpoint.open(path, "w", every=0)


def test_a_digest_depends_on_settings_and_on_every_value_and_shape() -> None:
    array = np.arange(6)
    same = digest_of_task({"a": 1}, [array])
    others = [
        digest_of_task({"a": 2}, [array]),
        digest_of_task({"a": 1}, [array + 1]),
        digest_of_task({"a": 1}, [array.reshape(2, 3)]),
    ]
    assert same == digest_of_task({"a": 1}, [array.copy()])
    assert same not in others


def test_a_task_with_a_checkpoint_is_trained_alone(tmp_path: Path) -> None:
    reports = perturbed(True)
    checkpoint = Checkpoint(task_digest="w", path=tmp_path / "checkpoint.npz", every=1)
    tasks = [
        FitTask(method=PlainGNN(epochs=2, device="cpu"), perturbed=reports, split=SPLIT, checkpoint=each)
        for each in (None, checkpoint)
    ]
    assert [len(batch) for batch in PlainGNN.fit_together(tasks)] == [1, 1]
    assert Checkpoint.open(tmp_path / "checkpoint.npz", "w").epochs == 2


def test_a_module_of_the_users_own_leaves_no_checkpoint(tmp_path: Path) -> None:
    class Rows(torch.nn.Linear):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:  # type: ignore[override]
            return super().forward(x)

    checkpoint = Checkpoint(task_digest="w", path=tmp_path / "checkpoint.npz", every=1)
    PlainGNN(backbone=Rows, epochs=2, device="cpu").fit(perturbed(True), SPLIT, checkpoint=checkpoint)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(params=["checkpoint", SEALED])
def interrupted(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return the checkpoint of an interrupted fit, or one whose digest is written anew after each damage."""
    path = tmp_path / f"{request.param}.npz"
    with pytest.raises(KeyboardInterrupt):
        rgnn("sage").fit(perturbed(False), SPLIT, checkpoint=Interrupted(task_digest="w", path=path, every=7))
    return path


def resume(path: Path) -> RGNN:
    if path.stem == SEALED:
        seal_checkpoint(path)
    return rgnn("sage").fit(perturbed(False), SPLIT, checkpoint=Checkpoint.open(path, "w", every=7))


def refusal(path: Path) -> str:
    """Return the sentence by which a checkpoint is refused; nothing if it is continued."""
    try:
        resume(path)
    except RunError as error:
        return str(error)
    return ""


def test_an_intact_checkpoint_is_continued(interrupted: Path) -> None:
    expected = rgnn("sage").fit(perturbed(False), SPLIT)
    np.testing.assert_array_equal(resume(interrupted).predict_proba(), expected.predict_proba())


@pytest.mark.parametrize("damage", [name for name in FILE_DAMAGES if name not in ("missing", "a folder")])
def test_a_damaged_checkpoint_is_refused(interrupted: Path, damage: str) -> None:
    FILE_DAMAGES[damage](interrupted)
    with pytest.raises(RunError, match="remove it to start again"):
        Checkpoint.open(interrupted, "w")


def test_a_checkpoint_without_a_digest_or_that_would_fill_the_memory_is_refused(interrupted: Path) -> None:
    arrays = unpacked(interrupted.read_bytes())
    del arrays["content"]
    interrupted.write_bytes(packed(arrays))
    with pytest.raises(RunError, match="by its digest"):
        Checkpoint.open(interrupted, "w")
    interrupted.write_bytes(bomb(2**24))
    with pytest.raises(RunError, match="unpacks to"):
        Checkpoint.open(interrupted, "w")


def test_a_checkpoint_with_a_missing_added_or_changed_array_is_refused(interrupted: Path) -> None:
    original = interrupted.read_bytes()
    for place, content in changed_arrays(original, kept=["work", "content"]):
        if interrupted.stem == SEALED and place.endswith(("inf", "nan")):
            continue  # a training that diverged
        interrupted.write_bytes(content)
        assert "remove it to start again" in refusal(interrupted), place


@pytest.mark.parametrize(("name", "value"), [("record.steps", 31), ("record.steps", -1), ("record.selected", 30)])
def test_a_checkpoint_of_more_epochs_than_the_fit_is_refused(interrupted: Path, name: str, value: int) -> None:
    arrays = unpacked(interrupted.read_bytes())
    arrays[name].flat[0] = value
    interrupted.write_bytes(packed(arrays))
    with pytest.raises(RunError, match="remove it to start again"):
        resume(interrupted)


def test_a_state_of_a_generator_that_is_none_is_refused(interrupted: Path) -> None:
    arrays = unpacked(interrupted.read_bytes())
    arrays["generator.0"][:] = 255
    interrupted.write_bytes(packed(arrays))
    with pytest.raises(RunError, match="remove it to start again"):
        resume(interrupted)
