"""Time and memory of a training from shards on many machines, by a model that was fitted to 1, 2 and 4 processes.

python -m benchmarks.performance.machines --nodes 1e9 --edges 1e10 --machines 64 --bandwidth 25

Bytes are counted: they follow from the cut, the halo and the algorithm. CPU seconds of a process are fitted by least
squares to the measurements of `benchmarks.performance.distributed`: they are sums of counts of work (entries of the
adjacency matrix, nodes, bytes), each with a cost that is not negative. `--fit` prints the costs and how far the
model is from what was measured. Time on a network is bytes over bandwidth, plus a latency for each message.

The model assumes a process on a core of its own that is as fast as here, neighbours in other parts that are spread
evenly, and no overlap of computing and sending. It does not know the file system.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from benchmarks.performance.distributed import (
    CLASSES,
    EPOCHS,
    FEATURE_HOPS,
    FIRST_FIT,
    LABEL_HOPS,
    LONG_FIT,
    MEASURED,
    SHARDS,
    SHORT_FIT,
    epoch_seconds,
    growth,
)
from veilgraph.distributed.label_propagation import SLACK

GROWTH, REGION_ROUNDS, ROUNDS = 40, 6, 16
"""Rounds of label propagation: at most, of regions and of parts (`distributed/label_propagation.py`)."""

_READ, _CUT, _BAGS, _REPORTS, _PREPARE, _EPOCH = "read", "cut", "bags", "reports", "reconstruct", "epoch"
STAGES = (_READ, _CUT, _BAGS, _REPORTS, _PREPARE, _EPOCH)


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one process holds, and the run that it takes part in.

    Attributes:
        nodes: nodes of the part.
        entries: entries of the part's rows of the adjacency matrix.
        halo: neighbours in other parts, each once.
        home_halo: the same for the nodes whose shards the process reads, before the graph is cut.
        processes: number of processes, P.
        all_nodes: nodes of the whole graph.
        features: binary features, d.
        classes: classes, k.
        shards: shards of the graph.
        rounds: rounds of label propagation that find the parts, and the bags.
    """

    nodes: float
    entries: float
    halo: float
    home_halo: float
    processes: int
    all_nodes: float
    features: int
    classes: int = CLASSES
    shards: int = SHARDS
    rounds: tuple[float, float] = (GROWTH + REGION_ROUNDS + ROUNDS + 1,) * 2

    @property
    def columns(self) -> int:
        """Columns that all hops before training propagate: K_x d + d + K_y k."""
        return (FEATURE_HOPS + 1) * self.features + LABEL_HOPS * self.classes

    def received(self, stage: str) -> float:
        """Return the bytes that arrive from other processes in a stage."""
        away, edges = 1 - 1 / self.processes, self.entries / 2
        per_shard = edges * self.processes / self.shards
        # A shard has the edges of its nodes to later ones, half of all nodes on average.
        later = self.all_nodes / 2
        named = later * -math.expm1(-per_shard / later) * self.shards / self.processes
        owners = 24 * self.halo * away  # who owns a neighbour, and which rows it sends
        if stage == _READ:
            return away * (24 * named + 16 * edges + 8 * self.nodes) + owners
        if stage == _CUT:
            homes = away * (24 * named + 8 * edges) + 24 * self.home_halo
            return homes + 8 * (self.rounds[0] + 1) * self.home_halo + away * (16 * edges + 8 * self.nodes) + owners
        return {
            _BAGS: 8 * self.rounds[1] * self.halo + 16 * self.nodes * away,
            _REPORTS: (self.features + 18) * self.nodes * away + 8 * self.halo,
            _PREPARE: 4 * self.halo * self.columns,
            _EPOCH: 12 * self.halo * self.classes,
        }[stage]

    def messages(self, stage: str) -> float:
        """Return the number of exchanges in a stage, each with a message for every other process."""
        reading = 6 * -(-self.shards // self.processes) + 10
        return {
            _READ: reading,
            _CUT: 2 * reading + 4 * self.rounds[0],
            _BAGS: 4 * self.rounds[1],
            _REPORTS: 14,
            _PREPARE: 12,
            _EPOCH: 8,
        }[stage]

    def work(self, stage: str) -> dict[str, float]:
        """Return the counts of work of a stage, by name; its CPU seconds are their sum, each times a cost."""
        entries, traffic = {"entries": self.entries}, {"bytes": 2 * self.received(stage)}
        if stage == _READ:
            return entries | traffic
        if stage in (_CUT, _BAGS):
            rounds = self.rounds[0] if stage == _CUT else self.rounds[1]
            looked = {"entries in all rounds": self.entries * rounds, "nodes in all rounds": self.nodes * rounds}
            return looked | {"once": 1} | traffic
        return {
            _REPORTS: {"values": self.nodes * self.features, "entries": self.entries, "once": 1},
            _PREPARE: {"entries times columns": self.entries * self.columns, "values": self.nodes * self.features},
            _EPOCH: {"entries times classes": self.entries * self.classes, "values": self.nodes * self.features},
        }[stage] | ({"once": 1} | traffic if stage != _REPORTS else {})

    def memory(self) -> dict[str, float]:
        """Return the counts that the peak of memory is fitted to."""
        return {
            "nodes": self.nodes,
            "values": self.nodes * self.features,
            "entries": self.entries,
            "halo rows": self.halo,
        }


@dataclass(frozen=True, kw_only=True)
class Cost:
    """A fitted sum of counts.

    Attributes:
        costs: cost of one unit of each count.
        rows: number of measurements, one for each process.
        typical: root mean square of the relative residuals.
        largest: largest relative residual.
    """

    costs: dict[str, float]
    rows: int
    typical: float
    largest: float

    def of(self, counts: dict[str, float]) -> float:
        """Return the sum."""
        return sum(cost * counts[name] for name, cost in self.costs.items())


def fit(counts: Sequence[dict[str, float]], found: Sequence[float]) -> Cost:
    """Fit costs that are not negative, by least squares of the relative residuals.

    >>> made = fit([{"a": 1.0, "b": 0.0}, {"a": 1.0, "b": 1.0}, {"a": 2.0, "b": 1.0}], [2.0, 5.0, 7.0])
    >>> {name: round(cost, 9) for name, cost in made.costs.items()}, round(made.largest, 9)
    ({'a': 2.0, 'b': 3.0}, 0.0)
    """
    names, values = list(counts[0]), np.array(found)
    matrix = np.array([[each[name] for name in names] for each in counts]) / values[:, None]
    scale = np.maximum(np.abs(matrix).max(axis=0), np.finfo(float).tiny)
    solution = nnls(matrix / scale, np.ones(len(values)))[0] / scale
    off = matrix @ solution - 1
    return Cost(
        costs=dict(zip(names, solution.tolist(), strict=True)),
        rows=len(values),
        typical=float(np.sqrt((off**2).mean())),
        largest=float(np.abs(off).max()),
    )


def measured_parts(measured: Sequence[dict[str, Any]]) -> list[tuple[Part, dict[str, Any]]]:
    """Return the part of every process that was measured, with its measurements."""
    parts = []
    for row in measured:
        case, alone = row["case"], len(row["ranks"]) == 1
        # One process exchanges nothing, but label propagation takes as many rounds as with several.
        same = next(other for other in measured if other["case"] == case and len(other["ranks"]) > 1) if alone else row
        for rank in row["ranks"]:
            stages = (same["ranks"][0] if alone else rank)["stages"]
            cut = (stages["first read, with the cut"]["exchanges"] - stages["homes"]["exchanges"] - 22) / 2
            part = Part(
                nodes=rank["nodes"],
                entries=rank["entries"],
                halo=rank["halo"],
                home_halo=rank["home_halo"],
                processes=row["processes"],
                all_nodes=case["nodes"],
                features=case["features"],
                rounds=(cut, (stages["bags"]["exchanges"] - 8) / 2),
            )
            parts.append((part, rank))
    return parts


def _measured(stage: str, rank: dict[str, Any], quantity: str) -> float:
    """Return CPU seconds or received bytes of a stage of the model, from the stages of the benchmark."""
    stages = rank["stages"]
    if stage in (_READ, _BAGS, _REPORTS):
        return float(stages[stage][quantity])
    if stage == _CUT:
        return float(stages["first read, with the cut"][quantity])
    epoch = float(stages[LONG_FIT][quantity] - stages[SHORT_FIT][quantity]) / EPOCHS
    if stage == _EPOCH:
        return epoch_seconds(rank) if quantity == "cpu_seconds" else epoch
    # Two products after the last epoch: the probabilities, and those of the selected epoch.
    after = 8 * rank["halo"] * CLASSES if quantity == "received" else 0
    return float(stages[FIRST_FIT][quantity]) - epoch - after


@dataclass(frozen=True, kw_only=True)
class Model:
    """CPU seconds of each stage and peak of memory of a process.

    Attributes:
        seconds: cost of each stage, in seconds.
        memory: cost of memory, in bytes.
        fixed_bytes: memory of a process before it reads anything: Python, torch and the process group.
        traffic: smallest and largest ratio of the bytes that all processes of a run received to counted ones, of each
            stage.
    """

    seconds: dict[str, Cost]
    memory: Cost
    fixed_bytes: float
    traffic: dict[str, tuple[float, float]]

    @classmethod
    def fitted(cls, measured: Sequence[dict[str, Any]]) -> Model:
        """Fit the model to measurements. One process reads in another way, so several count where shards are read."""
        everyone = measured_parts(measured)
        several = [(part, rank) for part, rank in everyone if part.processes > 1]

        def cost(stage: str) -> Cost:
            rows = several if stage in (_READ, _CUT, _REPORTS) else everyone
            found = [_measured(stage, rank, "cpu_seconds") for _, rank in rows]
            return fit([part.work(stage) for part, _ in rows], found)

        def ratios(stage: str) -> tuple[float, float]:
            found = []
            for row in measured:
                ranks = measured_parts([row]) if len(row["ranks"]) > 1 else []
                counted = sum(part.received(stage) for part, _ in ranks)
                found += [sum(_measured(stage, rank, "received") for _, rank in ranks) / counted] if ranks else []
            return min(found), max(found)

        return cls(
            seconds={stage: cost(stage) for stage in STAGES},
            memory=fit([part.memory() for part, _ in everyone], [growth(rank) for _, rank in everyone]),
            fixed_bytes=max(rank["fixed_bytes"] for _, rank in everyone),
            traffic={stage: ratios(stage) for stage in STAGES},
        )


def expected_halo(nodes: float, entries: float, cut: float, processes: int) -> float:
    """Return the expected number of distinct neighbours elsewhere, if those of a part are spread evenly.

    Args:
        nodes: nodes of the whole graph.
        entries: entries of the part's rows.
        cut: share of the edges between parts.
        processes: number of parts.

    >>> round(expected_halo(100, 1e9, 1.0, 2))
    50
    """
    others = nodes * (1 - 1 / processes)
    return others * -math.expm1(-cut * entries / others) if processes > 1 else 0.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A training to predict.

    Attributes:
        nodes: nodes of the graph.
        edges: undirected edges.
        machines: number of machines.
        processes: processes on each machine, each with one core.
        bandwidth: bandwidth of a machine's network in Gbit/s, which its processes share.
        latency: seconds until a message arrives.
        cut: share of the edges between parts; None for a graph without communities.
        features: binary features.
        classes: classes.
        epochs: training epochs.
    """

    nodes: float
    edges: float
    machines: int
    processes: int = 8
    bandwidth: float = 25.0
    latency: float = 2e-5
    cut: float | None = None
    features: int = 16
    classes: int = CLASSES
    epochs: int = 100

    @property
    def part(self) -> Part:
        """The largest part."""
        parts = self.machines * self.processes
        cut = 1 - 1 / parts if self.cut is None else self.cut
        entries = SLACK * 2 * self.edges / parts
        return Part(
            nodes=SLACK * self.nodes / parts,
            entries=entries,
            halo=expected_halo(self.nodes, entries, cut, parts),
            home_halo=expected_halo(self.nodes, entries, 1 - 1 / parts, parts),
            processes=parts,
            all_nodes=self.nodes,
            features=self.features,
            classes=self.classes,
            shards=max(SHARDS, parts),
        )

    def predict(self, model: Model) -> dict[str, Any]:
        """Return bytes, seconds and memory of the process with the largest part, JSON-ready."""
        part, stages = self.part, {}
        for stage in STAGES:
            received = part.received(stage)
            network = received * 8 * self.processes / (self.bandwidth * 1e9)
            network += part.messages(stage) * self.latency * (part.processes - 1)
            stages[stage] = {
                "received_bytes": received,
                "cpu_seconds": model.seconds[stage].of(part.work(stage)),
                "network_seconds": network,
            }
        once = sum(stages[stage]["cpu_seconds"] + stages[stage]["network_seconds"] for stage in STAGES[:-1])
        epoch = stages[_EPOCH]["cpu_seconds"] + stages[_EPOCH]["network_seconds"]
        process = model.fixed_bytes + model.memory.of(part.memory())
        return {
            "processes": part.processes,
            "nodes_of_part": part.nodes,
            "halo": part.halo,
            "bytes_per_hop": 4 * part.halo * part.features,
            "stages": stages,
            "seconds_before_training": once,
            "seconds_per_epoch": epoch,
            "seconds": once + self.epochs * epoch,
            "process_bytes": process,
            "machine_bytes": process * self.processes,
        }


def fit_table(model: Model) -> str:
    """Return the fitted costs with their residuals as Markdown."""
    lines = ["| stage | CPU nanoseconds for each | residual, typical and largest | bytes, measured / counted |"]
    lines.append("|---|---|---:|---:|")
    for stage, cost in model.seconds.items():
        costs = ", ".join(f"{name}: {1e9 * each:.3g}" for name, each in cost.costs.items() if each)
        low, high = model.traffic[stage]
        ratio = f"{low:.3f} to {high:.3f}" if high - low > 1e-9 else f"{low:.3f}"
        lines.append(f"| {stage} | {costs} | {cost.typical:.0%}, {cost.largest:.0%} | {ratio} |")
    costs = ", ".join(f"{name}: {each:.3g}" for name, each in model.memory.costs.items() if each)
    off = f"{model.memory.typical:.0%}, {model.memory.largest:.0%}"
    lines.append(f"| memory | bytes for each: {costs} | {off} | |")
    return "\n".join(lines) + "\n"


def plan_table(predicted: dict[str, Any], epochs: int) -> str:
    """Return a prediction as Markdown."""
    lines = ["| for each process | received | CPU | network |", "|---|---:|---:|---:|"]
    for stage, row in predicted["stages"].items():
        lines.append(
            f"| {stage} | {row['received_bytes'] / 1e9:.3g} GB | {row['cpu_seconds']:.3g} s "
            f"| {row['network_seconds']:.3g} s |"
        )
    hop, halo = predicted["bytes_per_hop"] / 1e9, predicted["halo"] / 1e6
    return "\n".join(
        [
            *lines,
            "",
            f"{predicted['processes']:,} processes, {predicted['nodes_of_part'] / 1e6:.3g} million nodes in the "
            f"largest part, a halo of {halo:.3g} million rows, {hop:.3g} GB in a feature hop.",
            f"{predicted['seconds_before_training'] / 60:.3g} minutes before training, "
            f"{predicted['seconds_per_epoch']:.3g} s an epoch, {predicted['seconds'] / 60:.3g} minutes with "
            f"{epochs} epochs.",
            f"{predicted['process_bytes'] / 2**30:.3g} GiB in a process, {predicted['machine_bytes'] / 2**30:.3g} GiB "
            "on a machine.",
            "",
        ]
    )


def _whole_number(text: str) -> int:
    """Parse a whole number of 1 or more, such as 1e9."""
    if not 1 <= (number := float(text)) < 1e18:
        raise argparse.ArgumentTypeError(f"{text} is no number of 1 or more")
    return round(number)


def _share(text: str) -> float:
    """Parse a share of 1."""
    if not 0 <= (share := float(text)) <= 1:
        raise argparse.ArgumentTypeError(f"{text} is no share: give a number from 0 to 1")
    return share


def main() -> None:
    """Print the prediction for a plan, or the fit with --fit."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.performance.machines",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--nodes", type=_whole_number, default=10**9, help="nodes, such as 1e9")
    parser.add_argument("--edges", type=_whole_number, default=10**10, help="undirected edges, such as 1e10")
    parser.add_argument("--machines", type=_whole_number, default=64, help="number of machines")
    parser.add_argument("--processes", type=_whole_number, default=8, help="processes of a machine, each with one core")
    parser.add_argument("--bandwidth", type=float, default=25.0, help="network of a machine, Gbit/s")
    parser.add_argument("--latency", type=float, default=2e-5, help="seconds until a message arrives")
    parser.add_argument("--cut", type=_share, help="share of the edges between parts; default: no communities")
    parser.add_argument("--features", type=_whole_number, default=16, help="binary features")
    parser.add_argument("--classes", type=_whole_number, default=CLASSES, help="classes")
    parser.add_argument("--epochs", type=_whole_number, default=100, help="training epochs")
    parser.add_argument("--measured", type=Path, default=MEASURED, help="file of the measurements")
    parser.add_argument("--fit", action="store_true", help="print the fitted costs and their residuals")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    options = vars(parser.parse_args())
    model = Model.fitted(json.loads(options.pop("measured").read_text(encoding="utf-8")))
    shows_fit, as_json = options.pop("fit"), options.pop("json")
    predicted = Plan(**options).predict(model)
    if as_json:
        print(json.dumps(predicted, indent=2))
    else:
        print(fit_table(model) if shows_fit else plan_table(predicted, options["epochs"]))


if __name__ == "__main__":
    main()
