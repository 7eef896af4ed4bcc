"""A local HTTP server for tests of downloads, with the faults of real servers."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class LocalServer(ThreadingHTTPServer):
    """Server of `files` by path; a prefix `FAULT!` of the path selects a fault.

    With `in-parts` a published file breaks off after `part` bytes, and goes on from the byte that the next request
    names; `parts` are these bytes.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = files
        self.requested: list[str] = []
        self.parts: list[int] = []
        self.part = 20
        self.date: str | None = None  # of its clock; default: the true time
        self.released = threading.Event()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{path}"


class _Handler(BaseHTTPRequestHandler):
    server: LocalServer

    def date_time_string(self, timestamp: float | None = None) -> str:
        return self.server.date or super().date_time_string(timestamp)

    def do_GET(self) -> None:
        fault, _, path = self.path[1:].rpartition("!")
        self.server.requested.append(path)
        if path not in self.server.files:
            self.send_error(404)
            return
        if fault == "hang":
            self.server.released.wait(30)
            return
        content, status = self.server.files[path], 302 if fault == "to-file" else 200
        in_parts = fault == "in-parts" and "/published/" in path
        if in_parts:
            start = int(self.headers.get("Range", "bytes=0-")[6:-1])
            self.server.parts.append(start)
            whole, content, status = len(content), content[start:], 206 if start else 200
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{whole - 1}/{whole}")
        if fault == "to-file":
            self.send_header("Location", "file:///etc/hostname")
        if fault != "unannounced":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        sent = self.server.part if in_parts else len(content) // 2 if fault == "broken-off" else len(content)
        self.wfile.write(content[:sent])

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
