"""The browser's module, run in node if it is installed."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import veilgraph.client
from tests.support.campaigns import BEFORE

BROWSER = Path(veilgraph.client.__file__).parent / "browser"
MODULE = BROWSER / "veilgraph.js"
NODE = shutil.which("node")

needs_node = pytest.mark.skipif(NODE is None, reason="node, which runs the browser's module, is not installed")


def in_node(
    folder: Path, work: str, items: Sequence[Any], *, now: datetime = BEFORE, max_epsilon: float = 1e6
) -> list[dict[str, Any]]:
    """Run a function of the module on each item; return {"result": ...} or {"error": ...}, and fail on a crash."""
    assert NODE is not None
    (folder / "package.json").write_text('{"type": "module"}')
    for name, served in ((MODULE.name, "client.js"), ("device.js", "device.js")):  # as the collector serves them
        (folder / served).write_bytes((BROWSER / name).read_bytes())
    request = {"work": work, "items": items, "now": now.isoformat(), "maxEpsilon": max_epsilon}
    script = Path(__file__).with_name("run_vectors.mjs")
    done = subprocess.run(
        [NODE, str(script), str(folder)], input=json.dumps(request), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    replies: list[dict[str, Any]] = json.loads(done.stdout)
    assert not [reply for reply in replies if str(reply.get("error")).startswith("CRASH")], replies
    return replies
