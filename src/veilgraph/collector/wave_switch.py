"""Waves without a restart: a running collector of a series about private neighbours takes up the next wave by itself.

Each wave is an application of its own. The next one is made beside the open one and takes its place in one assignment,
so a request sees one wave or the other; requests that have begun are answered by the wave that they began with.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from fastapi import FastAPI
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from veilgraph.campaign import Campaign
from veilgraph.campaign.neighbours.series_folder import PublishedWave, following_waves
from veilgraph.campaign.notice import time_in_words
from veilgraph.collector.shared_parts import SharedParts
from veilgraph.errors import CampaignError, StoreUnavailableError, VeilgraphError

logger = logging.getLogger("veilgraph.collector")


class SeriesWatch:
    """The folder of a series, and what it held when it was last looked at.

    Args:
        folder: folder of the documents and tables; it need not exist yet.
        is_strict: whether a file that is not taken up is an error; a collector that runs logs it, and goes on.
    """

    def __init__(self, folder: Path, *, is_strict: bool = False) -> None:
        self._folder, self._is_strict = folder, is_strict
        self._seen: frozenset[tuple[str, int, int, int]] | None = None
        self._said: set[tuple[Path, str]] = set()

    def poll(self, current: Campaign) -> list[PublishedWave]:
        """Return the complete waves after the current document if files changed; log once why a file is refused."""
        if (signature := self._signature()) == self._seen:
            return []
        self._seen = signature
        return following_waves(self._folder, current, refused=self.refuse)

    def refuse(self, path: Path, why: str) -> None:
        """Log why a file is not taken up, once; raise an error of it where files are only checked."""
        if self._is_strict:
            raise CampaignError(f"{path} is not taken up: {why}")
        if (path, why) not in self._said:
            self._said.add((path, why))
            logger.error("%s is not taken up, and nothing changes: %s", path, why)

    def look_again(self) -> None:
        """Read the files at the next poll even if they do not change."""
        self._seen = None

    def _signature(self) -> frozenset[tuple[str, int, int, int]]:
        found = set()
        with suppress(OSError):  # a file may be renamed at this moment
            for path in (*self._folder.glob("*.json"), *self._folder.glob("*.beliefs")):
                status = path.stat()
                found.add((path.name, status.st_mtime_ns, status.st_size, status.st_ino))
        return frozenset(found)


class WaveSwitch:
    """ASGI application of a series: the open wave, and after it the next one that is complete in the folder.

    Args:
        app: application of the wave that is open, made with the same `shared`.
        watch: the folder.
        make: makes the application of the next wave; it raises an error of the package where that cannot be served.
        shared: what all waves share: the store, its writer, the rate limit.
        is_alone: whether the parts in `shared` are started and stopped here.
        seconds: time between two looks at the folder.
    """

    def __init__(
        self,
        app: FastAPI,
        *,
        watch: SeriesWatch,
        make: Callable[[PublishedWave], FastAPI],
        shared: SharedParts,
        is_alone: bool,
        seconds: float = 2.0,
    ) -> None:
        self._app, self._watch, self._make, self._shared = app, watch, make, shared
        self._is_alone, self._seconds = is_alone, seconds
        self._lifespan = Router(lifespan=lambda _: self.running())
        self._open: AbstractAsyncContextManager[object]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve the open wave and take up the next ones, as long as the context lasts."""
        async with AsyncExitStack() as stack:
            if self._is_alone:
                await stack.enter_async_context(self._shared.running())
            await self._start(self._app)
            logger.info("%s is open", _title(self._current))
            switching = asyncio.create_task(self._switch_regularly())
            try:
                yield
            finally:
                switching.cancel()
                await asyncio.wait([switching])
                await self._open.__aexit__(None, None, None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request to the open wave."""
        await (self._lifespan if scope["type"] == "lifespan" else self._app)(scope, receive, send)

    @property
    def _current(self) -> Campaign:
        current: Campaign = self._app.state.campaign()
        return current

    async def _start(self, app: FastAPI) -> None:
        opened = app.router.lifespan_context(app)
        await opened.__aenter__()
        self._app, self._open = app, opened

    async def _switch_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._seconds)
            for wave in await asyncio.to_thread(self._watch.poll, self._current):
                if not await self._take_up(wave):
                    break

    async def _take_up(self, wave: PublishedWave) -> bool:
        """Open the wave in place of the one before it; return whether it could be opened."""
        try:
            app = await asyncio.to_thread(self._make, wave)
            before = self._open
            await self._start(app)
        except StoreUnavailableError:
            self._shared.database.suspect()
            self._watch.look_again()
            return False
        except VeilgraphError as error:
            self._watch.refuse(wave.path, str(error))
            return False
        await before.__aexit__(None, None, None)
        closes = time_in_words(wave.campaign.notice.closes)
        logger.info("%s is taken up; open until %s", _title(wave.campaign), closes)
        return True


def _title(campaign: Campaign) -> str:
    return f"{campaign.asked.documents.name} of series {campaign.series}, campaign {campaign.id},"
