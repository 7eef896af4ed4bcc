"""Limit on how often one place in the code writes to the log, so that no sender can fill the disk with it."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable

from veilgraph.collector.middleware import TokenBuckets


class LogRateLimit(logging.Filter):
    """Filter for a log handler: lines of one place beyond the rate are counted and left out.

    The next line of that place says how many were left out.

    Args:
        per_second: average rate of one place.
        burst: number of lines that it may write at once.
        clock: monotonic time in seconds.
    """

    def __init__(
        self, *, per_second: float = 0.1, burst: int = 20, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._buckets = TokenBuckets(per_second=per_second, burst=burst, clock=clock)
        self._left_out: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is written; add the number of those that were left out before it."""
        # The place and not the text, which can differ in every line.
        place = f"{record.pathname}:{record.lineno}"
        if not self._buckets.allow(place):
            self._left_out[place] += 1
            return False
        if left_out := self._left_out.pop(place, 0):
            record.msg = f"{record.msg} ({left_out} more like this were left out)"
        return True
