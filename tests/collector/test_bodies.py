"""Bodies that are received are bounded one by one, by sender and all together, and count in the senders' rates."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest
from starlette.requests import Request

from veilgraph.collector.bodies import Bodies
from veilgraph.collector.errors import Refusal, RefusalReason
from veilgraph.collector.middleware import TokenBuckets

KIB = 1024


def request(size: int, sender: str = "192.0.2.1", *, taken: list[int] | None = None) -> Request:
    """Return a request whose body arrives in pieces of 1 KiB; `taken` gets the size of each that is read."""
    pieces = [b"x" * KIB] * (size // KIB)

    async def receive() -> dict[str, Any]:
        piece = pieces.pop()
        if taken is not None:
            taken.append(len(piece))
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    scope = {"type": "http", "method": "POST", "headers": [], "client": (sender, 1)}
    return Request(scope, receive)


def bodies(*, per_second: float = 0, burst: int = 1) -> tuple[Bodies, TokenBuckets]:
    buckets = TokenBuckets(per_second=per_second, burst=burst, clock=lambda: 0.0)
    return Bodies(buckets, most_bytes=64 * KIB), buckets


def refused(work: Any) -> RefusalReason:
    with pytest.raises(Refusal) as caught:
        asyncio.run(work)
    return caught.value.reason


async def hold(held: Bodies, *requests: Request) -> None:
    async with AsyncExitStack() as stack:
        for each in requests:
            await stack.enter_async_context(held.receive(each, max_bytes=64 * KIB, seconds=1))


def test_one_sender_has_a_quarter_of_what_is_held_and_gets_it_back() -> None:
    held, _ = bodies()
    asyncio.run(hold(held, request(8 * KIB), request(8 * KIB)))
    assert refused(hold(held, request(8 * KIB), request(9 * KIB))) is RefusalReason.TOO_BUSY
    assert refused(hold(held, request(17 * KIB))) is RefusalReason.TOO_BUSY
    asyncio.run(hold(held, request(16 * KIB)))


def test_all_senders_together_have_a_limit() -> None:
    held, _ = bodies()
    four = [request(16 * KIB, f"192.0.2.{number}") for number in range(4)]
    assert refused(hold(held, *four, request(KIB, "192.0.2.9"))) is RefusalReason.TOO_BUSY
    asyncio.run(hold(held, request(16 * KIB)))
    assert Refusal(RefusalReason.TOO_BUSY).response().headers["retry-after"]


def test_bytes_count_in_the_rate_of_their_sender_whether_they_are_kept_or_not() -> None:
    held, buckets = bodies(per_second=1, burst=3)
    asyncio.run(hold(held, request(16 * KIB)))
    asyncio.run(held.discard(request(16 * KIB), max_bytes=64 * KIB, seconds=1))
    # Together 32 KiB: as much as a request.
    assert [buckets.allow("192.0.2.1") for _ in range(3)] == [True, True, False]
    asyncio.run(held.discard(request(64 * KIB, "192.0.2.2"), max_bytes=64 * KIB, seconds=1))
    asyncio.run(held.discard(request(64 * KIB, "192.0.2.2"), max_bytes=64 * KIB, seconds=1))
    assert not buckets.allow("192.0.2.2")


def test_what_a_sender_took_too_much_is_waited_for() -> None:
    now = [0.0]
    buckets = TokenBuckets(per_second=2, burst=4, clock=lambda: now[0])
    buckets.charge("a", 320 * KIB)
    assert not buckets.allow("a")
    now[0] = 3.4
    assert not buckets.allow("a")
    now[0] = 3.5
    assert buckets.allow("a")


def test_a_body_that_its_check_refuses_is_read_no_further() -> None:
    held, _ = bodies()
    taken: list[int] = []

    def check(arrived: bytearray) -> bool:
        if len(arrived) >= 2 * KIB:
            raise Refusal(RefusalReason.WRONG_TOKEN)
        return False

    async def receive() -> None:
        async with held.receive(request(16 * KIB, taken=taken), max_bytes=64 * KIB, seconds=1, check=check):
            raise AssertionError

    assert refused(receive()) is RefusalReason.WRONG_TOKEN
    assert sum(taken) == 2 * KIB
    asyncio.run(hold(held, request(16 * KIB)))


def test_a_body_that_is_too_long_is_refused_before_or_while_it_arrives() -> None:
    held, _ = bodies()
    taken: list[int] = []
    too_long = held.discard(request(16 * KIB, taken=taken), max_bytes=4 * KIB, seconds=1)
    assert refused(too_long) is RefusalReason.TOO_LARGE
    assert sum(taken) == 5 * KIB
    declared = request(KIB, taken=taken)
    declared.scope["headers"].append((b"content-length", b"5000"))
    assert refused(held.discard(declared, max_bytes=4 * KIB, seconds=1)) is RefusalReason.TOO_LARGE
    assert sum(taken) == 5 * KIB
