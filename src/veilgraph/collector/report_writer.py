"""Reports that arrive together are committed together: one wait for the disk, however many there are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from veilgraph.campaign.report import Report
from veilgraph.collector.store import Outcome, ReportStore
from veilgraph.errors import StoreUnavailableError

_LARGEST_TRANSACTION = 1000
_MOST_WAITING = 20_000


@dataclass(frozen=True, kw_only=True, eq=False)
class _Submission:
    reports: Sequence[Report]
    outcomes: asyncio.Future[list[Outcome]] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class GroupCommit:
    """The only writer of a store in this process.

    While one transaction waits for the disk, further submissions gather; the next transaction takes them all. One
    submission is never split over two transactions. Nobody is answered before the transaction is on disk.

    Args:
        store: where the reports go.
        clock: Unix time.
        patience: seconds after which whoever submitted is told to try again.
    """

    def __init__(self, store: ReportStore, *, clock: Callable[[], float] = time.time, patience: float = 20.0) -> None:
        self._store, self._clock, self._patience = store, clock, patience
        self._waiting: asyncio.Queue[_Submission] = asyncio.Queue()
        self._waiting_reports = 0
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="group-commit")
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Reports that were not yet committed."""
        return self._waiting_reports

    def start(self) -> None:
        """Begin to commit; call it in the loop that submits."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Commit what is waiting, then end."""
        if self._task is None:
            return
        while self._waiting_reports and not self._task.done():
            await asyncio.sleep(0.01)
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        self._thread.shutdown()

    async def submit(self, reports: Sequence[Report]) -> list[Outcome]:
        """What became of each report, once that is on disk."""
        if not reports:
            return []
        if self._waiting_reports + len(reports) > _MOST_WAITING:
            raise StoreUnavailableError("too many reports are waiting for the store: send again later")
        submission = _Submission(reports=reports)
        self._waiting_reports += len(reports)
        self._waiting.put_nowait(submission)
        try:
            async with asyncio.timeout(self._patience):
                return await submission.outcomes
        except TimeoutError:
            raise StoreUnavailableError("the store takes too long: nothing is certain; send again later") from None

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            group = await self._next_group()
            reports = [report for submission in group for report in submission.reports]
            try:
                outcomes = await loop.run_in_executor(self._thread, self._put, reports)
            except Exception as error:  # noqa: BLE001  whoever submitted is told; the next group may succeed
                _settle(group, error)
            else:
                _settle(group, outcomes)
            finally:
                self._waiting_reports -= len(reports)

    async def _next_group(self) -> list[_Submission]:
        group = [await self._waiting.get()]
        size = len(group[0].reports)
        while not self._waiting.empty() and size < _LARGEST_TRANSACTION:
            group.append(self._waiting.get_nowait())
            size += len(group[-1].reports)
        return group

    def _put(self, reports: list[Report]) -> list[Outcome]:
        return self._store.put(reports, now=self._clock())


def _settle(group: list[_Submission], result: list[Outcome] | Exception) -> None:
    start = 0
    for submission in group:
        end = start + len(submission.reports)
        if submission.outcomes.done():  # whoever waited for it has gone
            pass
        elif isinstance(result, Exception):
            submission.outcomes.set_exception(result)
        else:
            submission.outcomes.set_result(result[start:end])
        start = end
