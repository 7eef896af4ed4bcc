"""Checkpoints of views: what was computed is read, and what is damaged or of another fit is computed again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.support.label_views import cross_fitted
from veilgraph.models.veil.contamination import Contamination
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.models.veil.view_checkpoint import CalibratedViews, ViewCheckpoint

TERMS = torch.arange(12.0).view(4, 1, 3)
VIEWS: CalibratedViews = {"pagerank 0.5 4": ((0.5, 2.0), TERMS), "spectral": ((1.5,), -TERMS)}


@pytest.fixture
def labels() -> CrossFitting:
    return cross_fitted(1.0)[1]


def checkpoint(folder: Path, digest: str = "fit") -> ViewCheckpoint:
    return ViewCheckpoint(folder=folder / "checkpoint", task_digest=digest, process="0-of-1")


def never() -> CalibratedViews:
    raise AssertionError("computed again")


def test_views_are_computed_once_and_then_read(labels: CrossFitting, tmp_path: Path) -> None:
    assert checkpoint(tmp_path).remember(labels, "some", lambda: VIEWS) is VIEWS
    again = checkpoint(tmp_path)
    found = again.remember(labels, "some", never)
    assert found.keys() == VIEWS.keys()
    for name, (parameters, terms) in VIEWS.items():
        assert found[name][0] == parameters
        assert torch.equal(found[name][1], terms)
    assert again.restored == ["some"]


def test_another_fit_kind_or_contamination_computes_its_own(labels: CrossFitting, tmp_path: Path) -> None:
    checkpoint(tmp_path).remember(labels, "some", lambda: VIEWS)
    lies = Contamination(share=0.2, targets=(0.0,) * (labels.reports.num_classes - 1) + (1.0,))
    for other, kind, reports in (
        (checkpoint(tmp_path, "another"), "some", labels),
        (checkpoint(tmp_path), "other", labels),
        (checkpoint(tmp_path), "some", replace(labels, contamination=lies)),
    ):
        assert other.remember(reports, kind, lambda: VIEWS) is VIEWS
        assert other.restored == []


@pytest.mark.parametrize("damage", [lambda content: content[:-40], lambda content: b"", lambda content: b"x" * 100])
def test_a_damaged_file_is_computed_again(
    labels: CrossFitting, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    checkpoint(tmp_path).remember(labels, "some", lambda: VIEWS)
    (path,) = (tmp_path / "checkpoint").iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert checkpoint(tmp_path).remember(labels, "some", lambda: VIEWS) is VIEWS
    checkpoint(tmp_path).remember(labels, "some", never)


def test_a_process_removes_its_own_files(labels: CrossFitting, tmp_path: Path) -> None:
    checkpoint(tmp_path).remember(labels, "some", lambda: VIEWS)
    other = tmp_path / "checkpoint" / "0123-1-of-2.npz"
    other.touch()
    checkpoint(tmp_path).remove()
    assert list((tmp_path / "checkpoint").iterdir()) == [other]
    other.unlink()
    checkpoint(tmp_path).remove()
    assert not (tmp_path / "checkpoint").exists()
