"""How much, how fast and how long: what one sender may ask of the collector."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import ClientDisconnect, Request

from veilgraph.campaign import Campaign
from veilgraph.collector.refusal import Refusal
from veilgraph.report import LONGEST_NODE

MOST_IN_A_BATCH = 1000
_MOST_SENDERS = 50_000
# Keys, the campaign's id and the label.
_FRAME_BYTES = 2048


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What the collector puts up with.

    Args:
        report_bytes: of one report; `most_report_bytes` says what a campaign needs.
        batch_bytes: of many reports in one request.
        body_seconds: for a whole request body to arrive.
        requests_per_second: of one address, on average; 0 is no limit.
        burst: requests of one address at once.
    """

    report_bytes: int = 64 * 1024
    batch_bytes: int = 16 * 1024 * 1024
    body_seconds: float = 10.0
    requests_per_second: float = 50.0
    burst: int = 200


def most_report_bytes(campaign: Campaign) -> int:
    """Room for the longest report of the campaign with every character escaped, and as much again for spaces."""
    codes = sum(len(str(size - 1)) + 1 for size in campaign.schema.domain_sizes)
    return 2 * (codes + 12 * LONGEST_NODE) + _FRAME_BYTES


class RateLimit:
    """A token bucket per sender. Time is monotonic, so that setting the clock neither opens nor closes it.

    >>> now = iter([0.0, 0.0, 0.0, 1.0])
    >>> limit = RateLimit(per_second=1, burst=2, clock=lambda: next(now))
    >>> [limit.allows("a") for _ in range(4)]
    [True, True, False, True]
    """

    def __init__(self, *, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second, self._burst, self._clock = per_second, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, sender: str) -> bool:
        """Whether the sender may go on; counts the request."""
        if self._per_second <= 0:
            return True
        now = self._clock()
        left, since = self._buckets.pop(sender, (float(self._burst), now))
        left = min(self._burst, left + (now - since) * self._per_second)
        allowed = left >= 1
        self._buckets[sender] = (left - 1 if allowed else left, now)
        # The senders that were quiet the longest have full buckets again, or nearly so.
        while len(self._buckets) > _MOST_SENDERS:
            self._buckets.popitem(last=False)
        return allowed


async def read_body(request: Request, *, most_bytes: int, seconds: float) -> bytes:
    """The whole body, unless it is too long or too slow."""
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared) > most_bytes:
        raise Refusal(413, "too_large", f"a request may have {most_bytes:,} bytes at most")
    received = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                received += chunk
                if len(received) > most_bytes:
                    raise Refusal(413, "too_large", f"a request may have {most_bytes:,} bytes at most")
    except TimeoutError:
        raise Refusal(408, "too_slow", f"the request did not arrive within {seconds:g} seconds") from None
    except ClientDisconnect:
        raise Refusal(400, "broken_off", "the request ended early") from None
    return bytes(received)
