"""Cost of a fit in several processes; `python -m benchmarks.performance.distributed`.

It measures the halo of each part (rows that it borrows from other parts), and the peak memory of each process.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from veilgraph.datasets import csbm, load
from veilgraph.distributed.process_group import join_process_group
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, Split
from veilgraph.graph.partition import Partition
from veilgraph.models import RGNN
from veilgraph.models.base import FitTask
from veilgraph.models.engine.distributed_fit import fit_distributed, join_fit
from veilgraph.models.engine.replica_dropout import random_bytes
from veilgraph.privacy.budget import PrivacyBudget

PARTS = (2, 4, 8)
PROCESSES = (2, 4)
BUDGET = PrivacyBudget(epsilon_x=1.0, epsilon_y=1.0, sampled=10)
FEATURES = 48


def boundaries(name: str, graph: Graph) -> list[dict[str, Any]]:
    """Return size and halo of the parts, for each number of parts."""
    rows = []
    for count in PARTS:
        parts = Partition(graph, count)
        borrowed = [part.halo_size for part in parts]
        rows.append(
            {
                "graph": name,
                "nodes": graph.num_nodes,
                "edges": graph.num_edges,
                "parts": count,
                "largest_part": parts.max_part_nodes,
                "most_borrowed": parts.max_halo_size,
                "borrowed_per_node": sum(borrowed) / graph.num_nodes,
            }
        )
    return rows


def mask_rate() -> float:
    """Return the bytes of dropout masks that a process draws in a second."""
    generator, units, nodes = torch.Generator().manual_seed(0), 16, 2**21
    started = time.process_time()
    random_bytes(generator, units * nodes)
    return units * nodes / (time.process_time() - started)


def simulated(nodes: int) -> tuple[FitTask[RGNN], int]:
    """Return a task on the whole graph, and the memory of the libraries in the process that makes it."""
    libraries = _resident()
    private, split = csbm(nodes, num_features=FEATURES, seed=0), Split.random(nodes, seed=0)
    reports = simulate(private, BUDGET, split, rng=np.random.default_rng(0))
    method = RGNN(feature_hops=4, label_hops=2, epochs=2, device="cpu")
    return FitTask(method=method, perturbed=reports, split=split), libraries


def fit_here(nodes: int, folder: Path) -> None:
    """Take part in a fit; write the peak memory beyond the libraries, of this process and of the one that cuts."""
    importlib.import_module("torch._dynamo")  # DistributedDataParallel loads it at first use
    libraries, cutting = _resident(), None
    with join_process_group(torch.device("cpu")) as processes:
        if not processes.is_leader:
            join_fit(processes)
        elif processes.world_size > 1:
            _, others = fit_distributed(processes, partial(simulated, nodes))
            cutting = _peak(resource.RUSAGE_CHILDREN) - others
        else:
            run, _ = simulated(nodes)
            run.method.fit(run.perturbed, run.split)
        found = {"rank": processes.rank, "bytes": _peak() - libraries, "cutting": cutting}
        (folder / f"{processes.rank}.json").write_text(json.dumps(found), encoding="utf-8")


def memory(nodes: int) -> list[dict[str, Any]]:
    """Return the peak memory of the process that cuts the graph, of the leader, and of the largest other process."""
    rows = []
    for count in (1, *PROCESSES):
        with tempfile.TemporaryDirectory() as folder:
            launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
            arguments = ["-m", "benchmarks.performance.distributed", "--fit", str(nodes), "--folder", folder]
            environment = os.environ | {"OMP_NUM_THREADS": "1"}
            subprocess.run([sys.executable, *launcher, *arguments], check=True, env=environment)
            found = [json.loads(path.read_text(encoding="utf-8")) for path in Path(folder).iterdir()]
        followers = [each["bytes"] for each in found if each["rank"] > 0]
        leader = next(each for each in found if each["rank"] == 0)
        rows.append(
            {
                "nodes": nodes,
                "processes": count,
                "cutting": leader["cutting"],
                "leader": leader["bytes"],
                "follower": max(followers, default=None),
            }
        )
    return rows


def _resident() -> int:
    """Return the resident memory now. Right after its start, a process may have the peak of its parent."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def _peak(whose: int = resource.RUSAGE_SELF) -> int:
    return resource.getrusage(whose).ru_maxrss * 1024


def main() -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.performance.distributed", description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000, help="number of nodes of the synthetic graph")
    parser.add_argument("--graphs", nargs="*", default=[], help="public data sets whose parts are measured too")
    parser.add_argument("--fit", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit is not None:
        fit_here(options.fit, options.folder)
        return
    graphs = {name: load(name).graph for name in options.graphs} | {"csbm": csbm(options.nodes, seed=0).graph}
    found = {
        "boundaries": [row for name, graph in graphs.items() for row in boundaries(name, graph)],
        "memory": memory(options.nodes),
        "mask_bytes_per_second": mask_rate(),
    }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
