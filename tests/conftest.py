"""Tests compute on the CPU, where sums have a fixed order and the same seed gives the same bits."""

from __future__ import annotations

import gc
import os
import re
import signal
from collections.abc import Iterator

import hypothesis
import pytest
import torch

# How long an example takes says something about the machine, not about the code.
hypothesis.settings.register_profile("untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("untimed")


def pytest_sessionstart() -> None:
    """Import the tests without garbage collection: modules stay, and to search them again and again takes seconds.

    A shell starts background jobs with Ctrl-C ignored, and programs inherit this. Tests of Ctrl-C would wait for ever.
    """
    gc.disable()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Leave modules and tests out of every later garbage collection."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


SERVICES = re.compile(
    r"PostgreSQL|[Cc]hromium|\bnode\b|prlimit|package index|(build|caddy|mkdocstrings|axe-core) is not installed"
)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """With VEILGRAPH_REQUIRE_SERVICES=1, a test that was skipped for want of a program has failed."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.skipped and os.environ.get("VEILGRAPH_REQUIRE_SERVICES") == "1" and SERVICES.search(str(report.longrepr)):
        report.outcome = "failed"
        report.longrepr = f"VEILGRAPH_REQUIRE_SERVICES=1 forbids to skip: {report.longrepr[-1]}"
