"""Waiting together for the disk: nobody is answered early, nobody waits for ever, and one failure is not another's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence

import pytest

from tests.support.collection import Collection
from veilgraph.campaign.report import Report
from veilgraph.collector.report_writer import GroupCommit
from veilgraph.collector.store import Outcome, ReportStore
from veilgraph.errors import StoreUnavailableError

COLLECTION = Collection.ring(50)
REPORTS = [COLLECTION.report(f"n{i}") for i in range(50)]


class Recorder(ReportStore):
    """A store that notes its transactions, and waits for permission to commit."""

    def __init__(self) -> None:
        self.transactions: list[int] = []
        self.permitted = threading.Event()
        self.permitted.set()
        self.failures: list[Exception] = []

    def put(self, submitted: Sequence[Report], *, now: float) -> list[Outcome]:
        self.permitted.wait(10)
        self.transactions.append(len(submitted))
        if self.failures:
            raise self.failures.pop()
        return [Outcome.STORED] * len(submitted)


def run(work: Callable[[GroupCommit, Recorder], Awaitable[None]], *, patience: float = 10.0) -> Recorder:
    store = Recorder()

    async def main() -> None:
        commit = GroupCommit(store, patience=patience)
        commit.start()
        await work(commit, store)
        store.permitted.set()
        await commit.stop()
        assert commit.waiting == 0

    asyncio.run(main())
    return store


def test_what_gathers_during_one_transaction_shares_the_next() -> None:
    async def work(commit: GroupCommit, store: Recorder) -> None:
        store.permitted.clear()
        tasks = [asyncio.create_task(commit.submit([report])) for report in REPORTS]
        await asyncio.sleep(0.05)
        assert not any(task.done() for task in tasks), "someone was answered before the commit"
        store.permitted.set()
        assert await asyncio.gather(*tasks) == [[Outcome.STORED]] * 50

    store = run(work)
    assert sum(store.transactions) == 50
    assert len(store.transactions) <= 2


def test_a_submission_is_not_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veilgraph.collector.report_writer._LARGEST_TRANSACTION", 10)

    async def work(commit: GroupCommit, _: Recorder) -> None:
        parts = [REPORTS[start : start + 8] for start in range(0, 48, 8)]
        assert [len(r) for r in await asyncio.gather(*map(commit.submit, parts))] == [8] * 6

    assert {size % 8 for size in run(work).transactions} == {0}


def test_a_failure_reaches_those_it_concerns_and_the_next_succeed() -> None:
    async def work(commit: GroupCommit, store: Recorder) -> None:
        store.failures = [StoreUnavailableError("down")]
        with pytest.raises(StoreUnavailableError):
            await commit.submit(REPORTS[:1])
        assert await commit.submit(REPORTS[:1]) == [Outcome.STORED]

    run(work)


def test_a_store_that_hangs_is_unavailable_after_a_while() -> None:
    async def work(commit: GroupCommit, store: Recorder) -> None:
        store.permitted.clear()
        with pytest.raises(StoreUnavailableError, match="takes too long"):
            await commit.submit(REPORTS[:1])

    run(work, patience=0.05)


def test_more_than_can_wait_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("veilgraph.collector.report_writer._MOST_WAITING", 5)

    async def work(commit: GroupCommit, store: Recorder) -> None:
        store.permitted.clear()
        first = asyncio.create_task(commit.submit(REPORTS[:5]))
        await asyncio.sleep(0)
        with pytest.raises(StoreUnavailableError, match="too many"):
            await commit.submit(REPORTS[5:6])
        store.permitted.set()
        await first

    run(work)


def test_nothing_to_submit_is_nothing_to_wait_for() -> None:
    async def work(commit: GroupCommit, _: Recorder) -> None:
        assert await commit.submit([]) == []

    assert run(work).transactions == []
