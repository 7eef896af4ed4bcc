"""Start of programs in several processes on this machine, by torchrun."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def torchrun(processes: int, *words: object, restarts: int = 0) -> subprocess.Popen[str]:
    """Start a module in several processes that communicate over the loopback interface."""
    options = ["--nproc-per-node", str(processes), "--max-restarts", str(restarts), "--standalone", "-m"]
    command = [sys.executable, "-m", "torch.distributed.run", *options]
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths, "GLOO_SOCKET_IFNAME": "lo"}
    return subprocess.Popen(
        [*command, *map(str, words)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
