"""Features where they are useless, useful and decisive: what Veil gains by them, and whether its gate decides rightly.

Each collection has a total epsilon (user level, any two records). Either the label gets all of it, or it gets a third
and joint GRR of the features the rest. Beside both: the label at its third alone, the structure-only control with the
whole total, and an oracle that adds features which nobody randomized to the label at its third. Public graphs with
features as they are come last.

`python -m studies.feature_regimes [--first-seed 0] [--draws 5] [--data-dir FOLDER] [--json]`
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.datasets.csbm import draw_features
from veilgraph.errors import RunError
from veilgraph.evaluation import accuracy
from veilgraph.experiments.cells import DatasetLoader
from veilgraph.experiments.simulation import feature_rng, label_rng, randomize_labels, simulated_collection
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.models import LabelVeil, StructureOnly, Veil
from veilgraph.models.base import FitTask
from veilgraph.privacy.mechanisms import GRRFS, FeatureMechanism, JointGRR
from veilgraph.privacy.mechanisms.registry import best_label_mechanism
from veilgraph.privacy.schema import NO_LABEL, FeatureSchema

TOTALS = (2.0, 4.0, 8.0)
"""Total user-level epsilons, any two records."""

LABEL_SHARE = 1 / 3
"""Share of the total that the label gets where features are collected."""

Records = Callable[[int, Path | None], PrivateGraph]
"""Returns the records of a seed, from a folder of data sets."""


def _public(name: str, seed: int, data_dir: Path | None) -> PrivateGraph:
    return DatasetLoader(data_dir).load(name)


def _permuted(name: str, seed: int, data_dir: Path | None) -> PrivateGraph:
    """Return a public graph whose features are those of other nodes: they say nothing about the class."""
    private = _public(name, seed, data_dir)
    order = np.random.default_rng([seed, 5]).permutation(private.graph.num_nodes)
    return replace(private, features=private.features[order])


def _with_drawn_features(name: str, signal: float, count: int, seed: int, data_dir: Path | None) -> PrivateGraph:
    """Return a public graph with its labels, and binary features that follow the class with probability `signal`."""
    private = _public(name, seed, data_dir)
    schema = FeatureSchema.binary(count, classes=private.schema.classes)
    features = draw_features(private.labels, schema, signal, np.random.default_rng([seed, 6]))
    return replace(private, schema=schema, features=features)


def _rewired(name: str, seed: int, data_dir: Path | None) -> PrivateGraph:
    """Return public records on a random graph with the same degrees (configuration model): edges say nothing."""
    private = _public(name, seed, data_dir)
    ends = np.random.default_rng([seed, 7]).permutation(private.graph.edges.flatten()).reshape(2, -1)
    ends = np.unique(np.sort(ends[:, ends[0] != ends[1]], axis=0), axis=1)
    return replace(private, graph=Graph.from_edges(ends, private.graph.num_nodes))


def _block_model(seed: int, data_dir: Path | None, **parameters: Any) -> PrivateGraph:
    return csbm(2000, seed=seed, **parameters)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One kind of records.

    Attributes:
        regime: "useless", "useful" or "decisive" by construction, or "as they are" for public records.
        name: name in the table.
        records: makes the records of a seed.
    """

    regime: str
    name: str
    records: Records


PUBLIC = ("citeseer", "cora", "dblp", "facebook", "flickr", "german", "pubmed", "student", "twitch_engb")

SETTINGS = (
    Setting(regime="useless", name="Cora, features permuted", records=partial(_permuted, "cora")),
    Setting(regime="useless", name="Citeseer, features permuted", records=partial(_permuted, "citeseer")),
    Setting(
        regime="useless",
        name="csbm, 4 classes, homophily 0.5, signal 0",
        records=partial(_block_model, homophily=0.5, feature_signal=0.0),
    ),
    Setting(
        regime="useful",
        name="csbm, 4 classes, homophily 0.5, signal 0.5",
        records=partial(_block_model, homophily=0.5, feature_signal=0.5),
    ),
    Setting(
        regime="useful",
        name="Twitch ENGB, 32 drawn features, signal 0.3",
        records=partial(_with_drawn_features, "twitch_engb", 0.3, 32),
    ),
    Setting(regime="decisive", name="Student, edges rewired", records=partial(_rewired, "student")),
    Setting(
        regime="decisive",
        name="csbm, 2 classes, homophily 0.5, signal 0.8",
        records=partial(_block_model, num_classes=2, homophily=0.5, feature_signal=0.8),
    ),
    Setting(
        regime="decisive",
        name="csbm, 4 classes, homophily 0.25, signal 0.8",
        records=partial(_block_model, homophily=0.25, feature_signal=0.8),
    ),
    *(Setting(regime="as they are", name=name, records=partial(_public, name)) for name in PUBLIC),
)


def collect(
    private: PrivateGraph, epsilon_y: float, features: FeatureMechanism | None, seed: int
) -> tuple[PerturbedGraph, Split]:
    """Return the reports of a seed. Labels do not depend on the features that are collected."""
    split = Split.random(private.graph.num_nodes, seed=seed, eligible=private.labels != NO_LABEL)
    label = best_label_mechanism(private.schema.num_classes, epsilon_y)
    labels = randomize_labels(private, label, split, rng=label_rng(seed))
    reports = None if features is None else features.randomize(private.features, rng=feature_rng(seed))
    return simulated_collection(private, split, label, labels, features, reports), split


def fit(setting: Setting, total: float, seed: int, data_dir: Path | None) -> dict[str, float]:
    """Return the accuracy of every method in one draw, and whether the gate let features in."""
    torch.set_num_threads(1)
    private = setting.records(seed, data_dir)
    sizes, epsilon_y = private.schema.domain_sizes, total * LABEL_SHARE
    whole, split = collect(private, total, None, seed)
    joint = JointGRR.best(sizes, total - epsilon_y)
    randomized, _ = collect(private, epsilon_y, joint, seed)
    clean, _ = collect(private, epsilon_y, GRRFS(sizes, sampled=len(sizes), epsilon=math.inf), seed)
    tasks = {
        "label_at_its_share": FitTask(method=LabelVeil(seed=seed), perturbed=randomized, split=split),
        "with_features": FitTask(method=Veil(seed=seed), perturbed=randomized, split=split),
        "clean_features": FitTask(method=Veil(seed=seed), perturbed=clean, split=split),
    }
    for _ in Veil.fit_together(list(tasks.values())):  # the same label reports: they share all views
        pass
    methods = {
        "control": StructureOnly(device="cpu").fit(whole, split),
        "label_alone": LabelVeil(seed=seed).fit(whole, split),
        **{name: task.method for name, task in tasks.items()},
    }
    scores = {name: accuracy(method.predict(), private, split.test) for name, method in methods.items()}
    return {**scores, "gate_open": float(tasks["with_features"].method.feature_pool_ is not None)}


def summary(setting: Setting, total: float, fits: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return means with standard errors, paired gains of the features, and how often the gate was open."""
    columns = {name: np.array([each[name] for each in fits]) for name in fits[0]}
    opened = columns.pop("gate_open")
    columns["gain_at_equal_total"] = columns["with_features"] - columns["label_alone"]
    columns["gain_at_equal_label"] = columns["with_features"] - columns["label_at_its_share"]
    found = {name: [float(values.mean()), standard_error(values)] for name, values in columns.items()}
    return {
        "regime": setting.regime,
        "records": setting.name,
        "total_epsilon": total,
        "epsilon_y": total * LABEL_SHARE,
        "epsilon_features": total * (1 - LABEL_SHARE),
        "draws": len(fits),
        "gate_open": int(opened.sum()),
        **found,
    }


def standard_error(values: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """Return the standard error of a mean; not a number for one value.

    >>> standard_error(np.array([0.0, 2.0]))
    1.0
    """
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as a Markdown table, in percent and points."""
    shown = {
        "control": "control",
        "label_alone": "label alone",
        "with_features": "with features",
        "gain_at_equal_total": "gain",
        "gain_at_equal_label": "gain at equal label",
        "clean_features": "clean features",
    }
    heads = ["regime", "records", "total", *shown.values(), "gate open"]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for row in rows:
        sign = {name: "+" if name.startswith("gain") else "" for name in shown}
        cells = [f"{100 * row[name][0]:{sign[name]}.1f} ± {100 * row[name][1]:.1f}" for name in shown]
        gate = f"{row['gate_open']} of {row['draws']}"
        lines.append(
            f"| {row['regime']} | {row['records']} | {row['total_epsilon']:g} | {' | '.join(cells)} | {gate} |"
        )
    return "\n".join(lines) + "\n"


def _available(data_dir: Path | None) -> Iterator[Setting]:
    for setting in SETTINGS:
        try:
            setting.records(0, data_dir)
        except RunError as error:
            print(f"{setting.name} is skipped: {error}", file=sys.stderr)
            continue
        yield setting


def main() -> None:
    """Print the table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--data-dir", type=Path, default=None)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    cases = list(itertools.product(_available(options.data_dir), TOTALS))
    seeds = range(options.first_seed, options.first_seed + options.draws)
    tasks = [(setting, total, seed, options.data_dir) for setting, total in cases for seed in seeds]
    with ProcessPoolExecutor(options.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        fits = list(pool.map(fit, *zip(*tasks, strict=True)))
    grouped = [fits[start : start + options.draws] for start in range(0, len(fits), options.draws)]
    rows = [summary(*case, each) for case, each in zip(cases, grouped, strict=True)]
    print(json.dumps(rows, indent=2) if options.json else table(rows))


if __name__ == "__main__":
    main()
