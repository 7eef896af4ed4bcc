"""Quality of parts: label propagation beside METIS and random parts.

python -m benchmarks.performance.cuts --datasets FOLDER

Each cell has the share of edges between parts, and the weight of the largest part in units of the mean.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from veilgraph.datasets import csbm
from veilgraph.datasets.registry import load
from veilgraph.distributed.exchange import Exchange
from veilgraph.distributed.graph_rows import Halo, whole_rows
from veilgraph.distributed.label_propagation import measure_cut, partition_rows
from veilgraph.graph import Graph
from veilgraph.graph.clustering import cluster

CASES = (("csbm", 4), ("csbm", 16), ("facebook", 4), ("facebook", 16), ("lastfm", 4), ("pubmed", 4), ("flickr", 4))
"""Graphs and numbers of parts. The block model has 20,000 nodes and a homophily of 0.8."""


def compared(graph: Graph, parts: int) -> list[str]:
    """Return the cells of one row: label propagation, METIS and random parts."""
    nowhere, rows = np.empty(0, dtype=np.int64), whole_rows(graph)
    halo = Halo.of(Exchange(rank=0, world_size=1), rows.numbers, nowhere, nowhere)
    drawn = np.random.default_rng(0).integers(parts, size=graph.num_nodes)
    found = [
        measure_cut(rows, halo, each, parts)
        for each in (partition_rows(rows, halo, parts), cluster(graph, parts), drawn)
    ]
    return [f"{100 * each.cut:.1f} %, {each.balance:.2f}" for each in found]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Compare parts by label propagation, by METIS and at random.")
    parser.add_argument("--datasets", type=Path, required=True, help="folder of public graphs, .npz")
    folder = parser.parse_args(arguments).datasets
    print("| graph | parts | label propagation | METIS | random |\n|---|---:|---:|---:|---:|")
    for name, parts in CASES:
        print(f"| {name} | {parts} | {' | '.join(compared(_graph(name, folder), parts))} |", flush=True)


def _graph(name: str, folder: Path) -> Graph:
    return (csbm(20_000, homophily=0.8, seed=0) if name == "csbm" else load(name, data_dir=folder)).graph


if __name__ == "__main__":
    main()
