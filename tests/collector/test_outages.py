"""An outage of the database is one line of the log when it begins, and one when it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

import pytest

from veilgraph.collector.database import Database
from veilgraph.collector.outages import DatabaseWatch
from veilgraph.errors import StoreError, StoreFullError, StoreUnavailableError


class Switched(Database):
    """A database that a test switches off and on; it counts how often it was asked."""

    error: Exception | None = None
    asked = 0

    def __init__(self) -> None:
        pass

    def check(self) -> None:
        self.asked += 1
        if self.error is not None and not isinstance(self.error, StoreFullError):
            raise self.error

    def check_writes(self) -> None:
        if self.error is not None:
            raise self.error


class Scenario:
    """A watch that asks every millisecond, or only when something suspects an outage."""

    def __init__(self, *, seconds: float) -> None:
        self.store, self.now = Switched(), 100.0
        self.watch = DatabaseWatch(self.store, clock=lambda: self.now, seconds=seconds, retry_seconds=0.001)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not condition():
                await asyncio.sleep(0.001)

    async def asked_again(self) -> None:
        # Two answers: the first may have been on its way.
        wanted = self.store.asked + 2
        await self.until(lambda: self.store.asked >= wanted)

    def run(self, steps: Callable[[], object]) -> None:
        async def play() -> None:
            task = asyncio.create_task(self.watch.watch())
            await steps()  # type: ignore[misc]
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

        asyncio.run(play())


@pytest.mark.parametrize("refused", [0, 250])
def test_an_outage_is_two_lines_with_its_length_and_the_requests_that_failed(
    refused: int, caplog: pytest.LogCaptureFixture
) -> None:
    # Without requests it is found by asking regularly.
    scenario = Scenario(seconds=60 if refused else 0.001)

    async def steps() -> None:
        scenario.store.error = StoreUnavailableError("away")
        for _ in range(refused):
            scenario.watch.count_refusal()
        await scenario.until(lambda: not scenario.watch.is_up)
        await scenario.asked_again()
        scenario.now += 12.5
        scenario.store.error = None
        await scenario.until(lambda: scenario.watch.is_up)

    with caplog.at_level(logging.INFO, logger="veilgraph.collector"):
        scenario.run(steps)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("ERROR", "the database does not answer: requests that need it are answered with 503"),
        (
            "INFO",
            f"the database answers again after 12.5 seconds; requests answered with 503 meanwhile: {refused}",
        ),
    ]


def test_a_full_store_is_two_lines_and_lasts_until_it_takes_a_write(caplog: pytest.LogCaptureFixture) -> None:
    scenario = Scenario(seconds=60)

    async def steps() -> None:
        scenario.store.error = StoreFullError("full")
        for _ in range(7):
            scenario.watch.count_refusal()
        await scenario.until(lambda: not scenario.watch.is_up)
        with pytest.raises(StoreUnavailableError, match="full"):
            scenario.watch.check()
        await scenario.asked_again()
        scenario.now += 3.0
        scenario.store.error = None
        await scenario.until(lambda: scenario.watch.is_up)
        scenario.watch.check()

    with caplog.at_level(logging.INFO, logger="veilgraph.collector"):
        scenario.run(steps)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("ERROR", "the store is full: reports are answered with 507 until there is room"),
        ("INFO", "the store has room again after 3.0 seconds; requests answered with 507 meanwhile: 7"),
    ]


def test_a_second_outage_counts_from_zero(caplog: pytest.LogCaptureFixture) -> None:
    scenario = Scenario(seconds=60)

    async def steps() -> None:
        for refused, seconds in ((3, 1.0), (2, 7.0)):
            scenario.store.error = StoreUnavailableError("away")
            for _ in range(refused):
                scenario.watch.count_refusal()
            await scenario.until(lambda: not scenario.watch.is_up)
            scenario.now += seconds
            scenario.store.error = None
            await scenario.until(lambda: scenario.watch.is_up)

    with caplog.at_level(logging.INFO, logger="veilgraph.collector"):
        scenario.run(steps)
    ends = [record.getMessage() for record in caplog.records if record.levelname == "INFO"]
    assert [line.split("after ")[1] for line in ends] == [
        "1.0 seconds; requests answered with 503 meanwhile: 3",
        "7.0 seconds; requests answered with 503 meanwhile: 2",
    ]


@pytest.mark.parametrize("error", [None, StoreError("a table is missing")])
def test_a_full_queue_or_another_error_is_no_outage(error: Exception | None, caplog: pytest.LogCaptureFixture) -> None:
    scenario = Scenario(seconds=60)

    async def steps() -> None:
        scenario.store.error = error
        scenario.watch.count_refusal()
        await scenario.until(lambda: scenario.store.asked == 1)

    with caplog.at_level(logging.INFO, logger="veilgraph.collector"):
        scenario.run(steps)
    assert scenario.watch.is_up
    assert not caplog.records
