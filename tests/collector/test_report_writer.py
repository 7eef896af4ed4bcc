"""Group commit: no answer before the commit, no endless wait, and a failure concerns its own submission only."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence

import pytest
from sqlalchemy import create_engine

from tests.support.collection import Collection
from veilgraph.campaign.report import Report
from veilgraph.collector.database import Database
from veilgraph.collector.report_writer import ReportWriter
from veilgraph.collector.reports import Outcome, PutResult, Reports
from veilgraph.collector.store import ReportStore
from veilgraph.errors import StoreError, StoreFullError, StoreUnavailableError

COLLECTION = Collection.ring(50)
STORED = PutResult(Outcome.STORED, 0)
REPORTS = [COLLECTION.report(f"n{i}") for i in range(50)]


class Recorder(Reports):
    """Reports that record the sizes of their transactions, and commit when they are permitted to.

    A transaction that holds a report of a poisonous node fails as a whole.
    """

    def __init__(self) -> None:
        self.transactions: list[int] = []
        self.permitted = threading.Event()
        self.permitted.set()
        self.failures: list[Exception] = []
        self.poisonous: set[str] = set()
        self.stored: list[str] = []

    def put(self, submitted: Sequence[Report], *, now: float) -> list[PutResult]:
        self.permitted.wait(10)
        self.transactions.append(len(submitted))
        if self.failures:
            raise self.failures.pop()
        if self.poisonous & {report.node for report in submitted}:
            raise StoreError("the database reports an error: UntranslatableCharacter")
        self.stored += [report.node for report in submitted]
        return [STORED] * len(submitted)


def run(
    work: Callable[[ReportWriter, Recorder], Awaitable[None]],
    *,
    max_batch_size: int = 1000,
    max_queued: int = 20_000,
    max_delay: float = 10.0,
) -> Recorder:
    """Run `work` with a writer; return what it wrote to."""
    recorder = Recorder()
    store = ReportStore(Database(create_engine("sqlite://")))
    store.reports = recorder

    async def main() -> None:
        writer = ReportWriter(store, max_batch_size=max_batch_size, max_queued=max_queued, max_delay=max_delay)
        writer.start()
        await work(writer, recorder)
        recorder.permitted.set()
        await writer.stop()
        assert writer.queued == 0

    asyncio.run(main())
    return recorder


def test_submissions_during_one_transaction_share_the_next() -> None:
    async def work(writer: ReportWriter, store: Recorder) -> None:
        store.permitted.clear()
        tasks = [asyncio.create_task(writer.write([report])) for report in REPORTS]
        await asyncio.sleep(0.05)
        assert not any(task.done() for task in tasks), "a submission was answered before the commit"
        store.permitted.set()
        assert await asyncio.gather(*tasks) == [[STORED]] * 50

    store = run(work)
    assert sum(store.transactions) == 50
    assert len(store.transactions) <= 2


def test_a_submission_is_not_split() -> None:
    async def work(writer: ReportWriter, _: Recorder) -> None:
        parts = [REPORTS[start : start + 8] for start in range(0, 48, 8)]
        assert [len(r) for r in await asyncio.gather(*map(writer.write, parts))] == [8] * 6

    assert {size % 8 for size in run(work, max_batch_size=10).transactions} == {0}


def test_a_failure_reaches_its_own_submitters_and_the_next_batch_succeeds() -> None:
    async def work(writer: ReportWriter, store: Recorder) -> None:
        store.failures = [StoreUnavailableError("down")]
        with pytest.raises(StoreUnavailableError):
            await writer.write(REPORTS[:1])
        assert await writer.write(REPORTS[:1]) == [STORED]

    run(work)


def test_a_report_that_the_database_cannot_hold_fails_nobody_else() -> None:
    async def work(writer: ReportWriter, store: Recorder) -> None:
        store.poisonous = {"n7", "n31"}
        results = await asyncio.gather(*(writer.write([report]) for report in REPORTS), return_exceptions=True)
        failed = {report.node for report, result in zip(REPORTS, results, strict=True) if result != [STORED]}
        assert failed == store.poisonous
        assert all(isinstance(results[number], StoreError) for number in (7, 31))

    store = run(work)
    # Every other report is stored once, in the order of arrival; the search for two of fifty is short.
    assert store.stored == [report.node for report in REPORTS if report.node not in store.poisonous]
    assert len(store.transactions) <= 1 + 2 * 2 * 6


@pytest.mark.parametrize("error", [StoreUnavailableError("down"), StoreFullError("full")])
def test_a_store_that_is_down_or_full_is_not_asked_once_for_each_submission(error: Exception) -> None:
    async def work(writer: ReportWriter, store: Recorder) -> None:
        store.failures = [error] * 50
        results = await asyncio.gather(*(writer.write([report]) for report in REPORTS), return_exceptions=True)
        assert all(isinstance(result, type(error)) for result in results)

    assert len(run(work).transactions) <= 2


def test_a_store_that_hangs_is_unavailable_after_the_maximum_delay() -> None:
    async def work(writer: ReportWriter, store: Recorder) -> None:
        store.permitted.clear()
        with pytest.raises(StoreUnavailableError, match="takes too long"):
            await writer.write(REPORTS[:1])

    run(work, max_delay=0.05)


def test_more_reports_than_the_queue_holds_are_refused_at_once() -> None:
    async def work(writer: ReportWriter, store: Recorder) -> None:
        store.permitted.clear()
        first = asyncio.create_task(writer.write(REPORTS[:5]))
        await asyncio.sleep(0)
        with pytest.raises(StoreUnavailableError, match="too many"):
            await writer.write(REPORTS[5:6])
        store.permitted.set()
        await first

    run(work, max_queued=5)


def test_an_empty_submission_needs_no_transaction() -> None:
    async def work(writer: ReportWriter, _: Recorder) -> None:
        assert await writer.write([]) == []

    assert run(work).transactions == []


def test_a_writer_is_ready_while_it_runs_and_its_queue_has_room() -> None:
    async def work(writer: ReportWriter, store: Recorder) -> None:
        writer.check_ready()
        store.permitted.clear()
        tasks = [asyncio.create_task(writer.write([report])) for report in REPORTS[:2]]
        await asyncio.sleep(0.01)
        with pytest.raises(StoreUnavailableError, match="2 reports wait for the store"):
            writer.check_ready()
        writer.check_alive()
        store.permitted.set()
        await asyncio.gather(*tasks)
        writer.check_ready()
        await writer.stop()
        for check in (writer.check_alive, writer.check_ready):
            with pytest.raises(StoreUnavailableError, match="does not run: restart the collector"):
                check()

    run(work, max_queued=2)
