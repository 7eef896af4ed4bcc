"""A local HTTP server for tests of downloads, with the faults of real servers."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class LocalServer(ThreadingHTTPServer):
    """Server of `files` by path; a prefix `FAULT!` of the path selects a fault."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = files
        self.requested: list[str] = []
        self.released = threading.Event()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{path}"


class _Handler(BaseHTTPRequestHandler):
    server: LocalServer

    def do_GET(self) -> None:
        fault, _, path = self.path[1:].rpartition("!")
        self.server.requested.append(path)
        if path not in self.server.files:
            self.send_error(404)
            return
        if fault == "hang":
            self.server.released.wait(30)
            return
        content = self.server.files[path]
        self.send_response(302 if fault == "to-file" else 200)
        if fault == "to-file":
            self.send_header("Location", "file:///etc/hostname")
        if fault != "unannounced":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if fault == "broken-off" else content)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  (the name is inherited)
        """Log nothing."""


@contextmanager
def serving(files: Mapping[str, bytes]) -> Iterator[LocalServer]:
    """Run a server for the duration of a block."""
    with LocalServer(files) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            server.shutdown()
            thread.join()
