"""Start of programs in several processes on this machine: by torchrun, or by its agent in processes that are forked.

torchrun starts an interpreter for each process, and imports are most of what a small test takes. The same agent can
also fork: this program imports once for all processes.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
# What the processes of tests import.
COMMON = (
    "benchmarks.performance.distributed",
    "pyarrow.dataset",
    "scipy.optimize",
    "veilgraph.cli.app",
    "veilgraph.deploy",
    "veilgraph.pages.model_card",
)


FORKED = ("tests.support.torchrun", "--nproc-per-node")
"""Words that start this program instead of torchrun."""


def torchrun(processes: int, *words: object, restarts: int = 0) -> subprocess.Popen[str]:
    """Start a module in several processes that communicate over the loopback interface."""
    options = ["--nproc-per-node", str(processes), "--max-restarts", str(restarts), "--standalone", "-m"]
    return _start("torch.distributed.run", *options, *words)


def forked(processes: int, *words: object) -> subprocess.Popen[str]:
    """Start a module as `torchrun` does, in processes that are forked after the imports."""
    return _start(*FORKED, processes, "-m", *words)


def _start(*words: object) -> subprocess.Popen[str]:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths, "GLOO_SOCKET_IFNAME": "lo"}
    return subprocess.Popen(
        [sys.executable, "-m", *map(str, words)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def main(_option: str, processes: str, _module: str, *words: str) -> None:
    """Import, and let torchrun's agent fork."""
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    for name in COMMON:
        import_module(name)
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=int(processes),
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        start_method="fork",
    )
    elastic_launch(config, run_module)(*words)


def run_module(name: str, *words: str) -> None:
    """Run a module as `python -m` does; return if it ends well, since the agent waits for that."""
    sys.argv = [name, *words]
    try:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    except SystemExit as ends:
        if ends.code:
            raise


if __name__ == "__main__":
    main(*sys.argv[1:])
