"""How long one address waits for its answers while another sends the largest bodies it may.

    python -m benchmarks.performance.flood [--seconds 10] [--connections 20] [--rate 50] [--against CHECKOUT] [--json]

A collector is asked by 127.0.0.2, one report after the other, first alone and then while 127.0.0.1 sends batches over
many connections: as a stranger, who has no token, and as a holder of all tokens. Each sender is a process of its own.
With --against the collector of another checkout is measured too, in the same run; it takes batches as one document.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from benchmarks.performance.collecting import Collection, Server, request_bytes
from veilgraph.collector.submission import MAX_BATCH_REPORTS

SENDERS = ("nobody", "a stranger", "a holder of tokens")
_BATCH_BYTES = 3 * 2**20
_PAUSE_SECONDS = 0.01
_RETRY_SECONDS = 2.0
_context = multiprocessing.get_context("spawn")


def batch(collection: Collection, *, token: str | None, is_one_document: bool = False) -> bytes:
    """Return a request with as many reports as a batch may hold, filled up with spaces.

    Args:
        collection: the campaign.
        token: token of all entries; None for their own.
        is_one_document: whether the batch is one JSON document, as earlier collectors took it.
    """
    reports = [collection.report(number) for number in range(MAX_BATCH_REPORTS)]
    given = [{"token": token or collection.token(each.node), "report": each.document} for each in reports]
    lines = [json.dumps(entry) for entry in given]
    filled = [line + " " * (_BATCH_BYTES // len(lines) - len(line) - 2) for line in lines]
    body = '{"reports":[' + ",".join(filled) + "]}" if is_one_document else "\n".join(filled)
    return request_bytes("POST", "/v1/reports", body.encode())


def flood(port: int, request: bytes, connections: int, stop: Event) -> None:
    """Send a request from 127.0.0.1 again and again over many connections, until the event is set."""
    # The processors of this sender are usually those of another machine.
    os.nice(10)

    def work() -> None:
        while not stop.is_set():
            with suppress(OSError), _connected(port, "127.0.0.1") as connection:
                connection.sendall(request)
                is_refused = connection.recv(2**16).startswith(b"HTTP/1.1 429")
                stop.wait(_RETRY_SECONDS if is_refused else _PAUSE_SECONDS)

    threads = [threading.Thread(target=work) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextmanager
def _connected(port: int, sender: str) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=20, source_address=(sender, 0)) as connection:
        yield connection


def latencies(port: int, requests: Iterator[bytes], seconds: float) -> list[float]:
    """Return the seconds that 127.0.0.2 waited for each answer; every second report has a connection of its own."""
    found: list[float] = []
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        # No more than the rate of one address.
        time.sleep(_PAUSE_SECONDS)
        started = time.perf_counter()
        with _connected(port, "127.0.0.2") as connection:
            for _ in range(2):
                connection.sendall(next(requests))
                answer = b""
                while not answer.endswith(b"}") and (piece := connection.recv(2**16)):
                    answer += piece
                if not answer.startswith(b"HTTP/1.1 20"):
                    raise RuntimeError(f"{answer[:200]!r}")
                now = time.perf_counter()
                found.append(now - started)
                started = now
                time.sleep(_PAUSE_SECONDS)
                started = time.perf_counter()
    return found


def measure(
    collection: Collection,
    folder: Path,
    sender: str,
    *,
    seconds: float,
    connections: int,
    rate: float,
    checkout: Path | None = None,
) -> dict[str, Any]:
    """Return how long another address waits while one sends, and the memory of the collector."""
    folder.mkdir()
    options = [*collection.write(folder), "--store", f"sqlite:///{folder}/reports.db", "--set", f"rate={rate}"]
    token = None if sender == SENDERS[2] else "x" * 43
    request = batch(collection, token=token, is_one_document=checkout is not None)
    numbers = iter(range(MAX_BATCH_REPORTS, collection.graph.num_nodes))
    requests = (collection.put_request(collection.report(number)) for number in numbers)
    stop, most = _context.Event(), 0
    with Server(options, log=folder / "log", checkout=checkout) as server:
        attacker = _context.Process(target=flood, args=(server.port, request, connections, stop))
        if sender != SENDERS[0]:
            attacker.start()
            time.sleep(1)
        waited = latencies(server.port, requests, seconds)
        most = server.memory
        stop.set()
        if sender != SENDERS[0]:
            attacker.join()
        server.stop()
    quantiles = statistics.quantiles(waited, n=100)
    return {
        "answers": len(waited),
        "p50_ms": 1000 * quantiles[49],
        "p99_ms": 1000 * quantiles[98],
        "slowest_ms": 1000 * max(waited),
        "memory_mb": most / 2**20,
    }


def compare(
    folder: Path, *, seconds: float, connections: int, rate: float, checkout: Path | None = None
) -> dict[str, dict[str, Any]]:
    """Return the measures of all senders, and how many times as long the other address waits as with nobody."""
    collection = Collection.ring(MAX_BATCH_REPORTS + math.ceil(seconds / _PAUSE_SECONDS))
    found: dict[str, dict[str, Any]] = {}
    for number, sender in enumerate(SENDERS):
        place = folder / f"{number}"
        row = measure(collection, place, sender, seconds=seconds, connections=connections, rate=rate, checkout=checkout)
        found[sender] = row | {"times_as_long": row["p99_ms"] / found.get(SENDERS[0], row)["p99_ms"]}
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Waiting times while another address sends the largest bodies.")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--connections", type=int, default=20)
    parser.add_argument("--rate", type=float, default=50.0, help="requests per second of one address; 0: no limit")
    parser.add_argument("--against", type=Path, help="checkout of another version: measure it too")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        for title, checkout in [("this collector", None), *([("the other", given.against)] if given.against else [])]:
            place = Path(name) / title
            place.mkdir()
            result[title] = compare(
                place, seconds=given.seconds, connections=given.connections, rate=given.rate, checkout=checkout
            )
    if given.json:
        print(json.dumps(result, indent=2))
        return
    for title, rows in result.items():
        for sender, row in rows.items():
            print(
                f"{title}, {sender} sends: {row['answers']} answers, p50 {row['p50_ms']:.1f} ms, p99 "
                f"{row['p99_ms']:.1f} ms ({row['times_as_long']:.1f} times), slowest {row['slowest_ms']:.0f} ms; "
                f"{row['memory_mb']:.0f} MB"
            )


if __name__ == "__main__":
    main()
