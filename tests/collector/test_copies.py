"""A store is copied while a collector writes it, and a copy takes the place of a store that nobody uses."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.collection import Collection
from tests.support.services import Postgres
from veilgraph.collector.copies import copy_in, copy_store, restore_store
from veilgraph.collector.store import ReportStore
from veilgraph.errors import StoreError

RING = Collection.ring(4)
NOW = datetime(2027, 1, 31, 12, tzinfo=UTC)


def filled(url: str) -> ReportStore:
    store = ReportStore.open(url)
    store.reports.put([RING.report("n0"), RING.report("n1")], now=0)
    return store


def stored(url: str) -> set[str]:
    store = ReportStore.open(url, create=False)
    try:
        return {report.node for report in store.reports.iterate(RING.campaign)}
    finally:
        store.close()


def test_a_copy_has_what_is_in_the_write_ahead_log(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/reports.db"
    store, copies = filled(url), tmp_path / "copies"
    copies.mkdir()
    try:
        copy = copy_store(url, copies)
    finally:
        store.close()
    assert copy == copy_in(copies)
    assert stored(f"sqlite:///{copy}") == {"n0", "n1"}
    restored = f"sqlite:///{tmp_path}/again.db"
    assert restore_store(copy, restored, now=NOW) is None
    assert stored(restored) == {"n0", "n1"}
    with pytest.raises(StoreError, match="has no copy of a store"):
        copy_in(tmp_path / "nowhere")


@pytest.mark.slow
def test_postgresql_is_restored_into_an_empty_database_alone(tmp_path: Path, postgres: Postgres) -> None:
    first, second = (postgres.new_database(name) for name in ("copied", "restored"))
    filled(first).close()
    copy = copy_store(first, tmp_path)
    with pytest.raises(StoreError, match="is not empty: create it again"):
        restore_store(copy, first, now=NOW)
    assert restore_store(copy, second, now=NOW) is None
    assert stored(second) == {"n0", "n1"}
    with pytest.raises(StoreError, match="another kind of store"):
        restore_store(copy, f"sqlite:///{tmp_path}/reports.db", now=NOW)
