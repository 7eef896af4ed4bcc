"""Experiments of the reader's own: a TOML file anywhere, with paths that start from its folder.

Everything that the file names is checked when it is read: data sets, methods, parameters, mechanisms and budgets. The
control is added where a grid lacks it, so that every accuracy has it beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from veilgraph.datasets.registry import find_dataset_source, is_path, short_name
from veilgraph.errors import FitError, RunError
from veilgraph.experiments.cells import method_of
from veilgraph.experiments.grid import (
    BUDGET_KEYS,
    Experiment,
    experiment_names,
    load_experiment,
    load_hyperparameters,
    make_experiment,
    parse_document,
)
from veilgraph.models.base import check_parameters
from veilgraph.models.engine.gnn_method import GNNMethod
from veilgraph.models.plugins import import_files
from veilgraph.models.registry import find_method
from veilgraph.models.structure_only import StructureOnly

_IMPORTS, _TUNED = "imports", "hyperparameters"
_SUFFIX = ".toml"


def is_own_experiment(name: str) -> bool:
    """Return whether an experiment is given by the path of its file, and not by a name of this package.

    >>> is_own_experiment("table2"), is_own_experiment("studies/mine.toml")
    (False, True)
    """
    return name.endswith(_SUFFIX)


def find_experiment(name: str, *, seeds: int | None = None, data_dir: Path | None = None) -> Experiment:
    """Return an experiment of this package by its name, or one of your own by the path of its file.

    Args:
        name: name or path.
        seeds: number of seeds; default: as the file says.
        data_dir: folder to look for data sets in first.
    """
    if is_own_experiment(name):
        return read_experiment(Path(name), seeds=seeds, data_dir=data_dir)
    return load_experiment(name, seeds=seeds)


def read_experiment(path: Path, *, seeds: int | None = None, data_dir: Path | None = None) -> Experiment:
    """Read an experiment from a file; refuse whatever it names that does not exist, with the nearest names.

    The key `imports` lists Python files that register methods and data sets; they are run. The key `hyperparameters`
    names a file of tuned ones, in place of those that this package has for the paper's data sets.
    """
    name = path.stem
    if name in experiment_names():
        raise RunError(f"'{name}' is an experiment of this package: give your file {path} another name")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise RunError(f"{path} cannot be read ({reason}): give the path of an experiment, .toml") from error
    document = parse_document(name, text)
    import_files(path.parent / each for each in _texts(name, document, _IMPORTS))
    document.pop(_IMPORTS, None)
    found = _hyperparameters(name, document.pop(_TUNED, None), path.parent)
    grids = document.get("grid", [])
    if not grids or not isinstance(grids, list):
        raise RunError(f"{path} has no grid: write [[grid]] with datasets and methods")
    located = [_from_folder(name, grid, path.parent) for grid in grids]
    document["grid"] = [*located, *map(_control_grid, located)]
    experiment = make_experiment(name, document, found, seeds=seeds)
    datasets = list(dict.fromkeys(cell.dataset for cell in experiment.cells))
    for dataset in datasets:
        find_dataset_source(dataset, data_dir)
        if [short_name(each) for each in datasets].count(short_name(dataset)) > 1:
            raise RunError(f"{path}: two data sets are called '{short_name(dataset)}': rename a file")
    for cell in experiment.cells:
        try:
            check_parameters(find_method(cell.method).estimator, dict(cell.parameters))
            if isinstance(method := method_of(cell), GNNMethod):
                method.check_settings()
        except FitError as error:
            raise RunError(f"{path}, {cell.method}: {error}") from error
    return replace(experiment, path=path)


def _hyperparameters(name: str, file: object, folder: Path) -> dict[str, Any]:
    """Return hyper-parameters by data set and epsilon_y: of a file that `tune_datasets` wrote, or of this package."""
    if file is None:
        return load_hyperparameters()
    if not isinstance(file, str) or not (path := folder / file).is_file():
        raise RunError(f"{name}: {_TUNED} is {file!r}: give the path of a TOML file, from the folder of this one")
    found = parse_document(str(path), path.read_text(encoding="utf-8-sig"))
    return {key if key == "methods" else short_name(key): each for key, each in found.items()}


def _from_folder(name: str, grid: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a grid whose paths of data sets start from a folder."""
    if "datasets" not in grid:  # the next check says so
        return dict(grid)
    datasets = _texts(f"{name}, grid", grid, "datasets")
    return dict(grid) | {"datasets": [_located(each, folder) for each in datasets]}


def _control_grid(grid: Mapping[str, Any]) -> dict[str, Any]:
    """Return the control on the same data sets and at the same budgets; cells that occur twice are counted once."""
    kept = {"datasets", "labels", *BUDGET_KEYS}
    return {key: values for key, values in grid.items() if key in kept} | {"methods": [StructureOnly.name]}


def _located(dataset: str, folder: Path) -> str:
    if not is_path(dataset):
        return dataset
    path = (folder / Path(dataset).expanduser()).as_posix()
    return path if is_path(path) else f"./{path}"


def _texts(where: str, table: Mapping[str, Any], key: str) -> list[str]:
    """Return a list of texts of a document; an absent one is empty."""
    texts = table.get(key, [])
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        raise RunError(f'{where}: {key} is {texts!r}: write a list of texts, such as {key} = ["..."]')
    return texts
