"""Databases: every test that takes `store_url` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.services import Postgres
from veilgraph.collector.store import ReportStore

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    server = Postgres()
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/reports.db"
    server: Postgres = request.getfixturevalue("postgres")
    return server.new_database(f"test{next(_numbers)}")


@pytest.fixture
def store(store_url: str) -> Iterator[ReportStore]:
    opened = ReportStore.open(store_url)
    yield opened
    opened.close()
