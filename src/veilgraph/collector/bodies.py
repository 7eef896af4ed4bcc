"""Bodies of requests: each arrives within a size and a time, and all that are held together have a size, too."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect, Request

from veilgraph.collector.errors import Refusal, RefusalReason
from veilgraph.collector.middleware import TokenBuckets, sender_of

_MOST_BYTES = 64 * 2**20


class Bodies:
    """Bodies that are being received or worked on. Their bytes count in the senders' rates.

    Args:
        buckets: rate limit of each sender.
        most_bytes: maximum size of all of them together; one sender has a quarter of it.
    """

    def __init__(self, buckets: TokenBuckets, *, most_bytes: int = _MOST_BYTES) -> None:
        self._buckets, self._most, self._most_of_one = buckets, most_bytes, most_bytes // 4
        self._held: Counter[str] = Counter()
        self._total = 0

    @asynccontextmanager
    async def receive(
        self,
        request: Request,
        *,
        max_bytes: int,
        seconds: float,
        check: Callable[[bytearray], bool] = lambda _: True,
    ) -> AsyncIterator[bytes]:
        """Receive the whole body of a request, and hold it as long as the context lasts.

        Args:
            request: the request.
            max_bytes: maximum size of the body.
            seconds: time within which it must arrive.
            check: takes what has arrived so far until it returns True; it refuses the request by an error.
        """
        sender, held, is_checked = sender_of(request.client), bytearray(), False

        def take(piece: bytes) -> None:
            nonlocal is_checked
            if self._total + len(piece) > self._most or self._held[sender] + len(piece) > self._most_of_one:
                raise Refusal(RefusalReason.TOO_BUSY)
            self._total += len(piece)
            self._held[sender] += len(piece)
            held.extend(piece)
            is_checked = is_checked or check(held)

        try:
            await self._each_piece(request, max_bytes=max_bytes, seconds=seconds, take=take)
            yield bytes(held)
        finally:
            self._total -= len(held)
            self._held[sender] -= len(held)
            if not self._held[sender]:
                del self._held[sender]

    async def discard(self, request: Request, *, max_bytes: int, seconds: float) -> None:
        """Read the body of a refused request, and keep none of it.

        A connection that is closed before its request was read is reset, and the sender may not see the answer.
        """
        await self._each_piece(request, max_bytes=max_bytes, seconds=seconds, take=lambda _: None)

    async def _each_piece(
        self, request: Request, *, max_bytes: int, seconds: float, take: Callable[[bytes], None]
    ) -> None:
        """Hand over the pieces of a body; refuse one that is too long or too slow."""
        declared, sender, received = request.headers.get("content-length", "0"), sender_of(request.client), 0
        if not declared.isdecimal() or int(declared) > max_bytes:
            raise _too_large(max_bytes)
        try:
            async with asyncio.timeout(seconds):
                async for piece in request.stream():
                    received += len(piece)
                    if received > max_bytes:
                        raise _too_large(max_bytes)
                    self._buckets.charge(sender, len(piece))
                    take(piece)
        except TimeoutError:
            detail = f"the request did not arrive within {seconds:g} seconds"
            raise Refusal(RefusalReason.TOO_SLOW, detail) from None
        except ClientDisconnect:
            raise Refusal(RefusalReason.BROKEN_OFF) from None


def _too_large(max_bytes: int) -> Refusal:
    return Refusal(RefusalReason.TOO_LARGE, f"a request may have at most {max_bytes:,} bytes")
