"""Accuracy of the deployed path on public graphs: a campaign for the label alone, a store, `train` and `predict`.

Each draw makes a campaign, lets three quarters of the people report by its label mechanism, stores the reports in
SQLite, trains on the store, and predicts the others from the model folder. The structure-only control goes the same
way. True labels are read by the simulated devices and by the comparison at the end.

python -m studies.deployed --datasets FOLDER --first-seed 100 --draws 10
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import reports_of
from veilgraph.campaign.budget import CampaignBudget
from veilgraph.campaign.notice import Notice
from veilgraph.collector.store import ReportStore
from veilgraph.datasets import PrivateGraph
from veilgraph.datasets.archive import Archive
from veilgraph.deploy import Model, TrainingOptions, open_source, predict_nodes, train
from veilgraph.evaluation import accuracy
from veilgraph.experiments.simulation import label_rng, randomize_labels, simulated_collection
from veilgraph.graph import Graph, Split
from veilgraph.privacy.schema import NO_LABEL, FeatureSchema

METHODS = ("veil", "structure_only")
_MIB = 2**10  # kilobytes, the unit of ru_maxrss on Linux


def read_labels(path: Path) -> PrivateGraph:
    """Read a public graph with its labels and without its features; nodes are named p0, p1, ..."""
    archive = Archive.read(path)
    nodes, labels = int(archive.arrays["num_nodes"]), archive.arrays["y"].astype(np.int64)
    labels[archive.arrays.get("unlabeled_nodes", np.empty(0, dtype=np.int64))] = NO_LABEL
    edges = archive.arrays["edge_index"].astype(np.int64)
    return PrivateGraph(
        name=path.stem,
        graph=Graph.from_edges(edges, nodes, node_ids=[f"p{node}" for node in range(nodes)]),
        schema=FeatureSchema(classes=tuple(f"c{code}" for code in range(labels.max() + 1))),
        features=np.zeros((nodes, 0), dtype=np.uint8),
        labels=labels,
    )


def collect(private: PrivateGraph, epsilon: float, seed: int, folder: Path) -> Split:
    """Write what an owner has after a collection: campaign.json, edges.csv, nodes.csv and reports.db."""
    campaign = Campaign.new(
        schema=private.schema,
        graph=private.graph,
        notice=Notice(
            purpose="A simulation with public data", contact="nobody", closes=datetime(2999, 1, 1, tzinfo=UTC)
        ),
        budget=CampaignBudget(epsilon_y=epsilon),
    )
    if campaign.label_mechanism is None:
        raise ValueError("a campaign with an epsilon collects the label")
    split = Split.random(private.graph.num_nodes, seed=seed, eligible=private.labels != NO_LABEL)
    labels = randomize_labels(private, campaign.label_mechanism, split, rng=label_rng(seed))
    perturbed = simulated_collection(private, split, campaign.label_mechanism, labels)
    (folder / "campaign.json").write_text(campaign.to_json(), encoding="utf-8")
    _write_table(folder / "nodes.csv", ["id"], [[name] for name in private.graph.names])
    ends = np.array(private.graph.names)[private.graph.edges.T]
    _write_table(folder / "edges.csv", ["from", "to"], ends.tolist())
    store = ReportStore.open(f"sqlite:///{folder}/reports.db")
    store.reports.put(list(reports_of(perturbed, campaign)), now=0)
    store.close()
    return split


def _write_table(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def deploy(private: PrivateGraph, split: Split, method: str, folder: Path) -> dict[str, float]:
    """Train on the store of a folder and predict from the model's folder; return the accuracy and the time."""
    started, cpu = time.perf_counter(), time.process_time()
    store, nodes = f"sqlite:///{folder}/reports.db", folder / "nodes.csv"
    source = open_source(folder / "campaign.json", folder / "edges.csv", store=store, nodes=nodes)
    train(source, TrainingOptions(method=method, device="cpu", card=False), out=folder / method)
    seconds = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu}
    model = Model.load(folder / method, device="cpu")
    table = predict_nodes(model, Graph.from_files(folder / "edges.csv"), nodes=private.graph.names).to_frame()
    codes = {name: code for code, name in enumerate(private.schema.classes)}
    predicted = np.array([codes[name] for name in table["class"]])
    return {"accuracy": accuracy(predicted, private, split.test)} | seconds


def draw(private: PrivateGraph, epsilon: float, seed: int, folder: Path) -> dict[str, dict[str, float]]:
    """Collect once, and deploy each method on the same store."""
    folder.mkdir(parents=True, exist_ok=True)
    split = collect(private, epsilon, seed, folder)
    return {method: deploy(private, split, method, folder) for method in METHODS}


def summary(
    name: str, epsilon: float, seeds: Sequence[int], draws: Sequence[Mapping[str, Mapping[str, float]]]
) -> dict[str, Any]:
    """Return the mean accuracy of each method and the paired difference, with standard errors over the draws."""
    row: dict[str, Any] = {"dataset": name, "epsilon_user_level": epsilon, "seeds": list(seeds)}
    values = {method: np.array([each[method]["accuracy"] for each in draws]) for method in METHODS}
    veil, control = METHODS
    for key, each in (values | {"difference": values[veil] - values[control]}).items():
        error = each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 else float("nan")
        row[key] = {"mean": float(each.mean()), "standard_error": float(error), "values": each.tolist()}
    row["train_seconds"] = {m: float(np.median([each[m]["seconds"] for each in draws])) for m in METHODS}
    row["train_cpu_seconds"] = {m: float(np.median([each[m]["cpu_seconds"] for each in draws])) for m in METHODS}
    return row


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as a Markdown table, in percent."""
    lines = ["| graph | epsilon | Veil | control | difference | draws |", "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for row in rows:
        cells = [
            f"{100 * row[key]['mean']:{sign}.1f} ± {100 * row[key]['standard_error']:.1f}"
            for key, sign in ((METHODS[0], ""), (METHODS[1], ""), ("difference", "+"))
        ]
        lines.append(
            f"| {row['dataset']} | {row['epsilon_user_level']:g} | {' | '.join(cells)} | {len(row['seeds'])} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the table or JSON. Epsilons are at user level (any two records), spent on the label alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=Path, required=True, help="folder of public graphs, .npz")
    parser.add_argument("--only", nargs="+", default=["lastfm", "facebook", "cora"], help="names of the graphs")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[2.0, 1.0, 0.5])
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--keep", type=Path, default=None, help="keep stores and models in this folder")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    seeds, rows = range(options.first_seed, options.first_seed + options.draws), []
    with TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        for name, epsilon in itertools.product(options.only, options.epsilons):
            private = read_labels(options.datasets / f"{name}.npz")
            draws = [draw(private, epsilon, seed, folder / f"{name}-{epsilon:g}-{seed}") for seed in seeds]
            rows.append(summary(name, epsilon, seeds, draws))
            print(f"{name}, epsilon {epsilon:g}: done", file=sys.stderr)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _MIB
    print(json.dumps({"peak_mib": peak, "rows": rows}, indent=2) if options.json else table(rows))


if __name__ == "__main__":
    main()
