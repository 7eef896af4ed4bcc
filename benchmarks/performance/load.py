"""Reports per second of the collector, compared with the bare database in the same run.

    python -m benchmarks.performance.load [--reports 20000] [--connections 64] [--store URL] [--json]
    python -m benchmarks.performance.load --reports 1000000 --only batched

Raw rates are those of the database's driver with the same durability: 1 or 1000 inserts for each transaction.
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
        yield request_bytes("POST", "/v1/reports", json.dumps({"reports": entries}).encode())


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


def main() -> None:
    """Measure and print the rates."""
    parser = argparse.ArgumentParser(description="Load on the collector.")
    parser.add_argument("--reports", type=int, default=20_000)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--store", help="default: a new SQLite file; a PostgreSQL database must be empty")
    parser.add_argument("--only", choices=["single", "batched"])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result: dict[str, Any] = {}
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
