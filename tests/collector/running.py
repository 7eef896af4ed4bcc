"""A collector that really listens, in a thread of the test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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


def wait_until(condition: Callable[[], bool], *, seconds: float = _PATIENCE) -> None:
    """Wait for what must come true soon."""
    ends = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > ends:
            raise TimeoutError(f"it did not come true within {seconds:g} seconds")
        time.sleep(0.01)
