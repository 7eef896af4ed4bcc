"""Rivals in their own setting: features private at epsilon_x = 1, labels in the clear, beside the published figures.

The epsilon is at user level (any two records). Features are the original columns, randomized by multi-bit with the m
that its analysis prefers, half of the nodes train and a quarter validates. The published figures are the reference
results of Revisit-LDPGNN (Hu et al., S&P 2027), means and standard deviations of ten seeds, with a GCN of 16 hidden
units. The settings are those that its search found for each cell. The control needs no features.

python -m studies.rivals.published --datasets FOLDER --draws 10 --device cuda
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from studies.rivals import FeatFree, PrivGE, UPGNet
from veilgraph.datasets import PrivateGraph
from veilgraph.datasets.archive import Archive
from veilgraph.evaluation import accuracy
from veilgraph.experiments.simulation import feature_rng, label_rng, randomize_labels, simulated_collection
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models import LPGNN, StructureOnly
from veilgraph.models.base import DEFAULT_MEMORY, FitTask
from veilgraph.models.engine.gnn_method import GNNMethod
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import GRR
from veilgraph.privacy.mechanisms.registry import multi_bit_best
from veilgraph.privacy.schema import NO_LABEL

EPSILON_X = 1.0
EPOCHS = 500


@dataclass(frozen=True, kw_only=True)
class Published:
    """A published result.

    Attributes:
        rival: name of the method in the table.
        dataset: name of the data set.
        mean: published accuracy in percent.
        spread: standard deviation over ten seeds.
        method: class of the method.
        settings: settings of the published result.
    """

    rival: str
    dataset: str
    mean: float
    spread: float
    method: type[GNNMethod]
    settings: Mapping[str, Any]


def _settings(learning_rate: float, weight_decay: float, dropout: float, **others: Any) -> dict[str, Any]:
    return {
        "backbone": "gcn",
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "dropout": dropout,
        **others,
    }


def _upgnet(dataset: str, mean: float, spread: float, **settings: Any) -> Published:
    return Published(
        rival="UPGNet", dataset=dataset, mean=mean, spread=spread, method=UPGNet, settings=_settings(**settings)
    )


def _lpgnn(dataset: str, mean: float, spread: float, **settings: Any) -> Published:
    settings = _settings(**settings, label_hops=0)
    return Published(rival="LPGNN", dataset=dataset, mean=mean, spread=spread, method=LPGNN, settings=settings)


def _privge(dataset: str, mean: float, spread: float, **settings: Any) -> Published:
    return Published(
        rival="PrivGE", dataset=dataset, mean=mean, spread=spread, method=PrivGE, settings=_settings(**settings)
    )


def _featfree(dataset: str, mean: float, spread: float, **settings: Any) -> Published:
    settings = _settings(**settings, dimensions=0)
    return Published(rival="FeatFree-P", dataset=dataset, mean=mean, spread=spread, method=FeatFree, settings=settings)


PUBLISHED = (
    _upgnet("cora", 85.07, 1.02, feature_hops=64, learning_rate=0.01, weight_decay=0.01, dropout=0.75, threshold=0.7),
    _upgnet(
        "citeseer", 68.29, 1.11, feature_hops=64, learning_rate=0.01, weight_decay=0.01, dropout=0.25, threshold=0.9
    ),
    _upgnet(
        "facebook", 93.83, 0.26, feature_hops=64, learning_rate=0.001, weight_decay=0.01, dropout=0.5, threshold=0.5
    ),
    _lpgnn("cora", 83.56, 1.24, feature_hops=32, learning_rate=0.001, weight_decay=0.01, dropout=0.75),
    _lpgnn("citeseer", 66.44, 2.99, feature_hops=64, learning_rate=0.001, weight_decay=0.01, dropout=0.25),
    _lpgnn("facebook", 93.45, 0.24, feature_hops=8, learning_rate=0.001, weight_decay=0.01, dropout=0.75),
    _privge("cora", 84.37, 1.25, feature_hops=16, learning_rate=0.01, weight_decay=0.01, dropout=0.75),
    _privge("citeseer", 67.56, 1.50, feature_hops=64, learning_rate=0.001, weight_decay=0.01, dropout=0.25),
    _privge("facebook", 93.54, 0.44, feature_hops=8, learning_rate=0.001, weight_decay=0.01, dropout=0.5),
    _featfree("cora", 85.86, 0.85, steps=8, learning_rate=0.01, weight_decay=0.0, dropout=0.25),
    _featfree("citeseer", 69.52, 1.18, steps=4, learning_rate=0.01, weight_decay=0.001, dropout=0.75),
    _featfree("facebook", 94.18, 0.31, steps=2, learning_rate=0.01, weight_decay=0.0, dropout=0.75),
)
"""Results with a GCN, at user-level epsilon_x = 1 (any two records). FeatFree-P reads no features."""


def draw(private: PrivateGraph, seed: int) -> tuple[PerturbedGraph, Split]:
    """Return randomized features and true labels of the nodes that train and validate, with the split of a seed."""
    split = Split.random(private.graph.num_nodes, seed=seed, eligible=private.labels != NO_LABEL)
    features = multi_bit_best(private.schema, PrivacyBudget(EPSILON_X, math.inf, 1))
    labels = GRR(private.schema.num_classes, math.inf)
    reported = randomize_labels(private, labels, split, rng=label_rng(seed))
    answers = features.randomize(private.features, rng=feature_rng(seed))
    return simulated_collection(private, split, labels, reported, features, answers), split


def measure(
    published: Published,
    private: PrivateGraph,
    draws: Mapping[int, tuple[PerturbedGraph, Split]],
    *,
    device: str = "cpu",
    epochs: int = EPOCHS,
    memory: int = DEFAULT_MEMORY,
) -> list[float]:
    """Return the test accuracy of a rival on each draw, in percent."""
    tasks = [
        FitTask(
            method=published.method(**published.settings, epochs=epochs, seed=seed, device=device),
            perturbed=perturbed,
            split=split,
        )
        for seed, (perturbed, split) in draws.items()
    ]
    for _ in published.method.fit_together(tasks, memory=memory):
        pass
    return [100 * accuracy(task.method.predict(), private, task.split.test) for task in tasks]


def control(private: PrivateGraph, draws: Mapping[int, tuple[PerturbedGraph, Split]]) -> list[float]:
    """Return the test accuracy of the structure-only control on each draw, in percent."""
    return [
        100 * accuracy(StructureOnly(device="cpu").fit(perturbed, split).predict(), private, split.test)
        for perturbed, split in draws.values()
    ]


def row(published: Published, found: Sequence[float], without: Sequence[float]) -> dict[str, Any]:
    """Return one row of the table."""
    return {
        "rival": published.rival,
        "dataset": published.dataset,
        "published": published.mean,
        "published_spread": published.spread,
        "found": list(found),
        "control": list(without),
    }


def table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the rows as a Markdown table, in percent: means and standard deviations over seeds."""
    lines = ["| graph | rival | published | ours | ours - published | control |", "|---|---|---:|---:|---:|---:|"]
    for each in rows:
        theirs = f"{each['published']:.1f} ± {each['published_spread']:.1f}"
        difference = np.mean(each["found"]) - each["published"]
        lines.append(
            f"| {each['dataset']} | {each['rival']} | {theirs} | {_spread(each['found'])} | {difference:+.1f} "
            f"| {_spread(each['control'])} |"
        )
    return "\n".join(lines) + "\n"


def _spread(values: Sequence[float]) -> str:
    return f"{np.mean(values):.1f} ± {np.std(values, ddof=1):.1f}"


def main() -> None:
    """Measure and print, one row at a time. Epsilons are at user level (any two records)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=Path, required=True, help="folder of public graphs, .npz")
    parser.add_argument("--only", nargs="+", default=["cora", "citeseer", "facebook"])
    parser.add_argument("--rivals", nargs="+", default=sorted({each.rival for each in PUBLISHED}))
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--memory", type=int, default=8, help="memory of the fits that run together, in GiB")
    parser.add_argument("--json", type=Path, default=None, help="file for the rows, written after each")
    options = parser.parse_args()
    rows = list[dict[str, Any]]()
    for dataset in options.only:
        private = Archive.read(options.datasets / f"{dataset}.npz").private_graph(group=1)
        seeds = range(options.first_seed, options.first_seed + options.draws)
        draws = {seed: draw(private, seed) for seed in seeds}
        without = control(private, draws)
        for published in PUBLISHED:
            if published.dataset == dataset and published.rival in options.rivals:
                found = measure(published, private, draws, device=options.device, memory=options.memory * 2**30)
                rows.append(row(published, found, without))
                print(table(rows[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
                if options.json is not None:
                    options.json.write_text(json.dumps(rows, indent=2), encoding="utf-8")
    print(table(rows))


if __name__ == "__main__":
    main()
