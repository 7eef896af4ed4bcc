"""Outages of the database: each is one line of the log when it begins and one when it ends."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

from veilgraph.collector.store import ReportStore
from veilgraph.errors import StoreError, StoreUnavailableError

logger = logging.getLogger("veilgraph.collector")


class DatabaseWatch:
    """Whether the database answers. It is asked now and then, and at once when a request found that it does not.

    Args:
        store: store whose database is watched.
        clock: monotonic time in seconds.
        seconds: time between two questions while it answers.
        retry_seconds: time between two questions while it does not.
    """

    def __init__(
        self,
        store: ReportStore,
        *,
        clock: Callable[[], float] = time.monotonic,
        seconds: float = 10.0,
        retry_seconds: float = 1.0,
    ) -> None:
        self._store, self._clock, self._seconds, self._retry_seconds = store, clock, seconds, retry_seconds
        self._is_up = True
        self._suspected = asyncio.Event()
        self._began: float | None = None
        self._refused = 0

    @property
    def is_up(self) -> bool:
        """Whether the database answered when it was last asked."""
        return self._is_up

    def count_refusal(self) -> None:
        """Count a request that was refused because the store is unavailable, and let the database be asked."""
        self._refused += 1
        self.suspect()

    def suspect(self) -> None:
        """Let the database be asked, because something found it unavailable."""
        if self._began is None:
            self._began = self._clock()
        self._suspected.set()

    async def watch(self) -> None:
        """Watch until cancelled."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._suspected.wait(), self._seconds)
            self._suspected.clear()
            asked = self._clock()
            if not await self._answers():
                self._is_up = False
                logger.error("the database does not answer: requests that need it are answered with 503")
                await self._wait_until_it_answers()
                self._is_up = True
                seconds = self._clock() - (asked if self._began is None else self._began)
                logger.info(
                    "the database answers again after %.1f seconds; requests answered with 503 meanwhile: %d",
                    seconds,
                    self._refused,
                )
            self._began, self._refused = None, 0

    async def _wait_until_it_answers(self) -> None:
        while not await self._answers():
            await asyncio.sleep(self._retry_seconds)

    async def _answers(self) -> bool:
        try:
            await asyncio.to_thread(self._store.check)
        except StoreUnavailableError:
            return False
        except StoreError:
            return True  # with an error, which is no outage
        return True
