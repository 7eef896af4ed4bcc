"""Description of the GPU."""

from __future__ import annotations

import pytest
import torch

from veilgraph.distributed.hardware import describe_gpu


@pytest.mark.parametrize(
    ("cuda", "why"), [(None, "is built for the CPU alone"), ("13.0", "finds no CUDA device")], ids=["CPU", "CUDA"]
)
def test_without_a_gpu_the_reason_is_given(cuda: str | None, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", cuda)
    assert describe_gpu() == f"none, the CPU is used: torch {torch.__version__} {why}"
