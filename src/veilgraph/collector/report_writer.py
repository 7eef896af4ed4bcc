"""Group commit: reports that arrive at the same time share one transaction, and one wait for the disk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from veilgraph.campaign.report import Report
from veilgraph.collector.deletions import Withdrawal
from veilgraph.collector.reports import PutResult
from veilgraph.collector.store import ReportStore
from veilgraph.errors import StoreFullError, StoreUnavailableError

# Errors that no report causes: repeating a transaction in parts would only take longer.
_STORE_AT_FAULT = (StoreFullError, StoreUnavailableError)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Submission:
    reports: Sequence[Report]
    outcomes: asyncio.Future[list[PutResult]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class ReportWriter:
    """The only writer of a store in this process.

    While one transaction waits for the disk, further submissions queue up; the next transaction takes them all. The
    reports of one submission share a transaction. A submission is answered after its transaction is on disk.

    A transaction that fails because of what it holds is repeated in halves, until the submission at fault is alone.
    So no sender can fail the submission of another.

    Args:
        store: store of the reports.
        clock: Unix time.
        max_batch_size: number of reports after which a transaction takes no further submission.
        max_queued: number of reports that may wait; submissions beyond it are refused at once.
        max_delay: seconds after which a submission without an outcome fails.
    """

    def __init__(
        self,
        store: ReportStore,
        *,
        clock: Callable[[], float] = time.time,
        max_batch_size: int = 1000,
        max_queued: int = 20_000,
        max_delay: float = 20.0,
    ) -> None:
        self._store, self._clock = store, clock
        self._max_batch_size, self._max_queued, self._max_delay = max_batch_size, max_queued, max_delay
        self._queue: asyncio.Queue[_Submission] = asyncio.Queue()
        self._queued_reports = 0
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="report-writer")
        self._task: asyncio.Task[None] | None = None

    @property
    def queued(self) -> int:
        """Number of reports that are not committed yet."""
        return self._queued_reports

    def check_alive(self) -> None:
        """Raise an error unless the writer runs; only a restart of the process helps against that."""
        if self._task is None or self._task.done():
            raise StoreUnavailableError("the writer of reports does not run: restart the collector")

    def check_ready(self) -> None:
        """Raise an error unless the writer runs, and its queue has room for a report."""
        self.check_alive()
        if self._queued_reports >= self._max_queued:
            raise StoreUnavailableError(f"{self._queued_reports} reports wait for the store: send again later")

    def start(self) -> None:
        """Start writing, in the event loop that submits."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Commit the queued reports, then stop."""
        if self._task is None:
            return
        while self._queued_reports and not self._task.done():
            await asyncio.sleep(0.01)
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        self._thread.shutdown()

    async def write(self, reports: Sequence[Report]) -> list[PutResult]:
        """Write the reports; return the outcome of each after its transaction is on disk."""
        if not reports:
            return []
        if self._queued_reports + len(reports) > self._max_queued:
            raise StoreUnavailableError("too many reports wait for the store: send again later")
        submission = _Submission(reports=reports)
        self._queued_reports += len(reports)
        self._queue.put_nowait(submission)
        try:
            async with asyncio.timeout(self._max_delay):
                return await submission.outcomes
        except TimeoutError:
            raise StoreUnavailableError(
                "the store takes too long: the report may be stored or not; send it again later"
            ) from None

    async def withdraw(self, campaign_id: str, node: str) -> Withdrawal:
        """Delete the reports of a node, between two transactions of reports; return when that is on disk."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._max_delay):
                return await loop.run_in_executor(
                    self._thread, lambda: self._store.withdrawals.withdraw(campaign_id, node, now=self._clock())
                )
        except TimeoutError:
            raise StoreUnavailableError(
                "the store takes too long: the report may be withdrawn or not; withdraw it again later"
            ) from None

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            # Parts of the batch that are not committed, the last one first.
            parts = [await self._next_batch()]
            while parts:
                part = parts.pop()
                reports = [report for submission in part for report in submission.reports]
                try:
                    results = await loop.run_in_executor(self._thread, self._put, reports)
                except Exception as error:  # noqa: BLE001  the submitters get it; the next batch may succeed
                    if len(part) > 1 and not isinstance(error, _STORE_AT_FAULT):
                        middle = len(part) // 2
                        parts += [part[middle:], part[:middle]]
                        continue
                    _resolve(part, error)
                else:
                    _resolve(part, results)
                self._queued_reports -= len(reports)

    async def _next_batch(self) -> list[_Submission]:
        batch = [await self._queue.get()]
        size = len(batch[0].reports)
        while not self._queue.empty() and size < self._max_batch_size:
            batch.append(self._queue.get_nowait())
            size += len(batch[-1].reports)
        return batch

    def _put(self, reports: list[Report]) -> list[PutResult]:
        return self._store.reports.put(reports, now=self._clock())


def _resolve(batch: list[_Submission], result: list[PutResult] | Exception) -> None:
    start = 0
    for submission in batch:
        end = start + len(submission.reports)
        if submission.outcomes.done():  # the submitter gave up
            pass
        elif isinstance(result, Exception):
            submission.outcomes.set_exception(result)
        else:
            submission.outcomes.set_result(result[start:end])
        start = end
