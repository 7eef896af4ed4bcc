"""Small stand-ins for the public data sets, and the shipped experiments with few epochs."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path

from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.experiments.cells import DatasetLoader
from veilgraph.experiments.grid import Experiment, load_experiment


def miniature(name: str, data_dir: Path | None = None, *, merge_columns: bool = True) -> PrivateGraph:
    """Return a block model in place of a public data set, a different one for each name, large enough for 256 bags."""
    return csbm(260, num_classes=3, num_features=12 if merge_columns else 24, seed=zlib.crc32(name.encode()))


SMALL = DatasetLoader(read=miniature)


def shortened(name: str, *, seeds: int = 1) -> Experiment:
    """Return an experiment of the package with two epochs for each fit. What has no epochs runs on one data set."""
    experiment = load_experiment(name, seeds=seeds)
    one = max(cell.dataset for cell in experiment.cells if cell.dataset <= "student")
    cells = (
        replace(cell, parameters={key: 2 if key == "epochs" else value for key, value in cell.parameters.items()})
        for cell in experiment.cells
        if not cell.method.startswith(("veil", "neighbour")) or cell.dataset == one
    )
    return replace(experiment, cells=tuple(cells))
