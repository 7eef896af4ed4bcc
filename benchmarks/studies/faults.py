"""Faults under load: the store holds every acknowledged report exactly once.

    python -m benchmarks.studies.faults [--rounds 100] [--store URL] [--seed 0]

Each round starts the collector, sends reports over several connections, and kills it with SIGKILL at a random moment.
Every node has two different reports and sends either of them repeatedly until one is acknowledged. At the end the
store must hold, for every acknowledged node, the report that was acknowledged, and at most one report for each node.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.performance.collecting import Collection, Connection, Server
from veilgraph.campaign.report import Report
from veilgraph.collector.store import ReportStore

_CONNECTIONS = 16


@dataclass(kw_only=True)
class Ledger:
    """Answers that the senders received.

    Attributes:
        collection: Reports of every node.
        rng: Source of the order of reports.
        acknowledged: Acknowledged report of each node.
        refused: Reports that were refused because the node's other report is stored.
        statuses: Number of answers of each HTTP status.
    """

    collection: Collection
    rng: random.Random
    acknowledged: dict[str, Report] = field(default_factory=dict)
    refused: dict[str, Report] = field(default_factory=dict)
    statuses: dict[int, int] = field(default_factory=dict)

    async def load(self, port: int) -> None:
        """Send until cancelled or until the collector has ended."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_CONNECTIONS):
                group.create_task(self._send(port))

    async def _send(self, port: int) -> None:
        connection = Connection(port)
        try:
            with suppress(OSError, EOFError):
                while True:
                    await self.send_one(connection)
        finally:
            await connection.close()

    async def send_one(self, connection: Connection) -> int:
        """Send one of the two reports of a random node, and return the HTTP status."""
        report = self.collection.report(self.rng.randrange(self.collection.campaign.nodes), seed=self.rng.randrange(2))
        status, _ = await connection.send(self.collection.put_request(report))
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if status in (200, 201):
            if status == 201 and report.node in self.acknowledged:
                raise AssertionError(f"{report.node} was stored twice")
            if self.acknowledged.setdefault(report.node, report) != report:
                raise AssertionError(f"two reports of {report.node} were acknowledged")
        if status == 409:
            self.refused[report.node] = report
        return status

    def check(self, store: ReportStore) -> int:
        """Return the number of stored reports; raise AssertionError if the store contradicts the answers."""
        found = list(store.iterate(self.collection.campaign))
        by_node = {report.node: report for report in found}
        if len(by_node) < len(found):
            raise AssertionError("a node has two reports")
        for node, report in self.acknowledged.items():
            if by_node.get(node) != report:
                raise AssertionError(
                    f"the acknowledged report of {node} is {'lost' if node not in by_node else 'changed'}"
                )
        for node, report in self.refused.items():
            if by_node.get(node, report) == report:
                raise AssertionError(f"a report of {node} was refused for another one, and none is stored")
        return len(found)


def kill_rounds(*, rounds: int, nodes: int, store: str, folder: Path, seed: int) -> dict[str, object]:
    """Kill the collector under load, once in each round, and return counts of reports and answers."""
    rng = random.Random(seed)
    ledger = Ledger(collection=Collection.ring(nodes), rng=rng)
    options = [*ledger.collection.write(folder), "--store", store]
    for number in range(rounds):
        server = Server(options, log=folder / "serve.log")
        asyncio.run(_load_and_kill(ledger, server, after=rng.uniform(0.02, 0.5)))
        reading = ReportStore.open(store)
        stored = ledger.check(reading)
        reading.close()
        if number % 10 == 9:
            print(f"round {number + 1}: {len(ledger.acknowledged)} acknowledged, {stored} stored, none lost or doubled")
    return {
        "rounds": rounds,
        "acknowledged": len(ledger.acknowledged),
        "stored": stored,
        "answers": ledger.statuses,
    }


async def _load_and_kill(ledger: Ledger, server: Server, *, after: float) -> None:
    load = asyncio.create_task(ledger.load(server.port))
    await asyncio.sleep(after)
    server.kill()
    await load


def main() -> None:
    """Run the rounds and print their result."""
    parser = argparse.ArgumentParser(description="SIGKILL under load.")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--store", help="default: a new SQLite file; a PostgreSQL database must be empty")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = arguments.store or f"sqlite:///{folder}/reports.db"
        result = kill_rounds(
            rounds=arguments.rounds, nodes=arguments.nodes, store=store, folder=folder, seed=arguments.seed
        )
    print(json.dumps(result))


if __name__ == "__main__":
    main()
