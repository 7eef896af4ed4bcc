"""A collector that really listens: in a thread for what it answers, in a process for what it survives."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
from fastapi import FastAPI

from veilgraph.collector.server import make_server

_PATIENCE = 20.0


@contextmanager
def listening(app: FastAPI) -> Iterator[httpx.Client]:
    """Serve the application on a free port; yield a client of it."""
    server = make_server(app, host="127.0.0.1", port=0)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive())
        port = server.servers[0].sockets[0].getsockname()[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=_PATIENCE) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(_PATIENCE)


class Process:
    """`veilgraph serve` as a process of its own."""

    def __init__(self, options: Sequence[str], *, log: Path, prefix: Sequence[str] = ()) -> None:
        self._log = log
        start = log.stat().st_size if log.exists() else 0
        command = [*prefix, sys.executable, "-m", "veilgraph", "serve", "--port", "0", *options]
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                command, stdout=file, stderr=file, env=os.environ | {"OMP_NUM_THREADS": "1"}
            )
        wait_until(lambda: self._port(start) is not None or self.process.poll() is not None)
        port = self._port(start)
        if port is None:
            raise RuntimeError(f"the collector did not start: {self.text[-2000:]}")
        self.port = port

    def _port(self, start: int) -> int | None:
        found = re.search(rb"running on http://127\.0\.0\.1:(\d+)", self._log.read_bytes()[start:])
        return int(found[1]) if found else None

    @property
    def text(self) -> str:
        """Everything that was logged."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> int:
        """Ask it to stop; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_PATIENCE)

    def kill(self) -> None:
        """Give it no chance."""
        self.process.kill()
        self.process.wait(_PATIENCE)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()


def wait_until(condition: object, *, seconds: float = _PATIENCE) -> None:
    """Wait for what must come true soon."""
    assert callable(condition)
    ends = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > ends:
            raise TimeoutError(f"it did not come true within {seconds:g} seconds")
        time.sleep(0.01)
