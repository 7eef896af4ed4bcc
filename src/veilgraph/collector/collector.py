"""The collector of a process as one ASGI application: what it shares is started once, and what it serves after that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Protocol

from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from veilgraph.collector.bodies import Bodies
from veilgraph.collector.middleware import Limits, TokenBuckets
from veilgraph.collector.outages import DatabaseWatch
from veilgraph.collector.report_writer import ReportWriter
from veilgraph.collector.retention import purge_unserved_regularly
from veilgraph.collector.store import ReportStore

_FILES = 5
"""Files of the participant's page for each request that the rate of an address counts. At once, ten times as many:
with the default limits 1,000 phones behind one address load the page at the same time."""


class SharedParts:
    """The parts of a process that serves one campaign or several, for each store.

    Args:
        store: store of the reports of all campaigns.
        limits: limits on requests. An address has one rate for all campaigns.
        clock: Unix time.
        maintenance_seconds: time between two looks at notices and retention dates.
        beside: parts of another store in the same process, whose limits of senders hold for both together.

    Attributes:
        store: store of the reports.
        writer: the only writer of the store in this process.
        buckets: rate limit of each sender.
        file_buckets: rate limit of each sender for files of the participant's page.
        bodies: bodies of requests that are being received or worked on.
        batches: held while a batch of reports is worked on, so that there is one at a time.
        database: whether the database answers.
        served: ids of the campaigns.
        assessing: held while a process computes an assessment, so that there is one such process at a time.
        limits: limits on requests.
        clock: Unix time.
        maintenance_seconds: time between two looks at notices and retention dates.
    """

    def __init__(
        self,
        store: ReportStore,
        *,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.time,
        maintenance_seconds: float = 60.0,
        beside: SharedParts | None = None,
    ) -> None:
        self.limits = limits = limits or Limits()
        self.store, self.clock, self.maintenance_seconds = store, clock, maintenance_seconds
        self.writer = ReportWriter(store, clock=clock)
        buckets = TokenBuckets(per_second=limits.requests_per_second, burst=limits.burst)
        of_files = TokenBuckets(per_second=_FILES * limits.requests_per_second, burst=10 * _FILES * limits.burst)
        self.buckets: TokenBuckets = buckets if beside is None else beside.buckets
        self.file_buckets: TokenBuckets = of_files if beside is None else beside.file_buckets
        self.bodies: Bodies = Bodies(self.buckets) if beside is None else beside.bodies
        self.batches: asyncio.Lock = asyncio.Lock() if beside is None else beside.batches
        self.served: set[str] = set()
        self.assessing: asyncio.Lock = asyncio.Lock() if beside is None else beside.assessing
        self.database = DatabaseWatch(store.database)

    async def check_ready(self) -> None:
        """Raise an error unless reports can be stored: database, room, version of the tables, writer and queue."""
        self.writer.check_ready()
        self.database.check()
        await asyncio.to_thread(self.store.database.check)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write reports as long as the context lasts; then commit those that wait, and close the store."""
        self.writer.start()
        purging = purge_unserved_regularly(self.store, self.served, clock=self.clock, seconds=self.maintenance_seconds)
        tasks = [asyncio.create_task(self.database.watch()), asyncio.create_task(purging)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await self.writer.stop()
            self.store.close()


class Application(Protocol):
    """ASGI application of a campaign, a series or several of them; it answers requests as long as `running` lasts."""

    def running(self) -> AbstractAsyncContextManager[None]:
        """Do what is done beside answering."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""


class Collector:
    """ASGI application of a process.

    Args:
        application: application that answers all requests.
        shared: what its campaigns share, for each store.
    """

    def __init__(self, application: Application, *shared: SharedParts) -> None:
        self._application, self._shared = application, shared
        self._lifespan = Router(lifespan=self._running)

    @asynccontextmanager
    async def _running(self, _: object) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for parts in self._shared:
                await stack.enter_async_context(parts.running())
            await stack.enter_async_context(self._application.running())
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or start and stop."""
        await (self._lifespan if scope["type"] == "lifespan" else self._application)(scope, receive, send)
