"""Files that a running collector takes up by itself when they change, and what it says of those that it does not."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

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
