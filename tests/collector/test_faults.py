"""Whatever happens to the collector or its database, an acknowledged report stays and a refused one is not there."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path

import pytest
from benchmarks.performance.collecting import Collection, Connection, Server
from studies.faults import Ledger, kill_rounds

from tests.support.running_collector import wait_until
from tests.support.services import Postgres
from veilgraph.collector.store import ReportStore

pytestmark = pytest.mark.slow

NODES = 2000


@pytest.mark.parametrize(("collectors", "asked_rounds"), [(1, None), (2, 3)])
def test_nothing_acknowledged_is_lost_and_nothing_withdrawn_returns_when_collectors_are_killed(
    store_url: str, tmp_path: Path, collectors: int, asked_rounds: int | None
) -> None:
    """A few rounds; `python -m studies.faults` does a hundred."""
    result = kill_rounds(
        rounds=4, nodes=500, store=store_url, folder=tmp_path, seed=1, collectors=collectors, asked_rounds=asked_rounds
    )
    assert isinstance(result["acknowledged"], int)
    assert isinstance(result["withdrawn"], int)
    assert result["acknowledged"] > 20, "there was no load"
    assert result["withdrawn"] > 0, "nobody withdrew"


def test_a_full_disk_is_refused_and_what_was_acknowledged_stays(tmp_path: Path) -> None:
    prlimit = shutil.which("prlimit")
    if prlimit is None:
        pytest.skip("there is no prlimit to make a disk full with")
    ledger = Ledger(collection=Collection.ring(500), rng=random.Random(0))
    url = f"sqlite:///{tmp_path}/reports.db"
    options = [*ledger.collection.write(tmp_path), "--store", url]
    server = Server(options, log=tmp_path / "log", prefix=[prlimit, f"--fsize={150 * 1024}"])

    async def fill() -> list[int]:
        connection = Connection(server.port)
        statuses = [await ledger.send_one(connection) for _ in range(600)]
        assert {200, 201, 409} & set(statuses[:50])
        await connection.close()
        return statuses

    statuses = asyncio.run(fill())
    server.kill()
    assert set(statuses[-20:]) & {503, 507}, "the disk was never full"
    assert 500 not in statuses
    store = ReportStore.open(url)
    assert ledger.check(store) >= len(ledger.acknowledged) > 0
    store.close()
    # With room again, the same senders succeed.
    server = Server(options, log=tmp_path / "log")
    asyncio.run(_send_all(ledger, server.port))
    server.stop()
    store = ReportStore.open(url)
    assert ledger.check(store) == 500
    store.close()


async def _send_all(ledger: Ledger, port: int) -> None:
    connection = Connection(port)
    for number in range(ledger.collection.campaign.nodes):
        for seed in (0, 1):
            report = ledger.collection.report(number, seed=seed)
            status, _ = await connection.send(ledger.collection.put_request(report))
            assert status in (200, 201, 409)
            if status != 409:
                break
    await connection.close()


def test_a_restarted_database_means_503_and_then_recovery(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.new_database("restarted")
    ledger = Ledger(collection=Collection.ring(NODES), rng=random.Random(0))
    server = Server([*ledger.collection.write(tmp_path), "--store", url], log=tmp_path / "log")

    async def send_until(wanted: set[int], *, seconds: float = 20) -> None:
        connection, ends = Connection(server.port), time.monotonic() + seconds
        for number in itertools.count():
            status = await ledger.send_one(connection)
            assert status in (200, 201, 409, 503)
            if status in wanted and number > 20:
                break
            assert time.monotonic() < ends, f"never {wanted}"
        await connection.close()

    async def restart() -> None:
        await send_until({201})
        load = asyncio.create_task(ledger.load(server.port))
        await asyncio.to_thread(postgres.stop)
        await send_until({503})
        await asyncio.to_thread(postgres.start)
        await send_until({201})
        load.cancel()
        with suppress(asyncio.CancelledError):
            await load

    try:
        asyncio.run(restart())
        assert server.process.poll() is None
        wait_until(lambda: "answers again" in server.text)
    finally:
        server.stop()
    store = ReportStore.open(url)
    assert ledger.check(store) >= len(ledger.acknowledged)
    store.close()
    log = (tmp_path / "log").read_text(encoding="utf-8")
    assert "Traceback" not in log
    # Besides the lines of start and stop, the outage is one line when it begins and one when it ends.
    warnings = [line for line in log.splitlines() if " INFO uvicorn" not in line]
    assert [re.sub(r"[0-9.:-]+", "#", line.partition("veilgraph.collector: ")[2]) for line in warnings] == [
        "the database does not answer# requests that need it are answered with #",
        "the database answers again after # seconds; requests answered with # meanwhile# #",
    ]
    refused = int(warnings[-1].rpartition(" ")[2])
    assert 0 < refused <= ledger.statuses[503]
