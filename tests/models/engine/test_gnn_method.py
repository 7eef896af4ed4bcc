"""Saving, loading, custom backbones and refused settings."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.models.test_conformance import PERTURBED, SPLIT
from veilgraph.errors import FitError, RunError
from veilgraph.models import RGNN, PlainGNN
from veilgraph.models.engine.batch_planner import estimate_memory
from veilgraph.models.engine.device import resolve_device


class Linear(nn.Module):
    """A minimal backbone."""

    def __init__(self, num_inputs: int, num_classes: int) -> None:
        super().__init__()
        self.layer = nn.Linear(num_inputs, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        assert edge_index.shape[0] == 2
        scores: Tensor = self.layer(x)
        return scores


@pytest.mark.parametrize("backbone", ["sage", "gcn", "gat"])
def test_a_saved_model_gives_the_same_predictions(tmp_path: Path, backbone: str) -> None:
    method = RGNN(backbone=backbone, epochs=3, feature_hops=2, num_clusters=4, label_hops=8).fit(PERTURBED, SPLIT)
    method.save(tmp_path / "model")
    loaded = RGNN.load(tmp_path / "model")
    assert (loaded.predict_proba() == method.predict_proba()).all()
    # The restored weights give the same predictions when they are applied again.
    assert np.allclose(loaded.predict_proba(PERTURBED), method.predict_proba(PERTURBED), atol=1e-6)
    assert loaded.curve_ == method.curve_
    assert loaded.feature_hops == 2


def test_no_saved_file_contains_code(tmp_path: Path) -> None:
    PlainGNN(epochs=1).fit(PERTURBED, SPLIT).save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.json", "weights.npz"]
    json.loads((tmp_path / "model.json").read_text())
    with np.load(tmp_path / "weights.npz", allow_pickle=False) as archive:
        assert all(archive[name].dtype == np.float32 for name in archive)


def test_the_format_of_a_model_folder_stays_readable_by_other_versions(tmp_path: Path) -> None:
    RGNN(epochs=2, num_clusters=4, feature_hops=16, label_hops=8).fit(PERTURBED, SPLIT).save(tmp_path)
    document = json.loads((tmp_path / "model.json").read_text())
    described = ["method", "parameters", "classes", "num_features"]
    assert list(document) == [*described, "curve", "temperature", "doubt", "hops"]
    assert list(document["curve"]) == ["train_loss", "validation_score", "selected_epoch"]
    with np.load(tmp_path / "weights.npz", allow_pickle=False) as archive:
        names = ("first.weight", "first.bias", "second.weight", "second.bias")
        assert list(archive) == ["probabilities", *(f"weight:{name}" for name in names)]


def test_a_custom_backbone_trains_and_loads(tmp_path: Path) -> None:
    method = RGNN(backbone=Linear, epochs=3, feature_hops=1, num_clusters=4, label_hops=8).fit(PERTURBED, SPLIT)
    method.save(tmp_path)
    assert (RGNN.load(tmp_path, backbone=Linear).predict() == method.predict()).all()
    with pytest.raises(FitError, match="backbone of your own"):
        RGNN.load(tmp_path)


def test_a_backbone_of_the_wrong_width_or_an_unknown_one_is_refused() -> None:
    def too_wide(num_inputs: int, num_classes: int) -> Linear:
        return Linear(num_inputs, num_classes + 1)

    with pytest.raises(FitError, match=r"returned logits of shape \(200, 4\): .* return \(200, 3\), one column"):
        PlainGNN(backbone=too_wide, epochs=1).fit(PERTURBED, SPLIT)
    with pytest.raises(FitError, match="backbone is 'transformer': choose gat, gcn, sage"):
        RGNN(backbone="transformer", num_clusters=4, feature_hops=16, label_hops=8).fit(PERTURBED, SPLIT)


def test_a_damaged_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FitError, match="does not hold a readable model"):
        RGNN.load(tmp_path)
    PlainGNN(epochs=1).fit(PERTURBED, SPLIT).save(tmp_path)
    with pytest.raises(FitError, match="holds a model of 'plain', not of 'rgnn'"):
        RGNN.load(tmp_path)
    weights = tmp_path / "weights.npz"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(FitError, match="does not hold a readable model"):
        PlainGNN.load(tmp_path)


def test_the_learning_curve_has_every_epoch_and_the_selected_one_is_best() -> None:
    curve = RGNN(epochs=12, num_clusters=4, feature_hops=16, label_hops=8).fit(PERTURBED, SPLIT).curve_
    assert len(curve.train_loss) == len(curve.validation_score) == 12
    assert curve.validation_score[curve.selected_epoch] == max(curve.validation_score)


def test_attention_is_refused_within_memory_that_is_enough_for_a_convolution() -> None:
    settings: dict[str, Any] = {"epochs": 1, "feature_hops": 1, "label_hops": 8, "num_clusters": 4}
    inputs = RGNN(**settings).input_columns(PERTURBED)
    estimate = partial(estimate_memory, PERTURBED, inputs, 2**40, torch.device("cpu"), supports_blocks=False)
    needs = {name: estimate(attention=name == "gat") for name in ("sage", "gat")}
    sage, gat = (each.input_bytes + each.replica_bytes for each in needs.values())
    RGNN(backbone="sage", **settings, device="cpu").fit(PERTURBED, SPLIT, memory=sage)
    with pytest.raises(FitError, match=f"one fit needs about {gat / 2**20:.1f} MiB and .* allow more memory"):
        RGNN(backbone="gat", **settings, device="cpu").fit(PERTURBED, SPLIT, memory=gat - 1)
    RGNN(backbone="gat", **settings, device="cpu").fit(PERTURBED, SPLIT, memory=gat)
    assert gat > 2 * sage


def test_zero_epochs_are_refused() -> None:
    with pytest.raises(FitError, match="epochs is 0"):
        PlainGNN(epochs=0).fit(PERTURBED, SPLIT)


@pytest.mark.parametrize("backbone", ["sage", "gat"])
@pytest.mark.parametrize(
    ("name", "value"), [("dropout", -0.1), ("dropout", 1.5), ("learning_rate", -0.01), ("weight_decay", -1.0)]
)
def test_training_settings_out_of_range_are_refused_by_name(backbone: str, name: str, value: float) -> None:
    with pytest.raises(FitError, match=f"{name} is {value}"):
        PlainGNN(backbone=backbone, epochs=1, **{name: value}).fit(PERTURBED, SPLIT)  # type: ignore[arg-type]


def test_a_device_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RunError, match="no usable GPU"):
        resolve_device("cuda")
    with pytest.raises(RunError, match="device is 'tpu'"):
        resolve_device("tpu")
    assert resolve_device("auto").type == "cpu"
