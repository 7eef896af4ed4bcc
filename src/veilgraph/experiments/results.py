"""Results of finished cells: on disk, and as rows of a table beside the published figures.

There is one small file for each cell, named by the hash of everything that decides its result. A row has the mean and
standard deviation over seeds.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veilgraph.atomic_files import write_atomically
from veilgraph.datasets import PrivateGraph
from veilgraph.errors import RunError
from veilgraph.evaluation import majority_share
from veilgraph.experiments.cells import DatasetLoader, DataSource, key_of
from veilgraph.experiments.grid import GRR_LABELS, SWEPT, Cell, Experiment
from veilgraph.models.registry import find_method
from veilgraph.privacy.epsilon import NeighbourRelation, json_epsilon
from veilgraph.privacy.mechanisms import LabelMechanism
from veilgraph.privacy.mechanisms.grr_fs import theorem_1_figure
from veilgraph.privacy.mechanisms.registry import grr_fs
from veilgraph.privacy.notebook_table import html_columns

if TYPE_CHECKING:
    import pandas as pd

_MAX_SHOWN = 24
"""Number of settings that a notebook shows."""


class ResultStore:
    """Results of cells by key. A file appears whole when its cell is finished, so no result is computed twice.

    Args:
        folder: the files are in its subfolder `cells`.
    """

    def __init__(self, folder: Path) -> None:
        self._cells = folder / "cells"

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the result of a cell, or None if it is not finished."""
        path = self._path(key)
        try:
            result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise RunError(f"{path} cannot be read ({type(error).__name__}): delete it and run again") from error
        return result

    def put(self, key: str, result: dict[str, Any]) -> None:
        """Store the result of a cell."""
        write_result(self._path(key), json.dumps(result))

    def has(self, key: str) -> bool:
        """Return whether a cell is finished."""
        return self._path(key).exists()

    def finished(self, experiment: Experiment, data: DataSource) -> Iterator[tuple[Cell, dict[str, Any]]]:
        """Yield each finished cell of an experiment with its result, in the order of the experiment."""
        for cell in experiment.cells:
            result = self.get(key_of(cell, data))
            if result is not None:
                yield cell, result

    def _path(self, key: str) -> Path:
        return self._cells / key[:2] / f"{key}.json"


def write_result(path: Path, content: str) -> None:
    """Write a file whole or not at all; raise RunError with the remedy if it cannot be written."""
    try:
        write_atomically(path, content)
    except OSError as error:
        raise RunError(f"{path} cannot be written: {error.strerror}; free space and run again") from error


@dataclass(frozen=True, kw_only=True)
class Row:
    """One setting over its seeds. Accuracies are fractions.

    Attributes:
        dataset: name of the data set.
        method: name of the method.
        epsilon_x: budget of each sampled feature; None if the method uses no features or is not private.
        epsilon_y: budget of the label; None if the method is not private.
        variant: name of the ablation, or "".
        label_mechanism: "grr" as in the paper, or "best".
        swept: parameters that the experiment varies, and what the server learns about edges where they are private.
        accuracies: accuracy by seed.
        seconds: training time of a fit, mean over seeds.
        epsilon_user_level: user-level epsilon (any two records) of a report; "not private" for the ceiling.
        theorem_1: the paper's figure for features and label together, or None if it does not apply. It is not a
            guarantee.
        published_mean: mean accuracy in the paper, or None.
        published_std: standard deviation in the paper, or None.
        parameters: parameters of the method in this setting, those of a search included.
        trained_together: number of fits that were one computation, by seed. Another number can change the last bits of
            a probability, and so, rarely, the class of a node whose two best classes are as likely.
    """

    dataset: str
    method: str
    epsilon_x: float | None
    epsilon_y: float | None
    variant: str
    swept: Mapping[str, Any]
    accuracies: Mapping[int, float]
    seconds: float
    epsilon_user_level: float | str
    theorem_1: float | None
    published_mean: float | None
    published_std: float | None
    label_mechanism: str = GRR_LABELS
    parameters: Mapping[str, Any] = field(default_factory=dict)
    trained_together: Mapping[int, int] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        """Mean accuracy over seeds."""
        return statistics.mean(self.accuracies.values())

    @property
    def std(self) -> float | None:
        """Standard deviation between seeds; None for one seed."""
        return statistics.stdev(self.accuracies.values()) if len(self.accuracies) > 1 else None

    @property
    def within_noise(self) -> bool | None:
        """Whether our mean differs from the published one by at most two standard errors of the difference.

        The paper's standard deviations are over 5 runs. None if nothing was published.
        """
        if self.published_mean is None or self.published_std is None or self.std is None:
            return None
        error = math.sqrt(self.std**2 / len(self.accuracies) + self.published_std**2 / 5)
        return abs(self.mean - self.published_mean) <= 2 * error

    def as_dict(self) -> dict[str, Any]:
        """Return the row, JSON-ready."""
        return {
            "dataset": self.dataset,
            "epsilon_x": self.epsilon_x,
            "epsilon_y": None if self.epsilon_y is None else json_epsilon(self.epsilon_y),
            "method": self.method,
            "variant": self.variant,
            "label_mechanism": self.label_mechanism,
            **self.swept,
            "accuracy_mean": self.mean,
            "accuracy_std": self.std,
            "seeds": len(self.accuracies),
            "epsilon_user_level": self.epsilon_user_level,
            "theorem_1": self.theorem_1,
            "published_mean": self.published_mean,
            "published_std": self.published_std,
            "seconds": self.seconds,
            "parameters": dict(self.parameters),
        }


class Results(tuple[Row, ...]):
    """Rows of an experiment: a sequence that a notebook shows as a table."""

    __slots__ = ()

    def to_frame(self) -> pd.DataFrame:
        """Return a tidy table: one line for each setting, with mean, spread, epsilon and relation in columns."""
        import pandas as pd

        relation = str(NeighbourRelation.USER_LEVEL)
        return pd.DataFrame([row.as_dict() | {"epsilon_relation": relation} for row in self])

    def _repr_html_(self) -> str:
        settings = [_setting_in_words(row) for row in self]
        names = ["data set", "method", f"epsilon, {NeighbourRelation.USER_LEVEL}", "accuracy", "seeds"]
        columns: list[list[object]] = [
            [row.dataset for row in self],
            [row.method for row in self],
            [_number_in_words(row.epsilon_user_level) for row in self],
            [_accuracy_in_words(row.mean, row.std) for row in self],
            [len(row.accuracies) for row in self],
        ]
        if any(settings):
            names.insert(2, "setting")
            columns.insert(2, list(settings))
        if any(row.published_mean is not None for row in self):
            names.append("published")
            columns.append([_accuracy_in_words(row.published_mean, row.published_std) for row in self])
        notes = ["Accuracy: mean and standard deviation between seeds, against true labels of a simulation."]
        if len(self) > _MAX_SHOWN:
            notes.insert(0, f"{len(self) - _MAX_SHOWN} more settings: to_frame() has all of them.")
        shown = list(zip(*columns, strict=True))[:_MAX_SHOWN]
        return html_columns(f"Results of {len(self)} settings", names, shown, notes=notes)


def _setting_in_words(row: Row) -> str:
    """Name the settings of a row besides data set, method and epsilon; often there are none."""
    labels = "" if row.label_mechanism == GRR_LABELS else f"labels by the {row.label_mechanism} mechanism"
    swept = ", ".join(f"{key} = {value}" for key, value in row.swept.items())
    return "; ".join(filter(None, [row.variant, swept, labels]))


def _number_in_words(epsilon: float | str) -> str:
    return epsilon if isinstance(epsilon, str) else f"{epsilon:.4g}"


def _accuracy_in_words(mean: float | None, std: float | None) -> str:
    """Return a percentage with its spread, in one line: the spaces do not break.

    >>> _accuracy_in_words(0.812, 0.014).split(), _accuracy_in_words(0.5, None).split()
    (['81.2', '%', '±', '1.4'], ['50.0', '%'])
    """
    if mean is None:
        return ""
    spread = "" if std is None else f" ± {100 * std:.1f}"
    return f"{100 * mean:.1f} %{spread}".replace(" ", "\N{NO-BREAK SPACE}")


def summarize_seeds(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Summarize the results of one setting over its seeds, JSON-ready.

    Args:
        results: results of the cells that differ in the seed alone, as a store keeps them.
    """
    accuracies = [result["accuracy"] for result in results]
    return {
        "accuracy_mean": statistics.mean(accuracies),
        # One seed has no spread.
        "accuracy_std": statistics.stdev(accuracies) if len(accuracies) > 1 else None,
        "epsilon_user_level": results[0]["epsilon_user_level"],
        "accuracies": accuracies,
        "seconds_mean": statistics.mean(result["seconds"] for result in results),
    }


def graph_facts(private: PrivateGraph) -> dict[str, Any]:
    """Return facts about a graph for pages: its size, and the share of the largest class."""
    graph = private.graph
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "mean_degree": 2 * graph.num_edges / graph.num_nodes,
        "features": private.schema.num_features,
        "classes": private.schema.num_classes,
        "majority_share": majority_share(private),
    }


def label_facts(mechanism: LabelMechanism) -> dict[str, Any]:
    """Return facts about a label report for pages: how many classes it names, and how often the true one.

    >>> from veilgraph.privacy.mechanisms.registry import best_label_mechanism
    >>> label_facts(best_label_mechanism(10, 1.0))["set_size"]
    3
    """
    return {
        "classes": mechanism.domain_size,
        "set_size": mechanism.set_size,
        "names_true_class": float(mechanism.channel.keep),
    }


def read_rows(experiment: Experiment, store: ResultStore, *, data: DataSource | None = None) -> Results:
    """Return a row for each setting with at least one finished seed, in the order of the experiment.

    Args:
        experiment: the cells and the published figures.
        store: results of cells.
        data: returns the data of a cell; default: data sets of the catalogue by name.
    """
    data = DatasetLoader() if data is None else data
    groups: dict[tuple[Any, ...], list[tuple[Cell, dict[str, Any]]]] = {}
    for cell, result in store.finished(experiment, data):
        groups.setdefault(_setting(cell), []).append((cell, result))
    if not groups:
        raise RunError(f"nothing of {experiment.name} is finished: veilgraph lab paper {experiment.argument}")
    return Results(_row(experiment, cells, data) for cells in groups.values())


def read_all_rows(
    experiments: Sequence[Experiment], store: ResultStore, *, data: DataSource | None = None
) -> dict[str, Results]:
    """Return the finished rows of each experiment by its name, without experiments that have no finished cell.

    A data set that is not on this machine counts as not run, because its cells cannot be identified.
    """
    data = DatasetLoader() if data is None else data
    rows: dict[str, list[Row]] = {experiment.name: [] for experiment in experiments}
    # Data sets in the outer loop, so that each one is loaded once for all experiments.
    for dataset in sorted({cell.dataset for experiment in experiments for cell in experiment.cells}):
        for experiment in experiments:
            if part := _finished_part(experiment, dataset, store, data):
                rows[experiment.name] += read_rows(part, store, data=data)
    finished = {name: Results(own) for name, own in rows.items() if own}
    if not finished:
        names = ", ".join(rows)
        raise RunError(f"nothing of {names} is finished: veilgraph lab paper {experiments[0].argument}")
    return finished


def _finished_part(experiment: Experiment, dataset: str, store: ResultStore, data: DataSource) -> Experiment | None:
    """Return the part of an experiment on one data set if the data are here and a cell is finished."""
    if not any(cell.dataset == dataset for cell in experiment.cells):
        return None
    part = experiment.only(datasets=[dataset])
    try:
        data(part.cells[0])
    except RunError:  # the file is not on this machine
        return None
    return part if any(store.has(key_of(cell, data)) for cell in part.cells) else None


def _setting(cell: Cell) -> tuple[Any, ...]:
    swept = tuple((key, cell.parameters.get(key)) for key in SWEPT)
    return (
        cell.dataset,
        cell.method,
        cell.epsilon_x,
        cell.epsilon_y,
        cell.label_mechanism,
        cell.variant,
        swept,
        *cell.edges.items(),
    )


def _row(experiment: Experiment, cells: list[tuple[Cell, dict[str, Any]]], data: DataSource) -> Row:
    cell, result = cells[0]
    published = _published(experiment, cell)
    return Row(
        dataset=cell.dataset,
        method=cell.method,
        epsilon_x=cell.epsilon_x,
        epsilon_y=cell.epsilon_y,
        variant=cell.variant,
        label_mechanism=cell.label_mechanism,
        swept={key: cell.parameters[key] for key in SWEPT if key in cell.parameters} | cell.edges,
        accuracies={each.seed: one["accuracy"] for each, one in cells},
        seconds=statistics.mean(one["seconds"] for _, one in cells),
        epsilon_user_level=result["epsilon_user_level"],
        theorem_1=_theorem_1(cell, data),
        published_mean=None if published is None else published["mean"] / 100,
        published_std=None if published is None else published["std"] / 100,
        parameters=cell.parameters,
        trained_together={each.seed: one["trained_together"] for each, one in cells if "trained_together" in one},
    )


def _published(experiment: Experiment, cell: Cell) -> Mapping[str, Any] | None:
    wanted = {
        "dataset": cell.dataset,
        "method": cell.method,
        "epsilon_x": cell.epsilon_x,
        "epsilon_y": cell.epsilon_y,
        "variant": cell.variant,
    }
    rows = [
        row
        for row in experiment.published
        if all(row.get(key, "" if key == "variant" else None) == value for key, value in wanted.items())
    ]
    return rows[0] if rows else None


def _theorem_1(cell: Cell, data: DataSource) -> float | None:
    if cell.epsilon_x is None or cell.epsilon_y is None or find_method(cell.method).features is not grr_fs:
        return None
    features = data(cell).schema.num_features
    return theorem_1_figure(cell.epsilon_x, min(cell.sampled, features), features) + cell.epsilon_y
