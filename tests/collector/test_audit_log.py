"""Whatever is changed in the audit log is noticed; what is removed at its end, against a hash that was noted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from veilgraph.collector.audit_log import FIRST, Entry, check
from veilgraph.collector.store import ReportStore
from veilgraph.errors import StoreError

Log = list[Entry]


def a_log(length: int) -> Log:
    entries: Log = []
    for number in range(length):
        last = entries[-1] if entries else None
        entries.append(Entry.after(last, hour=3600 * number, actor="owner", action="export", detail={"n": number}))
    return entries


LOG = a_log(6)


def test_a_whole_log_has_the_hash_of_its_last_entry() -> None:
    assert check([]) == FIRST
    assert check(LOG) == LOG[-1].hash
    for entry in LOG:
        assert check(LOG, head=entry.hash) == LOG[-1].hash, "a log may have grown since"


def resealed(entry: Entry) -> Entry:
    return replace(entry, hash=entry.expected_hash)


@pytest.mark.parametrize(
    "tamper",
    [
        *(
            lambda log, change=change: [*log[:2], replace(log[2], **change), *log[3:]]
            for change in (
                {"hour": 0},
                {"actor": "nobody"},
                {"action": "login"},
                {"detail": "{}"},
                {"hash": FIRST},
                {"previous": FIRST},
                {"sequence": 4},
            )
        ),
        lambda log: [*log[:2], resealed(replace(log[2], actor="nobody")), *log[3:]],
        lambda log: log[1:],
        lambda log: [*log[:2], *log[3:]],
        lambda log: [*log[:2], log[3], log[2], *log[4:]],
        lambda log: [*log[:3], log[2], *log[3:]],
        lambda log: [*log[:2], resealed(replace(log[3], sequence=3)), *log[4:]],
    ],
)
def test_a_changed_removed_repeated_or_reordered_entry_is_noticed(tamper: Callable[[Log], Log]) -> None:
    with pytest.raises(StoreError, match="the audit log was altered: entry"):
        check(tamper(LOG))


def test_entries_removed_at_the_end_and_a_replaced_log_are_noticed_against_a_noted_hash() -> None:
    for log in (LOG[:-1], [], a_log(7)[:0], [resealed(replace(LOG[0], actor="nobody"))]):
        check(log)
        with pytest.raises(StoreError, match="has the hash that was noted"):
            check(log, head=LOG[-1].hash)


def test_stores_that_append_at_the_same_time_make_one_chain(store_url: str) -> None:
    stores = [ReportStore.open(store_url) for _ in range(2)]
    start = threading.Barrier(6)

    def record(number: int) -> None:
        start.wait()
        for i in range(5):
            stores[number % 2].record("export", {"number": number, "i": i}, now=7201.0, actor="owner")

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(record, range(6)))
    entries = stores[0].audit_log()
    assert check(entries) == entries[-1].hash
    assert len(entries) == 30
    assert {entry.hour for entry in entries} == {7200}
    assert {tuple(entry.document["detail"].values()) for entry in entries} == {
        (i, n) for n in range(6) for i in range(5)
    }
    for store in stores:
        store.close()
