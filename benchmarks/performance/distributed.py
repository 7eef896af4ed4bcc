"""Cost of a training from shards with 1, 2 and 4 processes; `python -m benchmarks.performance.distributed`.

Each case is a simulated collection on a block model in shards. For every process it measures CPU seconds, wall seconds
and bytes of each stage of RGNN and of label-only Veil, the cut, the halo (rows of neighbours in other parts) and the
peak of its memory. Results are written to distributed.json as they finish, and cases that it holds are not measured
again.

Processes share the cores of one machine and talk over its loopback interface, with one thread each. So wall seconds are
those of a crowded machine; CPU seconds of a process are what it would take on a core of its own.
`python -m benchmarks.performance.machines` fits a model to them.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import distributed

from benchmarks.performance.growth import peak_bytes
from benchmarks.performance.veil_growth import StageClock
from veilgraph.atomic_files import write_atomically
from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import perturbed_graph_of_codes
from veilgraph.datasets.csbm_blocks import CsbmBlocks
from veilgraph.deploy.shard_reports import perturbed_from_shards, read_shard_codes
from veilgraph.deploy.sources import split_reports
from veilgraph.distributed.exchange import Exchange
from veilgraph.distributed.graph_rows import neighbours_elsewhere
from veilgraph.distributed.label_propagation import measure_cut
from veilgraph.distributed.process_group import ProcessGroup, join_process_group
from veilgraph.distributed.shard_part import ShardHomes, ShardPart, read_rows
from veilgraph.experiments.shard_simulation import CAMPAIGN, write_simulated_shards
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.graph.shards import ShardFolder
from veilgraph.models import RGNN, LabelVeil
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.reconstruct.operators import operators_of

PROCESSES = (1, 2, 4)
SHARDS, CLASSES, BAGS = 16, 4, 16
FEATURE_HOPS, LABEL_HOPS, EPOCHS = 4, 2, 10
FIRST_FIT, SHORT_FIT, LONG_FIT = "first fit, 1 epoch", "fit, 1 epoch", f"fit, {1 + EPOCHS} epochs"
VEIL = "Veil"
MEASURED = Path(__file__).with_name("distributed.json")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A simulated collection.

    Attributes:
        nodes: number of nodes.
        mean_degree: mean degree.
        homophily: share of the edges within a class; the parts of a partition are not better than that.
        features: number of binary features.
    """

    nodes: int
    mean_degree: float
    homophily: float
    features: int

    def write(self, folder: Path) -> None:
        """Draw the collection and write its shards."""
        blocks = CsbmBlocks(
            num_nodes=self.nodes,
            num_classes=CLASSES,
            mean_degree=self.mean_degree,
            homophily=self.homophily,
            num_features=self.features,
            blocks=SHARDS,
        )
        write_simulated_shards(folder, blocks, PrivacyBudget(epsilon_x=1.0, epsilon_y=1.0, sampled=8))


CASES = (
    Case(nodes=50_000, mean_degree=10.0, homophily=0.8, features=16),
    Case(nodes=100_000, mean_degree=20.0, homophily=0.8, features=16),
    Case(nodes=100_000, mean_degree=10.0, homophily=0.98, features=48),
    Case(nodes=200_000, mean_degree=10.0, homophily=0.98, features=16),
    Case(nodes=260_000, mean_degree=40.0, homophily=0.8, features=16),
)
"""Collections; the last one has more than 5,000,000 edges, so that Veil takes its code for large graphs."""

SMALL = Case(nodes=2_000, mean_degree=10.0, homophily=0.8, features=16)
"""Trained first in every process, so that what a process does once does not count."""


class Meter:
    """A counter of what this process exchanges until it ends, by stage.

    Attributes:
        stages: for each stage `sent` and `received` bytes of all-to-all exchanges with other processes, `summed` bytes
            of all-reduces, and the number of `exchanges`.
    """

    def __init__(self, rank: int) -> None:
        self.stages: dict[str, dict[str, int]] = {}
        self._rank, self._here = rank, dict[str, int]()
        self._all_to_all, self._all_reduce = distributed.all_to_all_single, distributed.all_reduce
        patch.multiple(distributed, all_to_all_single=self._exchange, all_reduce=self._sum).start()

    def start(self, stage: str) -> None:
        """Count for another stage from now on."""
        self._here = self.stages.setdefault(stage, {"sent": 0, "received": 0, "summed": 0, "exchanges": 0})

    def _exchange(self, received: torch.Tensor, sent: torch.Tensor, arriving: list[int], leaving: list[int]) -> None:
        for key, rows, counts in (("sent", sent, leaving), ("received", received, arriving)):
            others = sum(counts) - counts[self._rank]
            self._here[key] += rows.nbytes * others // max(sum(counts), 1)
        self._here["exchanges"] += 1
        self._all_to_all(received, sent, arriving, leaving)

    def _sum(self, numbers: torch.Tensor, *operation: Any, **options: Any) -> Any:
        self._here["summed"] += numbers.nbytes
        return self._all_reduce(numbers, *operation, **options)


class Stages:
    """Time, memory and traffic of the stages of one process."""

    def __init__(self, rank: int) -> None:
        self._meter = Meter(rank)
        self.clear()

    def clear(self) -> None:
        """Forget what was measured."""
        self._clock, self._meter.stages = StageClock(), {}
        peak_bytes()

    def start(self, name: str) -> None:
        """End the current stage and start another, when all processes are here."""
        gc.collect()
        self._clock.start(None)
        self._meter.start("between stages")
        if distributed.is_initialized():
            distributed.barrier()
        self._meter.start(name)
        self._clock.start(name)

    def found(self) -> dict[str, dict[str, float]]:
        """End the current stage and return the measurements of all."""
        self._clock.start(None)
        return {name: times | self._meter.stages[name] for name, times in self._clock.stages.items()}


def train(shards: Path, processes: ProcessGroup, stages: Stages) -> dict[str, Any]:
    """Train on shards, stage by stage, and return the size of this process's part."""
    folder, campaign = ShardFolder.open(shards), Campaign.from_json((shards / CAMPAIGN).read_bytes())
    take_part = _read_part if processes.world_size > 1 else _read_whole
    perturbed, part = take_part(folder, campaign, processes, stages)
    split, _ = split_reports(perturbed, LabelVeil(), seed=0, hold_out=0.0)
    for name, epochs in ((FIRST_FIT, 1), (SHORT_FIT, 1), (LONG_FIT, 1 + EPOCHS)):
        stages.start(name)
        _fit(perturbed, split, epochs)
    operators_of.cache_clear()  # matrices of RGNN, which Veil does not need
    stages.start(VEIL)
    LabelVeil(device="cpu").fit(perturbed, split)
    stages.start("end")
    operators_of.cache_clear()
    return part


def _fit(perturbed: PerturbedGraph, split: Split, epochs: int) -> None:
    hops: dict[str, Any] = {"feature_hops": FEATURE_HOPS, "label_hops": LABEL_HOPS}
    RGNN(num_clusters=BAGS, epochs=epochs, device="cpu", **hops).fit(perturbed, split)


def _read_whole(
    folder: ShardFolder, campaign: Campaign, processes: ProcessGroup, stages: Stages
) -> tuple[PerturbedGraph, dict[str, Any]]:
    stages.start("read")
    graph = folder.graph()
    stages.start("bags")
    operators_of(graph, torch.device("cpu")).decompositions.prepare_clusters((BAGS,))
    stages.start("reports")
    perturbed = perturbed_from_shards(campaign, folder, graph)
    size = {"nodes": graph.num_nodes, "entries": 2 * graph.num_edges, "halo": 0, "home_halo": 0, "cut": 0.0}
    return perturbed, size


def _read_part(
    folder: ShardFolder, campaign: Campaign, processes: ProcessGroup, stages: Stages
) -> tuple[PerturbedGraph, dict[str, Any]]:
    exchange = Exchange(rank=processes.rank, world_size=processes.world_size)
    homes = ShardHomes(folder=folder, exchange=exchange)
    stages.start("homes")
    home_halo = len(neighbours_elsewhere(read_rows(homes, np.full(len(homes.numbers), exchange.rank))))
    stages.start("first read, with the cut")
    ShardPart.read(folder, exchange)
    stages.start("read")
    part = ShardPart.read(folder, exchange)
    stages.start("bags")
    part.clusters(BAGS)
    stages.start("reports")
    codes = [read_shard_codes(folder, shard, folder.nodes(shard).keys, campaign) for shard in homes.shards]
    arrays: dict[str, Any] = {
        name: part.from_homes(np.concatenate([getattr(each, name) for each in codes]))
        for name in ("features", "labels", "has_features", "has_label")
    }
    perturbed = perturbed_graph_of_codes(campaign, part.graph_part((BAGS,)), replace(codes[0], **arrays))
    stages.start("quality of the cut")
    here = np.full(len(part.rows.numbers), exchange.rank)
    quality = measure_cut(part.rows, part.halo, here, exchange.world_size)
    size = {
        "nodes": len(part.rows.numbers),
        "entries": len(part.rows.neighbours),
        "halo": len(part.halo.halo_rows),
        "home_halo": home_halo,
        "cut": quality.cut,
        "balance": quality.balance,
    }
    return perturbed, size


def measure_rank(small: Path, shards: Path, out: Path) -> None:
    """Take part in a training, and write what this process measured."""
    torch.set_num_threads(1)
    with join_process_group(torch.device("cpu")) as processes:
        stages = Stages(processes.rank)
        train(small, processes, stages)
        before = stages.found()
        stages.clear()
        part = train(shards, processes, stages)
        found = {
            "rank": processes.rank,
            "fixed_bytes": _peak_of_rgnn(before),
            "fixed_bytes_of_veil": before[VEIL]["peak_bytes"],
            **part,
            "stages": stages.found(),
        }
        (out / f"{processes.rank}.json").write_text(json.dumps(found), encoding="utf-8")


TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc-per-node")


def measure(case: Case, processes: Sequence[int], launcher: Sequence[str] = TORCHRUN) -> list[dict[str, Any]]:
    """Return the measurements of a case with several numbers of processes.

    Args:
        case: the case.
        processes: numbers of processes.
        launcher: module that starts the processes, and its options up to their number.
    """
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        small, shards = Path(folder) / "small", Path(folder) / "shards"
        SMALL.write(small)
        case.write(shards)
        for count in processes:
            out = Path(folder) / str(count)
            out.mkdir()
            for known in (small / "cuts", shards / "cuts"):  # parts and bags of the run before
                shutil.rmtree(known, ignore_errors=True)
            words = [str(count), "-m", "benchmarks.performance.distributed", "--rank", *map(str, (small, shards, out))]
            # As in tests/cli/test_torchrun_shards.py: small graphs are measured as large ones behave.
            settings = {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": str(2**18)}
            subprocess.run([sys.executable, "-m", *launcher, *words], check=True, env=os.environ | settings)
            ranks = [json.loads((out / f"{rank}.json").read_text(encoding="utf-8")) for rank in range(count)]
            rows.append({"case": asdict(case), "processes": count, "load": os.getloadavg()[0], "ranks": ranks})
    return rows


def table(measured: Sequence[dict[str, Any]]) -> str:
    """Return cut, halo, traffic of a hop, times and memory of each case as Markdown; the largest of all processes."""
    lines = [
        "| nodes | mean degree | features | processes | cut | halo rows | MB received in a feature hop "
        "| read | bags | an epoch | peak beyond the start |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in measured:
        case, ranks = row["case"], row["ranks"]
        halo = max(rank["halo"] for rank in ranks)
        reading, bags = (max(rank["stages"][name]["cpu_seconds"] for rank in ranks) for name in ("read", "bags"))
        lines.append(
            f"| {case['nodes']:,} | {case['mean_degree']:g} | {case['features']} | {row['processes']} "
            f"| {ranks[0]['cut']:.1%} | {halo:,} | {4e-6 * halo * case['features']:.2f} "
            f"| {reading:.2f} s | {bags:.2f} s | {1e3 * max(map(epoch_seconds, ranks)):.0f} ms "
            f"| {max(map(growth, ranks)) / 1e6:.0f} MB |"
        )
    return "\n".join(lines) + "\n"


def epoch_seconds(rank: dict[str, Any]) -> float:
    """Return the CPU seconds of an epoch in one process: the difference of a long and a short fit."""
    stages = rank["stages"]
    return float(stages[LONG_FIT]["cpu_seconds"] - stages[SHORT_FIT]["cpu_seconds"]) / EPOCHS


def growth(rank: dict[str, Any]) -> float:
    """Return the peak memory of one process beyond that of a training of RGNN on a small graph."""
    return _peak_of_rgnn(rank["stages"]) - float(rank["fixed_bytes"])


def _peak_of_rgnn(stages: dict[str, dict[str, float]]) -> float:
    return max(stage["peak_bytes"] for name, stage in stages.items() if name not in (VEIL, "end"))


def veil_table(measured: Sequence[dict[str, Any]]) -> str:
    """Return time, traffic and memory of Veil in each case as Markdown; the largest of all processes."""
    lines = [
        "| nodes | edges | processes | cut | CPU time | wall time | MB received | peak beyond the start |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in measured:
        case, ranks = row["case"], row["ranks"]
        seconds, waited, received, peak = (
            max(rank["stages"][VEIL][key] for rank in ranks)
            for key in ("cpu_seconds", "seconds", "received", "peak_bytes")
        )
        lines.append(
            f"| {case['nodes']:,} | {case['nodes'] * case['mean_degree'] / 2:,.0f} | {row['processes']} "
            f"| {ranks[0]['cut']:.1%} | {seconds:.1f} s | {waited:.1f} s | {received / 1e6:.0f} "
            f"| {(peak - min(rank['fixed_bytes_of_veil'] for rank in ranks)) / 1e6:.0f} MB |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure what is missing, and print a table, or JSON with --json."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.performance.distributed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=MEASURED, help="file of the measurements")
    parser.add_argument("--again", action="store_true", help="measure everything again")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    parser.add_argument("--rank", type=Path, nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank is not None:
        measure_rank(*options.rank)
        return
    known = options.out.exists() and not options.again
    measured: list[dict[str, Any]] = json.loads(options.out.read_text(encoding="utf-8")) if known else []
    for case in CASES:
        if all(row["case"] != asdict(case) for row in measured):
            measured += measure(case, PROCESSES)
            write_atomically(options.out, json.dumps(measured, indent=1))
    print(json.dumps(measured, indent=2) if options.json else f"{table(measured)}\n{veil_table(measured)}")


if __name__ == "__main__":
    main()
