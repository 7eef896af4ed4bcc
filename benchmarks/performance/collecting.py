"""A synthetic campaign of any size and a collector process, for benchmarks of load and faults."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Self, TypeVar
from urllib.parse import quote

import numpy as np

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign import Campaign
from veilgraph.campaign.budget import CampaignBudget
from veilgraph.campaign.notice import Notice
from veilgraph.campaign.report import Report
from veilgraph.campaign.tokens import new_key, token_for
from veilgraph.collector.auth import Role, new_role_token
from veilgraph.graph import Graph
from veilgraph.privacy.budget import RoundBudget
from veilgraph.privacy.mechanisms import SubsetSelection
from veilgraph.privacy.schema import FeatureSchema

FEATURES = 48
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, eq=False)
class Collection:
    """A campaign on a ring of nodes, whose reports are random codes. Only their number matters here."""

    campaign: Campaign
    graph: Graph
    key: str = field(default_factory=new_key, repr=False)
    admin_token: str = field(default_factory=lambda: new_role_token(Role.OWNER), repr=False)

    @classmethod
    def ring(cls, nodes: int, *, classes: int = 4) -> Collection:
        """Make a ring of nodes n0, n1, ...; with many classes, reports name sets of them."""
        numbers = np.arange(nodes)
        graph = Graph.from_edges(
            np.stack([numbers, (numbers + 1) % nodes]), nodes, node_ids=[f"n{i}" for i in range(nodes)]
        )
        campaign = Campaign.new(
            schema=FeatureSchema.binary(FEATURES, classes=[f"c{i}" for i in range(classes)]),
            graph=graph,
            notice=Notice(purpose="A benchmark", contact="nobody", closes=datetime(2999, 1, 1, tzinfo=UTC)),
            budget=CampaignBudget(epsilon_x=1.0, sampled=8, epsilon_y=1.0),
        )
        return cls(campaign=campaign, graph=graph)

    @classmethod
    def series(cls, nodes: int, *, rounds: int) -> Collection:
        """Make a ring of nodes whose label is asked in several rounds, all of them open."""
        graph = cls.ring(nodes).graph
        campaign = Campaign.new(
            schema=FeatureSchema(columns=(), classes=tuple(f"c{i}" for i in range(4))),
            graph=graph,
            notice=Notice(purpose="A benchmark", contact="nobody", closes=datetime(2999, 1, 1, tzinfo=UTC)),
            budget=CampaignBudget(epsilon_y=2.0, rounds=RoundBudget(rounds=rounds)),
        )
        return cls(campaign=campaign.revise(open_round=rounds), graph=graph)

    def report(self, number: int, *, seed: int = 0, round_number: int | None = None) -> Report:
        """Return a random report of one node, from a seed."""
        rng = np.random.default_rng([seed, number])
        features = tuple(rng.integers(0, 2, FEATURES).tolist()) if self.campaign.feature_mechanism else None
        classes = self.campaign.schema.num_classes
        label: int | tuple[int, ...] = int(rng.integers(0, classes))
        if isinstance(sets := self.campaign.label_mechanism, SubsetSelection):
            label = tuple(sorted(rng.choice(classes, sets.set_size, replace=False).tolist()))
        return Report(campaign=self.campaign.id, node=f"n{number}", features=features, label=label, number=round_number)

    def token(self, node: str) -> str:
        """Return the token of a node."""
        return token_for(self.key, self.campaign.id, node)

    def put_request(self, report: Report) -> bytes:
        """Return the bytes of an HTTP request that submits a report."""
        return request_bytes(
            "PUT",
            f"/v1/reports/{quote(report.node, safe='')}",
            report.to_json().encode(),
            f"Authorization: Bearer {self.token(report.node)}\r\n",
        )

    def delete_request(self, node: str) -> bytes:
        """Return the bytes of an HTTP request that withdraws the reports of a node."""
        return request_bytes(
            "DELETE", f"/v1/reports/{quote(node, safe='')}", b"", f"Authorization: Bearer {self.token(node)}\r\n"
        )

    def write(self, folder: Path) -> list[str]:
        """Write the files that `veilgraph serve` reads, and return the arguments that name them."""
        names = self.graph.names
        edges = "".join(f"{names[u]},{names[v]}\n" for u, v in self.graph.edges.T.tolist())
        contents = {
            "campaign": ("campaign.json", self.campaign.to_json()),
            "graph": ("edges.csv", f"from,to\n{edges}"),
            "keys-file": ("keys.txt", self.key),
            "admin-token-file": ("admin.txt", self.admin_token),
        }
        options: list[str] = []
        for option, (name, content) in contents.items():
            write_atomically(folder / name, content)
            options += [*([] if option == "campaign" else [f"--{option}"]), str(folder / name)]
        return options


_UNLIMITED = ("--set", "rate=0")


class Server:
    """`veilgraph serve` as a process.

    Args:
        options: arguments of the command, without port; without a rate there is no limit.
        log: file that its output is appended to.
        prefix: command that starts it, such as a profiler.
        python: interpreter of the environment whose package serves; default: this one.
        checkout: checkout of the project whose package serves; default: the package of the interpreter.
    """

    def __init__(
        self,
        options: Sequence[str],
        *,
        log: Path,
        prefix: Sequence[str] = (),
        python: str = sys.executable,
        checkout: Path | None = None,
    ) -> None:
        self._log = log
        start = log.stat().st_size if log.exists() else 0
        unlimited = () if any(option.startswith("rate=") for option in options) else _UNLIMITED
        command = [*prefix, python, "-m", "veilgraph", "serve", "--port", "0", *unlimited, *options]
        with log.open("ab") as file:
            path = {} if checkout is None else {"PYTHONPATH": str(checkout / "src")}
            self.process = subprocess.Popen(command, stdout=file, stderr=file, env=os.environ | path)
        self.port = 0
        while not self.port:
            if self.process.poll() is not None:
                raise RuntimeError(f"the collector did not start: {self.text[-2000:]}")
            found = re.search(rb"running on http://[^:]+:(\d+)", log.read_bytes()[start:])
            self.port = int(found[1]) if found else 0
            time.sleep(0.01)

    @property
    def url(self) -> str:
        """Address of the collector."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def text(self) -> str:
        """Content of the log."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def memory(self) -> int:
        """Resident memory of the process, in bytes."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    @property
    def processor_seconds(self) -> float:
        """Time that the process has spent on processors, in user and in system mode."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> int:
        """Send SIGTERM, wait, and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def kill(self) -> None:
        """Send SIGKILL and wait."""
        self.process.kill()
        self.process.wait(30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()


def request_bytes(method: str, path: str, body: bytes, headers: str = "") -> bytes:
    """Return the bytes of an HTTP/1.1 request."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


class Connection:
    """One kept-alive HTTP connection that sends one request at a time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, request: bytes) -> tuple[int, bytes]:
        """Send a request and return status and body of the response; raise OSError or EOFError if none comes."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        try:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            body = await reader.readexactly(int(length[1])) if length else b""
        except (OSError, EOFError):
            await self.close()
            raise
        if b"connection: close" in head:
            await self.close()
        return int(head[9:12]), body

    async def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            writer, self._streams = self._streams[1], None
            await hang_up(writer)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Close a connection in any state."""
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Return consecutive parts of at most `size` items."""
    return (items[start : start + size] for start in range(0, len(items), size))
