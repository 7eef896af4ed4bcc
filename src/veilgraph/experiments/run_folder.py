"""What runs on one graph share: the settings of training, a folder that belongs to one run, and running its cells."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import veilgraph
from veilgraph.datasets import PrivateGraph
from veilgraph.errors import RunError
from veilgraph.experiments.cells import Fit
from veilgraph.experiments.grid import Cell, Experiment
from veilgraph.experiments.results import ResultStore, write_result
from veilgraph.experiments.runner import OnFit, Resources, no_details, run_experiment
from veilgraph.models.engine.gnn_method import GNNMethod
from veilgraph.models.registry import find_method
from veilgraph.privacy.epsilon import json_epsilon
from veilgraph.progress import Progress, no_progress

_CONFIGURATION = "configuration.json"


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Settings of training that every run has.

    Attributes:
        backbone: backbone of every GNN.
        seeds: number of repetitions, each with its own split, reports and initial weights.
        feature_hops: K_x; default: chosen in each fit.
        label_hops: K_y; default: chosen in each fit.
        num_clusters: C.
        llp_weight: alpha.
        epochs: number of epochs of every GNN.
    """

    backbone: str = "sage"
    seeds: int = 5
    feature_hops: int | None = None
    label_hops: int | None = None
    num_clusters: int = 16
    llp_weight: float = 1.0
    epochs: int = 100

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise RunError(f"seeds is {self.seeds}: run at least 1")

    def identity(self, private: PrivateGraph) -> dict[str, Any]:
        """Return everything that decides the results of a run on some data, JSON-ready."""
        return run_identity(private, asdict(self))


def run_identity(private: PrivateGraph, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything that decides the results of a run on some data, JSON-ready."""
    data = {"dataset": private.name, "data_sha256": private.fingerprint}
    identity: dict[str, Any] = _json_ready(data | dict(settings) | {"version": veilgraph.__version__})
    return identity


def _json_ready(value: Any) -> Any:
    """Return a value as JSON would hold it; an infinite epsilon is a text."""
    if isinstance(value, dict):
        return {key: _json_ready(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [_json_ready(each) for each in value]
    return json_epsilon(value) if isinstance(value, float) else value


class RunFolder:
    """Folder of one run: results of cells, and files for people. A folder of another run is refused and left alone.

    Args:
        path: the folder; it need not exist.
        identity: everything that decides the results, as `run_identity` returns it.
    """

    def __init__(self, path: Path, identity: dict[str, Any]) -> None:
        self.path, self.identity, self.store = path, identity, ResultStore(path)
        self._check()

    def claim(self) -> None:
        """Write whose results these are. Call it at the first result: until then a mistake leaves no file behind."""
        if not (self.path / _CONFIGURATION).exists():
            self.write(_CONFIGURATION, json.dumps(self.identity, indent=2))

    def write(self, name: str, content: str) -> None:
        """Write a file whole or not at all."""
        write_result(self.path / name, content)

    def _check(self) -> None:
        stored = self.path / _CONFIGURATION
        try:
            if stored.exists():
                found = json.loads(stored.read_text(encoding="utf-8"))
            elif self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
                raise RunError(f"{self.path} exists and is not a run's folder: choose another folder")
            else:
                return
        except (OSError, ValueError) as error:
            raise RunError(f"{self.path} cannot be used as a run's folder: {error}; choose another folder") from error
        differing = [key for key in self.identity | found if self.identity.get(key) != found.get(key)]
        if differing:
            key = differing[0]
            raise RunError(
                f"{self.path} holds another run's result ({key} was {found.get(key)}, now {self.identity.get(key)}): "
                "choose another folder or delete it"
            )


def run_cells(
    private: PrivateGraph,
    cells: Sequence[Cell],
    folder: RunFolder,
    *,
    device: str = "auto",
    keep: OnFit = no_details,
    progress: Progress = no_progress,
) -> list[tuple[Cell, dict[str, Any]]]:
    """Run the cells that a folder lacks on one graph; return every cell with its result, in order.

    Args:
        private: the true records.
        cells: cells of the run.
        folder: folder of the run; the first finished fit claims it.
        device: "auto", "cpu" or "cuda".
        keep: called with each finished fit; the entries that it returns are stored with the result.
        progress: called with the cell, the number of finished cells, and the number of all cells.
    """

    def data(cell: Cell) -> PrivateGraph:
        return private

    def claim_and_keep(fit: Fit) -> Mapping[str, Any]:
        folder.claim()
        return keep(fit)

    experiment = Experiment(name="run", title=private.name, cells=tuple(cells), published=())
    run_experiment(
        experiment,
        folder.store,
        data=data,
        resources=Resources(device=device),
        on_fit=claim_and_keep,
        progress=progress,
    )
    return list(folder.store.finished(experiment, data))


def gnns_first(methods: Sequence[str]) -> list[str]:
    """Return methods in the order to fit them: a mistake in the settings of GNNs shows before there is a result.

    >>> gnns_first(("veil", "structure_only", "rgnn"))
    ['rgnn', 'veil', 'structure_only']
    """
    return sorted(methods, key=lambda method: not issubclass(find_method(method).estimator, GNNMethod))
