"""Revised notices: a running collector takes up a changed campaign file, and scheduled rounds that open, by itself.

Reports are bound to the other part of the document, so a file with another id is another campaign, and is not taken up.
`WatchedFiles` says when files have changed, here and in the folder of a series.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from veilgraph.campaign import Campaign
from veilgraph.campaign.notice import time_in_words
from veilgraph.campaign.round_schedule import ScheduledRound, due, read_schedule, schedule_path
from veilgraph.errors import CampaignError

logger = logging.getLogger("veilgraph.collector")


class WatchedFiles:
    """Files, and how they were when they were last looked at.

    Args:
        find: returns the files; they need not exist yet.
        is_strict: whether a file that is not taken up is an error; a collector that runs logs it, and goes on.
    """

    def __init__(self, find: Callable[[], Iterable[Path]], *, is_strict: bool = False) -> None:
        self._find, self._is_strict = find, is_strict
        self._seen: frozenset[tuple[Path, int, int, int]] | None = None
        self._said: set[tuple[Path, str]] = set()

    def have_changed(self) -> bool:
        """Return whether a file changed, came or went since the last call; the first call returns True."""
        seen, self._seen = self._seen, self._signature()
        return seen != self._seen

    def look_again(self) -> None:
        """Let the files count as changed, although they did not change."""
        self._seen = None

    def refuse(self, path: Path, why: str) -> None:
        """Log why a file is not taken up, once; raise an error of it where files are only checked."""
        if self._is_strict:
            raise CampaignError(f"{path} is not taken up: {why}")
        if (path, why) not in self._said:
            self._said.add((path, why))
            logger.error("%s is not taken up, and nothing changes: %s", path, why)

    def _signature(self) -> frozenset[tuple[Path, int, int, int]]:
        found = set()
        with suppress(OSError):  # a file may be renamed at this moment
            for path in self._find():
                status = path.stat()
                found.add((path, status.st_mtime_ns, status.st_size, status.st_ino))
        return frozenset(found)


logger = logging.getLogger("veilgraph.collector")


class RevisedFile:
    """A campaign file whose notice may be revised.

    Args:
        path: the campaign file.
        current: campaign that is served now.
        clock: the time.
    """

    def __init__(
        self, path: Path, current: Campaign, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._path, self._current, self._clock = path, current, clock
        self._document, self._rounds = current, read_schedule(path)
        self._files = WatchedFiles(lambda: [each for each in (path, schedule_path(path)) if each.exists()])

    def poll(self) -> Campaign | None:
        """Return the campaign with its revised notice if there is one; log why another change of the file is refused.

        A notice is revised by the file, and by a scheduled round that opens.
        """
        try:
            if self._files.have_changed():
                self._document, self._rounds = self._read()
            revised = due(self._document, self._rounds, now=self._clock())
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

    def _read(self) -> tuple[Campaign, tuple[ScheduledRound, ...]]:
        document = Campaign.from_json(self._path.read_bytes())
        self._check(due(document, (rounds := read_schedule(self._path)), now=self._clock()))
        return document, rounds

    def _check(self, revised: Campaign) -> None:
        before, after = self._current.notice.version, revised.notice.version
        if revised.id != self._current.id:
            raise CampaignError(f"it holds another campaign, {revised.id}: start a collector for it")
        if after < before:
            raise CampaignError(
                f"it holds notice {after}, older than {before}, which devices have seen: put the newest file back"
            )
        if after == before and revised != self._current:
            raise CampaignError(
                f"it holds another notice of the same version, {after}: revise it with 'veilgraph init'"
            )
        revised.notice.check_public(self._current.notice)


async def take_up_revisions(file: RevisedFile, take_up: Callable[[Campaign], None], *, seconds: float = 2.0) -> None:
    """Look at the file regularly, and hand on each revised campaign."""
    while True:
        await asyncio.sleep(seconds)
        if (revised := await asyncio.to_thread(file.poll)) is not None:
            take_up(revised)
