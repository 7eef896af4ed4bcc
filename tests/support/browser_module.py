"""The browser's module, run in node if it is installed."""

from __future__ import annotations

import atexit
import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import veilgraph.client
from tests.support.campaigns import BEFORE

BROWSER = Path(veilgraph.client.__file__).parent / "browser"
MODULE = BROWSER / "veilgraph.js"
NODE = shutil.which("node")

needs_node = pytest.mark.skipif(NODE is None, reason="node, which runs the browser's module, is not installed")


class NodeProcess:
    """A node process that has loaded the browser's module and answers one request after the other."""

    def __init__(self) -> None:
        assert NODE is not None
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        (folder / "package.json").write_text('{"type": "module"}')
        for name in ("epsilons.js", "series.js", MODULE.name, "neighbours.js", "device.js"):
            (folder / name).write_bytes((BROWSER / name).read_bytes())
        self._process = subprocess.Popen(
            [NODE, str(Path(__file__).with_name("run_vectors.mjs")), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ask(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the replies to a request; the process must not end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line.startswith("["), line + self._process.stdout.read()
        replies: list[dict[str, Any]] = json.loads(line)
        return replies

    def close(self) -> None:
        with self._process:  # closes the pipes, at which the process ends, and waits for it
            pass
        self._folder.cleanup()


@cache
def node_process() -> NodeProcess:
    """Return the process of this worker. To start one takes longer than what most tests ask of it."""
    process = NodeProcess()
    atexit.register(process.close)
    return process


def in_node(
    work: str, items: Sequence[Any], *, now: datetime = BEFORE, max_epsilon: float = 1e6
) -> list[dict[str, Any]]:
    """Run a function of the module on each item; return {"result": ...} or {"error": ...}, and fail on a crash."""
    request = {"work": work, "items": items, "now": now.isoformat(), "maxEpsilon": max_epsilon}
    replies = node_process().ask(request)
    assert not [reply for reply in replies if str(reply.get("error")).startswith("CRASH")], replies
    return replies
