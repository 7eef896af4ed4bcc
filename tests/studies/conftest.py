"""Fixtures of the studies: their methods are registered for one test and forgotten after it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from studies.methods import register

from veilgraph.models.registry import METHODS


@pytest.fixture
def registered() -> Iterator[None]:
    """Register the methods of the studies for one test."""
    before = dict(METHODS)
    register()
    yield
    METHODS.clear()
    METHODS.update(before)
