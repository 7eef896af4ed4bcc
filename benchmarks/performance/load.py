"""Reports per second of the collector, compared with the bare database in the same run.

    python -m benchmarks.performance.load [--reports 20000] [--connections 64] [--store URL] [--json]
    python -m benchmarks.performance.load --reports 1000000 --only batched
    python -m benchmarks.performance.load --against CHECKOUT [--rounds 20] [--store URL --against-store URL]

Raw rates are those of the database's driver with the same durability: 1 or 1000 inserts for each transaction.
With --against, single reports go to this collector and to that of another checkout by turns, so that both find the
machine as busy. The ratio is that of the total times; processor time says the same with less noise.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.performance.collecting import Collection, Connection, Server, chunks, request_bytes

_BATCH = 1000
_RAW_SINGLE = 2000
_TABLE = "CREATE TABLE raw (campaign TEXT, node TEXT, content TEXT, hour BIGINT, PRIMARY KEY (campaign, node))"


def raw_rates(store: str, folder: Path, contents: list[str]) -> dict[str, float]:
    """Return inserts per second of the bare driver, with 1 and with 1000 inserts for each transaction."""
    rows = [("campaign", f"n{i}", content, 0) for i, content in enumerate(contents)]
    if store.startswith("sqlite"):
        connection: Any = sqlite3.connect(folder / "raw.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        insert = "INSERT INTO raw VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
        table = f"{_TABLE} WITHOUT ROWID"
    else:
        import psycopg

        connection = psycopg.connect(store, autocommit=True)
        insert = "INSERT INTO raw VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"
        table = _TABLE
    connection.execute("DROP TABLE IF EXISTS raw")
    connection.execute(table)
    cursor = connection.cursor()
    started = time.perf_counter()
    for row in rows[:_RAW_SINGLE]:
        cursor.execute(insert, row)
    single = len(rows[:_RAW_SINGLE]) / (time.perf_counter() - started)
    cursor.execute("DELETE FROM raw")
    started = time.perf_counter()
    for part in chunks(rows, _BATCH):
        cursor.execute("BEGIN")
        cursor.executemany(insert, part)
        cursor.execute("COMMIT")
    batched = len(rows) / (time.perf_counter() - started)
    connection.execute("DROP TABLE raw")
    connection.close()
    return {"single": single, "batched": batched}


async def drive(port: int, requests: Iterator[bytes], connections: int) -> list[float]:
    """Send all requests over a number of connections, and return the latency of each in seconds."""
    latencies: list[float] = []

    async def work() -> None:
        connection = Connection(port)
        for request in requests:
            started = time.perf_counter()
            status, body = await connection.send(request)
            latencies.append(time.perf_counter() - started)
            if status not in (200, 201):
                raise RuntimeError(f"{status}: {body[:200]!r}")
        await connection.close()

    await asyncio.gather(*(work() for _ in range(connections)))
    return latencies


def batch_requests(collection: Collection, numbers: range) -> Iterator[bytes]:
    """Yield requests with 1000 reports each. They are made one by one, so that a million need no memory."""
    for part in chunks(numbers, _BATCH):
        reports = [collection.report(number) for number in part]
        entries = [{"token": collection.token(report.node), "report": report.document} for report in reports]
        yield request_bytes("POST", "/v1/reports", "\n".join(map(json.dumps, entries)).encode())


def measure(
    collection: Collection, store: str, folder: Path, kind: str, reports: int, connections: int
) -> dict[str, Any]:
    """Return rate and latency of one way to submit, and the collector's memory half-way and at the end."""
    requests: list[Iterator[bytes]]
    halves = range(reports // 2), range(reports // 2, reports)
    if kind == "single":
        requests = [iter([collection.put_request(collection.report(n)) for n in half]) for half in halves]
    else:
        requests = [
            iter(list(batch_requests(collection, half))) if reports <= 100_000 else batch_requests(collection, half)
            for half in halves
        ]
    server = Server([*collection.write(folder), "--store", store], log=folder / "serve.log")
    try:
        started, cpu = time.perf_counter(), time.process_time()
        latencies = asyncio.run(drive(server.port, requests[0], connections))
        halfway = server.memory
        latencies += asyncio.run(drive(server.port, requests[1], connections))
        seconds, sender = time.perf_counter() - started, time.process_time() - cpu
        memory = server.memory
    finally:
        server.stop()
    quantiles = statistics.quantiles(latencies, n=100)
    return {
        "reports_per_second": reports / seconds,
        "p50_ms": 1000 * quantiles[49],
        "p99_ms": 1000 * quantiles[98],
        "sender_share": sender / seconds,
        "memory_halfway_mb": halfway / 2**20,
        "memory_mb": memory / 2**20,
    }


def compare(
    checkout: Path, stores: tuple[str, str], folder: Path, *, reports: int, rounds: int, connections: int
) -> dict[str, Any]:
    """Return how many times as many single reports per second this collector takes as that of another checkout.

    Args:
        checkout: checkout of the other version.
        stores: empty stores of this collector and of the other.
        folder: folder for files.
        reports: number of reports to each in all.
        rounds: number of turns of each collector.
        connections: number of connections.
    """
    # Reports of a campaign that the other version knows.
    collection = Collection.ring(reports)
    options = collection.write(folder)
    servers = [
        Server([*options, "--store", store], log=folder / f"serve{i}.log", checkout=source)
        for i, (store, source) in enumerate(zip(stores, (None, checkout), strict=True))
    ]
    times: list[list[float]] = [[], []]
    processor: list[list[float]] = [[], []]
    sender = time.process_time()
    began = time.perf_counter()
    try:
        for number, part in enumerate(chunks(range(reports), -(-reports // rounds))):
            requests = [collection.put_request(collection.report(n)) for n in part]
            for i in (0, 1) if number % 2 else (1, 0):
                started, used = time.perf_counter(), servers[i].processor_seconds
                asyncio.run(drive(servers[i].port, iter(requests), connections))
                times[i].append(time.perf_counter() - started)
                processor[i].append(servers[i].processor_seconds - used)
    finally:
        for server in servers:
            server.stop()
    seconds, spent = [sum(turns) for turns in times], [sum(turns) for turns in processor]
    return {
        "ratio": seconds[1] / seconds[0],
        "processor_ratio": spent[1] / spent[0],
        "turns_won": statistics.mean(new < old for new, old in zip(*times, strict=True)),
        "reports_per_second": [reports / total for total in seconds],
        "processor_ms": [1000 * total / reports for total in spent],
        "sender_share": (time.process_time() - sender) / (time.perf_counter() - began),
    }


def main() -> None:
    """Measure and print the rates."""
    parser = argparse.ArgumentParser(description="Load on the collector.")
    parser.add_argument("--reports", type=int, default=20_000)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--store", help="default: a new SQLite file; a PostgreSQL database must be empty")
    parser.add_argument("--only", choices=["single", "batched"])
    parser.add_argument("--against", type=Path, help="checkout of another version: compare single reports with it")
    parser.add_argument("--against-store", help="its store; default: a new SQLite file")
    parser.add_argument("--rounds", type=int, default=20, help="turns of each version, with --against")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result: dict[str, Any] = {}
    if arguments.against:
        with tempfile.TemporaryDirectory() as name:
            stores = (
                arguments.store or f"sqlite:///{name}/new.db",
                arguments.against_store or f"sqlite:///{name}/old.db",
            )
            result = compare(
                arguments.against,
                stores,
                Path(name),
                reports=arguments.reports,
                rounds=arguments.rounds,
                connections=arguments.connections,
            )
        print(json.dumps(result, indent=2))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind in [arguments.only] if arguments.only else ["single", "batched"]:
            collection = Collection.ring(arguments.reports)
            store = arguments.store or f"sqlite:///{folder}/{kind}.db"
            raw = raw_rates(
                store, folder, [collection.report(n).to_json() for n in range(min(arguments.reports, 50_000))]
            )
            connections = arguments.connections if kind == "single" else 4
            measured = measure(collection, store, folder, kind, arguments.reports, connections)
            result[kind] = measured | {
                "raw_per_second": raw[kind],
                "ratio_to_raw": measured["reports_per_second"] / raw[kind],
            }
    if arguments.json:
        print(json.dumps(result, indent=2))
        return
    for kind, row in result.items():
        print(
            f"{kind:8} {row['reports_per_second']:8,.0f} reports/s, {row['ratio_to_raw']:.2f} of the raw rate "
            f"({row['raw_per_second']:,.0f}/s); request p50 {row['p50_ms']:.1f} ms, p99 {row['p99_ms']:.1f} ms; "
            f"memory {row['memory_halfway_mb']:.0f} MB half-way, {row['memory_mb']:.0f} MB at the end; "
            f"the sender used {row['sender_share']:.0%} of a core"
        )


if __name__ == "__main__":
    main()
