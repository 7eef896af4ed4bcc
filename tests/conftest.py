"""Tests compute on the CPU, where sums have a fixed order and the same seed gives the same bits."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def _on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
