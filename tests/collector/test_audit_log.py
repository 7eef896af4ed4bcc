"""Whatever is changed in the audit log is noticed; what is removed at its end, against a hash that was noted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from veilgraph.collector.audit_log import FIRST, Entry, check, check_all
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
        assert check_all({"": LOG}, heads=[entry.hash]) == {"": LOG[-1].hash}, "a log may have grown since"


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
        with pytest.raises(StoreError, match=rf"no entry has the hash that was noted.*\(entries here: {len(log)}\)"):
            check_all({"": log}, heads=[LOG[-1].hash])


def test_stores_that_append_at_the_same_time_make_one_chain(store_url: str) -> None:
    stores = [ReportStore.open(store_url) for _ in range(2)]
    start = threading.Barrier(6)

    def record(number: int) -> None:
        start.wait()
        for i in range(5):
            stores[number % 2].audit_log.record("export", {"number": number, "i": i}, now=7201.0, actor="owner")

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(record, range(6)))
    entries = stores[0].audit_log.entries("")
    assert check(entries) == entries[-1].hash
    assert len(entries) == 30
    assert {entry.hour for entry in entries} == {7200}
    assert {tuple(entry.document["detail"].values()) for entry in entries} == {
        (i, n) for n in range(6) for i in range(5)
    }
    for store in stores:
        store.close()


def test_the_log_of_a_campaign_does_not_depend_on_what_happens_in_others(store_url: str) -> None:
    store = ReportStore.open(store_url)
    for number in range(3):
        store.audit_log.record("export", {"campaign": "a", "n": number}, now=0, actor="owner")
    alone = store.audit_log.entries("a")
    for campaign in ("b", "a", "b", "c", "a"):
        store.audit_log.record("login", {"campaign": campaign}, now=0, actor="viewer")
    assert store.audit_log.entries("a")[:3] == alone
    assert {name: [entry.sequence for entry in log] for name, log in store.audit_log.by_campaign().items()} == {
        "a": [1, 2, 3, 4, 5],
        "b": [1, 2],
        "c": [1],
    }
    heads = check_all(store.audit_log.by_campaign(), heads=[alone[0].hash, store.audit_log.entries("b")[-1].hash])
    assert heads == {name: store.audit_log.entries(name)[-1].hash for name in "abc"}
    store.close()


def test_a_log_that_was_exchanged_for_another_campaigns_or_removed_is_noticed() -> None:
    logs = {
        name: [Entry.after(None, hour=0, actor="owner", action="export", detail={"campaign": name})] for name in "ab"
    }
    for altered in ({"a": logs["b"], "b": logs["a"]}, {"a": [], "b": logs["a"]}):
        with pytest.raises(StoreError, match="holds an entry of another campaign"):
            check_all(altered)
    assert check_all({"a": logs["a"]}) == {"a": logs["a"][0].hash}, "a whole log is missing, and nobody knows"
    with pytest.raises(StoreError, match="has the hash that was noted"):
        check_all({"a": logs["a"]}, heads=[logs["b"][0].hash])
