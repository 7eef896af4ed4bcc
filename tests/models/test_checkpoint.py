"""A fit that was interrupted ends as if it had not been."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.support.distributed_cases import SPLIT, perturbed
from veilgraph.errors import RunError
from veilgraph.models import RGNN, PlainGNN
from veilgraph.models.base import FitTask
from veilgraph.models.checkpoint import Checkpoint, work_of


class Interrupted(Checkpoint):
    """Stops the fit after its third writing."""

    def write(self, state: Mapping[str, Tensor]) -> None:
        super().write(state)
        if int(state["record.steps"]) == 3 * self.every:
            raise KeyboardInterrupt


def rgnn(backbone: str) -> RGNN:
    return RGNN(backbone=backbone, feature_hops=2, label_hops=2, epochs=30, device="cpu")


@pytest.mark.parametrize("backbone", ["sage", "gcn"])
def test_an_interrupted_fit_ends_as_an_uninterrupted_one_to_the_last_bit(tmp_path: Path, backbone: str) -> None:
    reports, path = perturbed(False), tmp_path / "checkpoint.npz"
    expected = rgnn(backbone).fit(reports, SPLIT)
    with pytest.raises(KeyboardInterrupt):
        rgnn(backbone).fit(reports, SPLIT, checkpoint=Interrupted(work="w", path=path, every=7))
    opened = Checkpoint.open(path, "w", every=7)
    assert opened.epochs == 21
    resumed = rgnn(backbone).fit(reports, SPLIT, checkpoint=opened)
    assert resumed.curve_ == expected.curve_
    np.testing.assert_array_equal(resumed.predict_proba(), expected.predict_proba())


def test_a_reader_goes_on_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    Checkpoint(work="w", path=path).write({"record.steps": torch.tensor(4)})
    before = path.read_bytes()
    reader = Checkpoint.open(path, "w").reader()
    reader.write({"record.steps": torch.tensor(9)})
    assert reader.epochs == 4
    assert path.read_bytes() == before


def test_other_work_begins_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "checkpoint.npz"
    Checkpoint(work="one", path=path).write({"record.steps": torch.tensor(4)})
    with caplog.at_level("INFO", logger="veilgraph"):
        assert Checkpoint.open(path, "other").epochs == 0
    assert "begins anew" in caplog.text


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    for content in (b"", b"half", b"PK\x03\x04"):
        path.write_bytes(content)
        with pytest.raises(RunError, match="remove it to begin anew"):
            Checkpoint.open(path, "w")
    with pytest.raises(RunError, match="every 0 epochs"):
        Checkpoint.open(path, "w", every=0)


def test_work_depends_on_settings_and_on_every_value_and_shape() -> None:
    array = np.arange(6)
    same = work_of({"a": 1}, [array])
    others = [work_of({"a": 2}, [array]), work_of({"a": 1}, [array + 1]), work_of({"a": 1}, [array.reshape(2, 3)])]
    assert same == work_of({"a": 1}, [array.copy()])
    assert same not in others


def test_a_run_with_a_checkpoint_is_trained_by_itself(tmp_path: Path) -> None:
    reports = perturbed(True)
    checkpoint = Checkpoint(work="w", path=tmp_path / "checkpoint.npz", every=1)
    runs = [
        FitTask(method=PlainGNN(epochs=2, device="cpu"), perturbed=reports, split=SPLIT, checkpoint=each)
        for each in (None, checkpoint)
    ]
    assert [len(batch) for batch in PlainGNN.fit_together(runs)] == [1, 1]
    assert Checkpoint.open(tmp_path / "checkpoint.npz", "w").epochs == 2


def test_a_module_of_the_users_own_leaves_no_checkpoint(tmp_path: Path) -> None:
    class Rows(torch.nn.Linear):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:  # type: ignore[override]
            return super().forward(x)

    checkpoint = Checkpoint(work="w", path=tmp_path / "checkpoint.npz", every=1)
    PlainGNN(backbone=Rows, epochs=2, device="cpu").fit(perturbed(True), SPLIT, checkpoint=checkpoint)
    assert list(tmp_path.iterdir()) == []
