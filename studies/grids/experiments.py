"""The grids of this folder as experiments, which the runner of the package runs."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

from veilgraph.errors import RunError, nearest_names
from veilgraph.experiments.grid import (
    Experiment,
    experiment_names,
    load_experiment,
    load_hyperparameters,
    make_experiment,
    parse_document,
)
from veilgraph.models.plugins import import_files

FOLDER = Path(__file__).parent
PLUGIN = FOLDER.parent / "plugin.py"
_SETTINGS = "hyperparameters"


def names() -> list[str]:
    """Return the names of the grids."""
    return sorted(path.stem for path in FOLDER.glob("*.toml") if path.stem != _SETTINGS)


def load(name: str, *, seeds: int | None = None) -> Experiment:
    """Return a grid with its own number of seeds or with `seeds`; its methods are registered.

    The key `published_in` names an experiment of the paper whose published figures stand beside the same methods.
    """
    if name not in names():
        raise RunError(f"there is no grid '{name}': known are {', '.join(names())}{nearest_names(name, names())}")
    import_files([PLUGIN])  # worker processes import it too
    document = parse_document(name, (FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    source = document.pop("published_in", None)
    experiment = make_experiment(name, document, hyperparameters(), seeds=seeds)
    if source is None:
        return experiment
    methods = {cell.method for cell in experiment.cells}
    published = tuple(row for row in load_experiment(source).published if row["method"] in methods)
    return replace(experiment, published=published)


def find(name: str, *, seeds: int | None = None) -> Experiment:
    """Return a grid of this folder, or an experiment of the paper, by name."""
    return load_experiment(name, seeds=seeds) if name in experiment_names() else load(name, seeds=seeds)


def hyperparameters() -> dict[str, Any]:
    """Return the parameters of RGNN by data set and epsilon_y, and below `methods` those of the rivals."""
    own = tomllib.loads((FOLDER / f"{_SETTINGS}.toml").read_text(encoding="utf-8"))
    return load_hyperparameters() | {"methods": own}
