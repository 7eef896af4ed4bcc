"""Outages of the database: each is one line of the log when it begins and one when it ends.

A full store is one, too: the database answers, and takes no report.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

from veilgraph.collector.database import Database
from veilgraph.errors import StoreError, StoreFullError, StoreUnavailableError

logger = logging.getLogger("veilgraph.collector")

# Lines of the log when an outage begins and when it ends.
_AWAY = (
    "the database does not answer: requests that need it are answered with 503",
    "the database answers again after %.1f seconds; requests answered with 503 meanwhile: %d",
)
_FULL = (
    "the store is full: reports are answered with 507 until there is room",
    "the store has room again after %.1f seconds; requests answered with 507 meanwhile: %d",
)


class DatabaseWatch:
    """Whether the database answers and has room. It is asked now and then, and at once when a request failed.

    After a failed request, and as long as an outage lasts, it is also asked to write.

    Args:
        database: the database.
        clock: monotonic time in seconds.
        seconds: time between two questions while it answers.
        retry_seconds: time between two questions while it does not.
    """

    def __init__(
        self,
        database: Database,
        *,
        clock: Callable[[], float] = time.monotonic,
        seconds: float = 10.0,
        retry_seconds: float = 1.0,
    ) -> None:
        self._database, self._clock, self._seconds, self._retry_seconds = database, clock, seconds, retry_seconds
        self._fault: StoreError | None = None
        self._suspected = asyncio.Event()
        self._began: float | None = None
        self._refused = 0

    @property
    def is_up(self) -> bool:
        """Whether the database answered, and had room, when it was last asked."""
        return self._fault is None

    def check(self) -> None:
        """Raise an error during an outage."""
        if self._fault is not None:
            raise StoreUnavailableError(str(self._fault))

    def count_refusal(self) -> None:
        """Count a request that was refused because of the store, and let the database be asked."""
        self._refused += 1
        self.suspect()

    def suspect(self) -> None:
        """Let the database be asked, because something found it unavailable or full."""
        if self._began is None:
            self._began = self._clock()
        self._suspected.set()

    async def watch(self) -> None:
        """Watch until cancelled."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._suspected.wait(), self._seconds)
            writes = self._suspected.is_set()
            self._suspected.clear()
            asked = self._clock()
            self._fault = await self._find_fault(writes=writes)
            if self._fault is not None:
                begins, ends = _FULL if isinstance(self._fault, StoreFullError) else _AWAY
                logger.error(begins)
                while self._fault is not None:
                    await asyncio.sleep(self._retry_seconds)
                    self._fault = await self._find_fault(writes=True)
                logger.info(ends, self._clock() - (asked if self._began is None else self._began), self._refused)
            self._began, self._refused = None, 0

    async def _find_fault(self, *, writes: bool) -> StoreError | None:
        try:
            await asyncio.to_thread(self._database.check)
            if writes:
                await asyncio.to_thread(self._database.check_writes)
        except (StoreUnavailableError, StoreFullError) as error:
            return error
        except StoreError:
            return None  # an error, which is no outage
        return None
