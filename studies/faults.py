"""Faults under load: the store holds every acknowledged report exactly once, and nothing that was withdrawn.

    python -m studies.faults [--rounds 100] [--store URL] [--collectors 2] [--asked-rounds 3] [--seed 0]

Each round starts collectors on one store, sends reports and withdrawals over several connections, and kills them all
with SIGKILL after a random number of answers. Every node has two different reports for each round, and sends any
repeatedly. One request in five withdraws. After each round the store must hold, for every node that did not withdraw,
the reports that were acknowledged, and at most one report for each node and round. It must hold no report of a node
whose withdrawal was acknowledged, or has begun and left a tombstone. Each withdrawal has an entry of the audit log.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.performance.collecting import Collection, Connection, Server
from sqlalchemy import select

from veilgraph.campaign.report import Report
from veilgraph.collector import audit_log
from veilgraph.collector.store import ReportStore
from veilgraph.collector.tables import withdrawals

_CONNECTIONS = 16
_Key = tuple[str, int | None]
"""Node and round."""


@dataclass(kw_only=True)
class Ledger:
    """Answers that the senders received.

    Attributes:
        collection: Reports of every node.
        rng: Source of the order of reports.
        acknowledged: Acknowledged report of each node and round.
        refused: Reports that were refused because the node's other report is stored.
        withdrawn: Nodes whose withdrawal was acknowledged.
        withdrawing: Nodes that sent a withdrawal, acknowledged or not.
        withdrawal_share: Share of the requests that withdraw.
        statuses: Number of answers of each HTTP status.
    """

    collection: Collection
    rng: random.Random
    acknowledged: dict[_Key, Report] = field(default_factory=dict)
    refused: dict[_Key, Report] = field(default_factory=dict)
    withdrawn: set[str] = field(default_factory=set)
    withdrawing: set[str] = field(default_factory=set)
    withdrawal_share: float = 0.0
    statuses: dict[int, int] = field(default_factory=dict)

    async def load(self, *ports: int) -> None:
        """Send until cancelled or until the collectors have ended."""
        async with asyncio.TaskGroup() as group:
            for number in range(_CONNECTIONS):
                group.create_task(self._send(ports[number % len(ports)]))

    async def _send(self, port: int) -> None:
        connection = Connection(port)
        try:
            with suppress(OSError, EOFError):
                while True:
                    await self.send_one(connection)
        finally:
            await connection.close()

    async def send_one(self, connection: Connection) -> int:
        """Send one of the two reports of a random node, or withdraw, and return the HTTP status."""
        if self.rng.random() < self.withdrawal_share:
            return await self._withdraw_one(connection)
        rounds = self.collection.campaign.asked.report_parts.get("round")
        report = self.collection.report(
            self.rng.randrange(self.collection.campaign.nodes),
            seed=self.rng.randrange(2),
            round_number=None if rounds is None else self.rng.randint(1, rounds["maximum"]),
        )
        key = report.node, report.number
        was_withdrawn = report.node in self.withdrawn  # acknowledged before the report was sent
        status, _ = await connection.send(self.collection.put_request(report))
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if was_withdrawn and status in (200, 201, 409):
            raise AssertionError(f"{report.node} withdrew, and a report of it was answered with {status}")
        if status == 410 and report.node not in self.withdrawing:
            raise AssertionError(f"{report.node} did not withdraw, and its report was refused for that")
        if status in (200, 201):
            if status == 201 and key in self.acknowledged:
                raise AssertionError(f"{report.node} was stored twice")
            if self.acknowledged.setdefault(key, report) != report:
                raise AssertionError(f"two reports of {report.node} were acknowledged")
        if status == 409:
            self.refused[key] = report
        return status

    async def _withdraw_one(self, connection: Connection) -> int:
        node = f"n{self.rng.randrange(self.collection.campaign.nodes)}"
        self.withdrawing.add(node)
        status, _ = await connection.send(self.collection.delete_request(node))
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if status == 200:
            self.withdrawn.add(node)
        return status

    def check(self, store: ReportStore) -> int:
        """Return the number of stored reports; raise AssertionError if the store contradicts the answers."""
        found = list(store.reports.iterate(self.collection.campaign))
        by_key = {(report.node, report.number): report for report in found}
        if len(by_key) < len(found):
            raise AssertionError("a node has two reports of one round")
        with store.database.engine.connect() as connection:
            own = withdrawals.c.campaign == self.collection.campaign.id
            tombstones = set(connection.execute(select(withdrawals.c.node).where(own)).scalars())
        if missing := self.withdrawn - tombstones:
            raise AssertionError(f"the acknowledged withdrawal of {min(missing)} is lost")
        if returned := tombstones & {node for node, _ in by_key}:
            raise AssertionError(f"{min(returned)} withdrew, and its report is stored")
        if invented := tombstones - self.withdrawing:
            raise AssertionError(f"{min(invented)} did not withdraw, and has a tombstone")
        log = store.audit_log.entries(self.collection.campaign.id)
        entries = [entry for entry in log if entry.action in ("withdraw", "object")]
        audit_log.check(log)
        if len(entries) != len(tombstones):
            raise AssertionError(f"{len(tombstones)} withdrawals have {len(entries)} entries in the audit log")
        for key, report in self.acknowledged.items():
            if report.node not in tombstones and by_key.get(key) != report:
                fate = "lost" if key not in by_key else "changed"
                raise AssertionError(f"the acknowledged report of {report.node} is {fate}")
        for key, report in self.refused.items():
            if report.node not in tombstones and by_key.get(key, report) == report:
                raise AssertionError(f"a report of {report.node} was refused for another one, and none is stored")
        return len(found)


def kill_rounds(
    *,
    rounds: int,
    nodes: int,
    store: str,
    folder: Path,
    seed: int,
    collectors: int = 2,
    asked_rounds: int | None = None,
) -> dict[str, object]:
    """Kill the collectors under load, once in each round, and return counts of reports and answers."""
    rng = random.Random(seed)
    collection = Collection.ring(nodes) if asked_rounds is None else Collection.series(nodes, rounds=asked_rounds)
    ledger = Ledger(collection=collection, rng=rng, withdrawal_share=0.2)
    options = [*ledger.collection.write(folder), "--store", store]
    for number in range(rounds):
        with ThreadPoolExecutor(collectors) as starting:
            servers = list(starting.map(lambda i: Server(options, log=folder / f"serve{i}.log"), range(collectors)))
        asyncio.run(_load_and_kill(ledger, servers, answers=rng.randrange(1, 200)))
        reading = ReportStore.open(store)
        stored = ledger.check(reading)
        reading.close()
        if number % 10 == 9:
            print(
                f"round {number + 1}: {len(ledger.acknowledged)} acknowledged, {stored} stored, "
                f"{len(ledger.withdrawn)} withdrawn; none lost, doubled or returned",
                flush=True,
            )
    return {
        "rounds": rounds,
        "acknowledged": len(ledger.acknowledged),
        "stored": stored,
        "withdrawn": len(ledger.withdrawn),
        "answers": ledger.statuses,
    }


async def _load_and_kill(ledger: Ledger, servers: list[Server], *, answers: int) -> None:
    """Kill the collectors after a number of answers, whatever the machine does besides."""
    wanted = sum(ledger.statuses.values()) + answers
    load = asyncio.create_task(ledger.load(*(server.port for server in servers)))
    while sum(ledger.statuses.values()) < wanted and not load.done():
        await asyncio.sleep(0.001)
    for server in servers:
        server.kill()
    await load


def main() -> None:
    """Run the rounds and print their result."""
    parser = argparse.ArgumentParser(description="SIGKILL under load.")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--store", help="default: a new SQLite file; a PostgreSQL database must be empty")
    parser.add_argument("--collectors", type=int, default=2, help="processes on one store, killed together")
    parser.add_argument(
        "--asked-rounds", type=int, help="number of rounds of a series; default: a campaign that asks once"
    )
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = arguments.store or f"sqlite:///{folder}/reports.db"
        result = kill_rounds(
            rounds=arguments.rounds,
            nodes=arguments.nodes,
            store=store,
            folder=folder,
            seed=arguments.seed,
            collectors=arguments.collectors,
            asked_rounds=arguments.asked_rounds,
        )
    print(json.dumps(result))


if __name__ == "__main__":
    main()
