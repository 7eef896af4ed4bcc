"""Revised notices: a running collector takes up a changed campaign file by itself.

Reports are bound to the other part of the document, so a file with another id is another campaign, and is not taken up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from veilgraph.campaign import Campaign
from veilgraph.campaign.notice import time_in_words
from veilgraph.collector.watched_files import WatchedFiles
from veilgraph.errors import CampaignError

logger = logging.getLogger("veilgraph.collector")


class RevisedFile:
    """A campaign file whose notice may be revised.

    Args:
        path: the campaign file.
        current: campaign that is served now.
    """

    def __init__(self, path: Path, current: Campaign) -> None:
        self._path, self._current = path, current
        self._files = WatchedFiles(lambda: [path])

    def poll(self) -> Campaign | None:
        """Return the campaign with its revised notice if the file changed to one; log why another change is refused."""
        if not self._files.have_changed():
            return None
        try:
            revised = Campaign.from_json(self._path.read_bytes())
            self._check(revised)
        except (OSError, CampaignError) as error:
            why = f"it cannot be read ({error.strerror})" if isinstance(error, OSError) else str(error)
            self._files.refuse(self._path, why)
            return None
        if revised == self._current:
            return None
        self._current = revised
        closes = time_in_words(revised.notice.closes)
        logger.info("notice %d of campaign %s is taken up; open until %s", revised.notice.version, revised.id, closes)
        return revised

    def _check(self, revised: Campaign) -> None:
        before, after = self._current.notice.version, revised.notice.version
        if revised.id != self._current.id:
            raise CampaignError(f"it holds another campaign, {revised.id}: start a collector for it")
        if after < before:
            raise CampaignError(
                f"it holds notice {after}, older than {before}, which devices have seen: use 'campaign revise'"
            )
        if after == before and revised != self._current:
            raise CampaignError(f"it holds another notice of the same version, {after}: use 'campaign revise'")


async def take_up_revisions(file: RevisedFile, take_up: Callable[[Campaign], None], *, seconds: float = 2.0) -> None:
    """Look at the file regularly, and hand on each revised campaign."""
    while True:
        await asyncio.sleep(seconds)
        if (revised := await asyncio.to_thread(file.poll)) is not None:
            take_up(revised)
