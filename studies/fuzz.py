"""Fuzzing of the collector with mutated reports, tokens, requests and campaigns.

    python -m studies.fuzz [--inputs 100000] [--seed 0] [--classes 18]

No answer may be a 5xx and no log line a traceback. Everything in the store must be a valid report of a known node.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import json
import random
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from benchmarks.performance.collecting import Collection, Connection, Server, hang_up, request_bytes

from veilgraph.campaign import Campaign
from veilgraph.collector.store import ReportStore
from veilgraph.errors import CampaignError

NODES = 300
_CONNECTIONS = 8
# Some requests state a length above their own. The collector waits for the rest; this client does not.
_MAX_WAIT = 0.3
_ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2, 1.0, 1e308, -0.0, 2**53, 10**400, "", "0", "n1", "\ud800", "\x00", "é" * 300,
    "../../etc/passwd", "%2e%2e", "'; DROP TABLE reports; --", [], {}, [[]], {"a": 1}, [0] * 48, [0] * 5000, "A" * 5000,
]  # fmt: skip
_BYTES = [b"\x00", b"\xff", b"\r\n", b"\n", b" ", b"%", b"{", b"}", b'"', b"[", b"\\", b"9" * 40, b"\xf0\x9f\x92\xa9"]


class Mutator:
    """Valid requests and documents with random changes.

    Args:
        collection: Collection whose requests are changed.
        rng: Source of the changes.
    """

    def __init__(self, collection: Collection, rng: random.Random) -> None:
        self._collection, self._rng = collection, rng

    def request(self) -> tuple[str, bytes]:
        """Return the name of a random kind of request, and a request of that kind."""
        kind = self._rng.choice(["report", "report", "token", "batch", "bytes"])
        return kind, getattr(self, f"_{kind}")()

    def _valid(self) -> tuple[str, dict[str, Any]]:
        report = self._collection.report(self._rng.randrange(NODES), seed=self._rng.randrange(3))
        return report.node, report.document

    def _report(self) -> bytes:
        node, document = self._valid()
        body = self.text(self.document(document))
        return self._put(node, body, self._collection.token(node))

    def _token(self) -> bytes:
        node, document = self._valid()
        token = self._collection.token(node)
        another = self._collection.token("n0" if node != "n0" else "n1")
        changed = self._rng.choice([
            token[:-1], token + "A", token.swapcase(), "", token[::-1], another, "\xff\xfe" * 10, "A" * 8000,
            self._collection.admin_token,
        ])  # fmt: skip
        return self._put(self._rng.choice([node, "nobody", "..", "a/b"]), json.dumps(document).encode(), changed)

    def _batch(self) -> bytes:
        entries: list[Any] = []
        for _ in range(self._rng.randrange(4)):
            node, document = self._valid()
            entries.append({"token": self._collection.token(node), "report": document})
        lines = b"\n".join(self.text(self.document(entry)) for entry in entries)
        return request_bytes("POST", "/v1/reports", lines)

    def _bytes(self) -> bytes:
        """Return a complete request with some of its bytes changed."""
        request = bytearray(self._report())
        for _ in range(self._rng.randrange(1, 4)):
            place = self._rng.randrange(len(request))
            request[place : place + self._rng.randrange(3)] = self._rng.choice(_BYTES)
        return bytes(request)

    def _put(self, node: str, body: bytes, token: str) -> bytes:
        method = self._rng.choices(["PUT", "POST", "PATCH", "DELETE", "GET"], [20, 1, 1, 1, 1])[0]
        head = f"Authorization: Bearer {token}\r\n"
        path = f"/v1/reports/{quote(node, safe='')}"
        return request_bytes(method, path, b"", "").split(b"Content-Length")[0] + (
            b"Content-Length: %d\r\n" % len(body) + head.encode("latin-1") + b"\r\n" + body
        )

    def text(self, document: Any) -> bytes:
        """Return a document as JSON, as canonical as its content is, sometimes damaged."""
        text = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
        if self._rng.random() < 0.1:
            place = self._rng.randrange(len(text) + 1)
            text = text[:place] + self._rng.choice(_BYTES) + text[place + self._rng.randrange(2) :]
        return text if self._rng.random() < 0.99 else b"[" * self._rng.randrange(60_000)

    def document(self, document: Any) -> Any:
        """Return a copy with up to three changes, at any depth."""
        changed = copy.deepcopy(document)
        for _ in range(self._rng.randrange(4)):
            changed = self._change(changed)
        return changed

    def _change(self, value: Any) -> Any:
        deeper = isinstance(value, (dict, list)) and len(value) > 0 and self._rng.random() < 0.85
        if not deeper:
            return copy.deepcopy(self._rng.choice(_ODD))
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = self._rng.choice(keys)
        action = self._rng.random()
        if action < 0.15:
            del value[key]
        elif action < 0.25 and isinstance(value, dict):
            value[str(self._rng.choice(_ODD))] = self._rng.choice(_ODD)
        elif action < 0.25 and isinstance(value, list):
            value.append(copy.deepcopy(value[key]))
        else:
            value[key] = self._change(value[key])
        return value


async def send(port: int, mutator: Mutator, count: int) -> Counter[str]:
    """Send mutated requests over several connections, and count the answers to each kind."""
    answers: Counter[str] = Counter()
    numbers = iter(range(count))

    async def work() -> None:
        connection = Connection(port)
        for _ in numbers:
            kind, request = mutator.request()
            if kind == "bytes":
                await connection.close()  # later requests must not depend on where this one ends
                answers[f"{kind} {await _send_raw(port, request)}"] += 1
                continue
            with suppress(OSError, EOFError):
                status, body = await connection.send(request)
                _check(status, body)
                answers[f"{kind} {status}"] += 1
                continue
            answers[f"{kind} closed"] += 1
        await connection.close()

    await asyncio.gather(*(work() for _ in range(_CONNECTIONS)))
    return answers


async def _send_raw(port: int, request: bytes) -> str:
    """Send one request on a new connection, and close it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        with suppress(OSError):
            writer.write(request)
            async with asyncio.timeout(_MAX_WAIT):
                answer = await reader.read(65536)
                if answer.startswith(b"HTTP/1.1 "):
                    _check(int(answer[9:12]), answer)
                    return answer[9:12].decode()
        return "closed"
    except TimeoutError:
        return "waiting"
    finally:
        await hang_up(writer)


def _check(status: int, body: bytes) -> None:
    if status >= 500 or b"Traceback" in body:
        raise AssertionError(f"{status}: {body[:300]!r}")


def fuzz_campaigns(collection: Collection, rng: random.Random, count: int) -> Counter[str]:
    """Parse mutated campaigns: each must be refused with a CampaignError, unless its notice alone was changed."""
    mutator = Mutator(collection, rng)
    document, answers = collection.campaign.document, Counter[str]()
    for _ in range(count):
        text = mutator.text(mutator.document(document))
        try:
            campaign = Campaign.from_json(text)
        except CampaignError:
            answers["campaign refused"] += 1
            continue
        if campaign.document["bound"] != document["bound"]:
            raise AssertionError("an altered campaign was accepted")
        answers["campaign accepted"] += 1
    return answers


def fuzz(*, inputs: int, seed: int, folder: Path, classes: int = 4) -> dict[str, int]:
    """Send `inputs` inputs, a tenth of them campaigns, and return the sorted counts of answers."""
    rng = random.Random(seed)
    collection = Collection.ring(NODES, classes=classes)
    store = f"sqlite:///{folder}/reports.db"
    server = Server([*collection.write(folder), "--store", store], log=folder / "serve.log")
    try:
        answers = fuzz_campaigns(collection, rng, inputs // 10)
        answers += asyncio.run(send(server.port, Mutator(collection, rng), inputs - inputs // 10))
        if server.process.poll() is not None:
            raise AssertionError("the collector ended")
    finally:
        server.stop()
    log = (folder / "serve.log").read_text(encoding="utf-8")
    if "Traceback" in log or "unexpected" in log:
        raise AssertionError(f"the log has an error: {log[-2000:]}")
    reading = ReportStore.open(store)
    stored = list(reading.reports.iterate(collection.campaign))  # raises if a report is not valid
    reading.close()
    if not {report.node for report in stored} <= set(collection.graph.names):
        raise AssertionError("a report of an unknown node was stored")
    return dict(sorted(answers.items())) | {"stored": len(stored)}


def main() -> None:
    """Run the study and print the counts of answers."""
    parser = argparse.ArgumentParser(description="Fuzzing of the collector.")
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--classes", type=int, default=4, help="with 18, reports name sets of classes")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        print(json.dumps(fuzz(**vars(arguments), folder=Path(name)), indent=2))


if __name__ == "__main__":
    main()
