"""Veil compared with the control, and the calibration of its probabilities, on block models and real graphs.

python -m studies.veil
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from studies.calibration import calibration_bins, calibration_error
from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.errors import RunError
from veilgraph.experiments import simulate
from veilgraph.experiments.cells import DatasetLoader
from veilgraph.graph import Split
from veilgraph.models import StructureOnly
from veilgraph.models.veil.model import Veil
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.schema import NO_LABEL

EPSILONS = (3.0, 1.0, 0.5)
_CLEAR = 2.262  # Student's t with nine degrees of freedom, 95 %


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One kind of graph.

    Attributes:
        name: Name in the table.
        dataset: Name of a real data set; None for block models.
        model: Parameters of the block model that differ from 1,000 nodes, 4 classes, degree 10, homophily 0.8.
        train: Share of training nodes; there are half as many validation nodes.
    """

    name: str
    dataset: str | None = None
    model: Mapping[str, Any] = field(default_factory=dict)
    train: float = 0.5


SWEEP = (
    *(Setting(name=f"{c} classes", model={"num_classes": c}) for c in (2, 10, 40)),
    *(Setting(name=f"homophily {h}", model={"homophily": h}) for h in (0.2, 0.4, 0.6, 0.95)),
    Setting(name="homophily 0.2, 2 classes", model={"homophily": 0.2, "num_classes": 2}),
    *(Setting(name=f"mean degree {d}", model={"mean_degree": d}) for d in (2, 50)),
    Setting(name="classes of 70, 20, 7 and 3 %", model={"class_shares": [0.7, 0.2, 0.07, 0.03]}),
    *(Setting(name=f"{share:.0%} report labels", train=share * 2 / 3) for share in (0.05, 0.2)),
    Setting(
        name="homophily 0.5, 2 classes, strong features",
        model={"homophily": 0.5, "num_classes": 2, "feature_signal": 0.8},
    ),
)
REAL = tuple(Setting(name=name, dataset=name) for name in ("citeseer", "cora", "dblp", "facebook", "german", "student"))


def fit(setting: Setting, epsilon_y: float, seed: int, data_dir: Path | None) -> dict[str, Any]:
    """Fit both methods to one draw, and return their accuracies and Veil's calibration bins."""
    torch.set_num_threads(1)
    private = _graph(setting, seed, data_dir)
    nodes, eligible = private.graph.num_nodes, private.labels != NO_LABEL
    split = Split.random(nodes, seed=seed, train=setting.train, validation=setting.train / 2, eligible=eligible)
    budget = PrivacyBudget(1.0, epsilon_y, min(10, private.schema.num_features))
    reports = simulate(private, budget, split, rng=np.random.default_rng([seed, 0]))
    veil, control = Veil(seed=seed).fit(reports, split), StructureOnly(device="cpu").fit(reports, split)
    hits = [(method.predict() == private.labels)[split.test] for method in (veil, control)]
    return {
        "veil": float(hits[0].mean()),
        "control": float(hits[1].mean()),
        "bins": calibration_bins(veil.predict_proba(), private, split.test).tolist(),
    }


def summary(setting: Setting, epsilon_y: float, fits: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return means, the paired difference with its standard error, and the calibration error over all draws."""
    differences = np.array([each["veil"] - each["control"] for each in fits])
    error = float(differences.std(ddof=1) / np.sqrt(len(fits))) if len(fits) > 1 else float("nan")
    return {
        "graph": setting.name,
        "epsilon_y": epsilon_y,
        "draws": len(fits),
        "veil": float(np.mean([each["veil"] for each in fits])),
        "control": float(np.mean([each["control"] for each in fits])),
        "difference": float(differences.mean()),
        "standard_error": error,
        "clear": bool(abs(differences.mean()) > _CLEAR * error),
        "calibration_error": calibration_error(np.sum([each["bins"] for each in fits], axis=0)),
    }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as a Markdown table, in percent."""
    lines = [
        "| graph | epsilon_y | Veil | control | difference | ECE |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        veil, control, gain, error = (100 * row[key] for key in ("veil", "control", "difference", "standard_error"))
        mark = " *" if row["clear"] else ""
        lines.append(
            f"| {row['graph']} | {row['epsilon_y']:g} | {veil:.1f} | {control:.1f} | {gain:+.2f} ± {error:.2f}{mark} | "
            f"{row['calibration_error']:.3f} |"
        )
    return "\n".join(lines) + "\n"


def _graph(setting: Setting, seed: int, data_dir: Path | None) -> PrivateGraph:
    if setting.dataset is None:
        return csbm(1000, seed=seed, **setting.model)
    return DatasetLoader(data_dir).load(setting.dataset)


def _available(data_dir: Path | None) -> Iterator[Setting]:
    for setting in (*SWEEP, *REAL):
        try:
            _graph(setting, 0, data_dir)
        except RunError as error:
            print(f"{setting.name} is skipped: {error}", file=sys.stderr)
            continue
        yield setting


def main() -> None:
    """Print the table or JSON. The user-level epsilon of a complete report is 10 + epsilon_y."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first-seed", type=int, default=110)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--data-dir", type=Path, default=None)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    cases = list(itertools.product(_available(options.data_dir), EPSILONS))
    seeds = range(options.first_seed, options.first_seed + options.draws)
    tasks = [(setting, epsilon, seed, options.data_dir) for setting, epsilon in cases for seed in seeds]
    with ProcessPoolExecutor(options.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        fits = list(pool.map(fit, *zip(*tasks, strict=True), chunksize=options.draws))
    grouped = [fits[start : start + options.draws] for start in range(0, len(fits), options.draws)]
    rows = [summary(*case, each) for case, each in zip(cases, grouped, strict=True)]
    print(json.dumps(rows, indent=2) if options.json else table(rows))


if __name__ == "__main__":
    main()
