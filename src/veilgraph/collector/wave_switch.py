"""Waves without a restart: a running collector of a series about private neighbours takes up the next wave by itself.

Each wave is an application of its own. The next one is made beside the open one and takes its place in one assignment,
so a request sees one wave or the other; requests that have begun are answered by the wave that they began with.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from starlette.types import Receive, Scope, Send

from veilgraph.campaign import Campaign
from veilgraph.campaign.notice import time_in_words
from veilgraph.campaign.series_folder import PublishedWave
from veilgraph.collector.app import CampaignApp
from veilgraph.collector.served_campaign import ServedSeries
from veilgraph.errors import StoreUnavailableError, VeilgraphError

logger = logging.getLogger("veilgraph.collector")


class WaveSwitch:
    """ASGI application of a series: the open wave, and after it the next one that is complete in the folder.

    Args:
        wave: application of the wave that is open.
        series: the folder.
        seconds: time between two looks at the folder.
    """

    def __init__(self, wave: CampaignApp, series: ServedSeries, *, seconds: float = 2.0) -> None:
        self._wave, self._series, self._seconds = wave, series, seconds
        self._open: AbstractAsyncContextManager[None]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve the open wave and take up the next ones, as long as the context lasts."""
        await self._start(self._wave)
        logger.info("%s is open", _title(self._wave.campaign))
        switching = asyncio.create_task(self._switch_regularly())
        try:
            yield
        finally:
            switching.cancel()
            await asyncio.wait([switching])
            await self._open.__aexit__(None, None, None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request to the open wave."""
        await self._wave(scope, receive, send)

    async def _start(self, wave: CampaignApp) -> None:
        opened = wave.running()
        await opened.__aenter__()
        self._wave, self._open = wave, opened

    async def _switch_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._seconds)
            for wave in await asyncio.to_thread(self._series.poll, self._wave.campaign):
                if not await self._take_up(wave):
                    break

    async def _take_up(self, wave: PublishedWave) -> bool:
        """Open the wave in place of the one before it; return whether it could be opened."""
        try:
            following = await asyncio.to_thread(self._wave.followed_by, wave)
            before = self._open
            await self._start(following)
        except StoreUnavailableError:
            self._wave.shared.database.suspect()
            self._series.files.look_again()
            return False
        except VeilgraphError as error:
            self._series.files.refuse(wave.path, str(error))
            return False
        await before.__aexit__(None, None, None)
        closes = time_in_words(wave.campaign.notice.closes)
        logger.info("%s is taken up; open until %s", _title(wave.campaign), closes)
        return True


def _title(campaign: Campaign) -> str:
    return f"{campaign.asked.documents.name} of series {campaign.series}, campaign {campaign.id},"
