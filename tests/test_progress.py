"""Long work logs its progress; short work logs nothing."""

from __future__ import annotations

import logging
import time

import pytest

from veilgraph.progress import say, tracked


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace the clock by a number that a test sets."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_progress_is_logged_every_five_seconds(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="veilgraph")
    seen = []
    for step in tracked(range(10), "digging"):
        seen.append(step)
        clock[0] += 2
    assert seen == list(range(10))
    assert caplog.messages == ["digging: 3 of 10", "digging: 6 of 10", "digging: 9 of 10"]


def test_short_work_is_silent(clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="veilgraph")
    assert len(list(tracked(range(1000), "digging"))) == 1000
    assert caplog.messages == []


def test_a_choice_is_logged_at_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="veilgraph")
    say("the spade, since the shovel is too large")
    assert caplog.messages == ["the spade, since the shovel is too large"]
