"""Experiments as data: grids of cells and published figures, read from TOML."""

from __future__ import annotations

import hashlib
import importlib.resources
import itertools
import json
import math
import shlex
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import veilgraph
from veilgraph.datasets.registry import short_name
from veilgraph.errors import RunError, nearest_names
from veilgraph.experiments.edge_knowledge import KNOWLEDGE, PUBLIC, EdgeKnowledge
from veilgraph.models.registry import METHODS, find_method
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.epsilon import check_epsilon

SWEPT = ("feature_hops", "label_hops", "num_clusters", "llp_weight", "backbone")
"""Parameters that a grid can vary."""

GRR_LABELS, BEST_LABELS = "grr", "best"
"""Label mechanisms of a cell: GRR as in the paper, or the one of `best_label_mechanism`."""

USUAL_REPORTERS, HALF = 0.75, 0.5
"""Share of the people who give a label: training and validation nodes, or the training nodes alone."""

BUDGET_KEYS = {"epsilon_x", "epsilon_y", "total_epsilon", "label_share"}
"""Keys of a grid that say how the budget is spent."""

_EDGES: dict[str, Any] = {"neighbours": PUBLIC, "edge_epsilon": None, "reporters": USUAL_REPORTERS}
"""Keys about edges and labels with their values in the paper's setting."""
_GRID_KEYS = {"datasets", "methods", "labels", "variants", *_EDGES, *BUDGET_KEYS, *SWEPT}
_METHODS = "methods"
"""Table of hyper-parameters by method and data set; hyper-parameters of a data set alone are RGNN's."""

_SETTING_KEYS = {"title", "sampled", "first_seed", "seeds", "epochs", "columns"}
_COUNT_KEYS = {"sampled", "first_seed", "seeds", "epochs"}
_EXPERIMENT_KEYS = _SETTING_KEYS | {"grid", "variant", "published"}
_PUBLISHED_KEYS = {"dataset", "epsilon_x", "epsilon_y", "method", "variant", "mean", "std"}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One fit: everything that decides its result, except the data.

    Attributes:
        dataset: name of the data set.
        method: name of the method.
        epsilon_x: budget of each sampled feature; None if the method uses no features or is not private.
        epsilon_y: budget of the label; None if the method is not private.
        sampled: m, the number of features that each person samples.
        seed: seed of the split, the reports and the initial weights.
        variant: name of the ablation, or "".
        original_columns: use the columns as published instead of the merged ones.
        label_mechanism: GRR_LABELS or BEST_LABELS.
        neighbours: what the server learns about edges, a name of KNOWLEDGE.
        edge_epsilon: budget of a person's neighbour list; None where it is public or nothing is asked about it.
        reporters: share of the people who give a label, USUAL_REPORTERS or HALF.
        parameters: parameters of the method.
    """

    dataset: str
    method: str
    epsilon_x: float | None
    epsilon_y: float | None
    sampled: int
    seed: int
    variant: str = ""
    original_columns: bool = False
    label_mechanism: str = GRR_LABELS
    neighbours: str = PUBLIC
    edge_epsilon: float | None = None
    reporters: float = USUAL_REPORTERS
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def edges(self) -> dict[str, Any]:
        """What the server learns about edges and from how many labels; only what is not the paper's setting."""
        return {key: getattr(self, key) for key, usual in _EDGES.items() if getattr(self, key) != usual}

    @property
    def edge_knowledge(self) -> EdgeKnowledge:
        """What the server learns about edges."""
        return KNOWLEDGE[self.neighbours]

    def key(self, data_checksum: str) -> str:
        """Return a hash of everything that decides the result: cell, data, version of the package, method revision."""
        cell = asdict(self)
        cell["dataset"] = short_name(self.dataset)  # the data are known by their content, wherever the file is
        document: dict[str, Any] = {"cell": cell, "data": data_checksum, "version": veilgraph.__version__}
        entry = find_method(self.method)
        if entry.revision:
            document["revision"] = entry.revision
        if entry.code:
            document["code"] = entry.code
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def make_cell(
    *,
    method: str,
    epsilon_x: float | None,
    epsilon_y: float,
    parameters: Mapping[str, Any],
    label_mechanism: str = GRR_LABELS,
    **others: Any,
) -> Cell:
    """Return a cell with only those budgets and parameters that its method uses.

    >>> make_cell(
    ...     dataset="cora", method="structure_only", epsilon_x=1.0, epsilon_y=2.0, sampled=10, seed=0,
    ...     parameters={"epochs": 100},
    ... )
    Cell(dataset='cora', method='structure_only', epsilon_x=None, epsilon_y=2.0, sampled=10, seed=0, variant='', \
original_columns=False, label_mechanism='grr', neighbours='public', edge_epsilon=None, reporters=0.75, parameters={})
    """
    entry = find_method(method)
    return Cell(
        method=method,
        # Nothing left for features: a method that can do without them collects none, another one refuses.
        epsilon_x=(epsilon_x or None) if entry.private and entry.uses_features else None,
        epsilon_y=epsilon_y if entry.private else None,
        label_mechanism=label_mechanism if entry.private else GRR_LABELS,
        parameters={key: value for key, value in sorted(parameters.items()) if key in entry.parameters},
        **others,
    )


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Cells to run, and the published figures to compare them with.

    Attributes:
        name: name of the TOML file.
        title: title for people.
        cells: cells in the order of their results.
        published: rows of published means and standard deviations.
        path: file of an experiment of the reader's own; None for one of this package.
    """

    name: str
    title: str
    cells: tuple[Cell, ...]
    published: tuple[Mapping[str, Any], ...]
    path: Path | None = None

    @property
    def argument(self) -> str:
        """What names the experiment in a command: its name, or the path of its file."""
        return self.name if self.path is None else shlex.quote(str(self.path))

    def only(
        self, *, datasets: Iterable[str] = (), methods: Iterable[str] = (), seeds: int | None = None
    ) -> Experiment:
        """Return the part with these data sets, methods and first seeds; refuse unknown names."""
        chosen = self.cells
        for wanted, attribute in ((set(map(short_name, datasets)), "dataset"), (set(methods), "method")):
            known = {short_name(getattr(cell, attribute)) for cell in self.cells}
            if missing := sorted(wanted - known):
                raise RunError(
                    f"{self.name} has no {attribute} '{missing[0]}': it has {', '.join(sorted(known))}"
                    f"{nearest_names(missing[0], known)}"
                )
            chosen = tuple(cell for cell in chosen if not wanted or short_name(getattr(cell, attribute)) in wanted)
        if seeds is not None:
            first = min((cell.seed for cell in self.cells), default=0)
            chosen = tuple(cell for cell in chosen if cell.seed < first + seeds)
        return replace(self, cells=chosen)


def experiment_names() -> list[str]:
    """Return the names of all experiments of the package."""
    folder = importlib.resources.files("veilgraph.experiments").joinpath("paper")
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml") and entry.name != "hyperparameters.toml"
    )


def load_experiment(name: str, *, seeds: int | None = None) -> Experiment:
    """Return an experiment of the package, with the paper's number of seeds or with `seeds`."""
    if name not in experiment_names():
        raise RunError(
            f"there is no experiment '{name}': known are {', '.join(experiment_names())}"
            f"{nearest_names(name, experiment_names())}"
        )
    return parse_experiment(name, _read(f"{name}.toml"), load_hyperparameters(), seeds=seeds)


def load_hyperparameters() -> dict[str, Any]:
    """Return the parameters of RGNN that `tune_datasets` found, by data set and epsilon_y."""
    return tomllib.loads(_read("hyperparameters.toml"))


def _read(name: str) -> str:
    folder = importlib.resources.files("veilgraph.experiments").joinpath("paper")
    return folder.joinpath(name).read_text(encoding="utf-8")


def parse_experiment(
    name: str, text: str, hyperparameters: Mapping[str, Any], *, seeds: int | None = None
) -> Experiment:
    """Read an experiment from TOML; refuse unknown keys by name.

    Args:
        name: name of the experiment.
        text: the TOML document.
        hyperparameters: tuned parameters by data set and epsilon_y, as `load_hyperparameters` returns them. A table
            `methods` has hyper-parameters of single methods, by method, data set and epsilon_y.
        seeds: number of seeds; default: as the document says.
    """
    return make_experiment(name, parse_document(name, text), hyperparameters, seeds=seeds)


def parse_document(name: str, text: str) -> dict[str, Any]:
    """Parse the TOML of an experiment."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RunError(f"experiment '{name}' is not TOML: {error}") from error


def make_experiment(
    name: str, document: Mapping[str, Any], hyperparameters: Mapping[str, Any], *, seeds: int | None = None
) -> Experiment:
    """Return the experiment that a document describes; the arguments are as in `parse_experiment`."""
    _check_keys(document, _EXPERIMENT_KEYS, name)
    if document.get("columns", "original") != "original":
        raise RunError(f"{name}: columns is '{document['columns']}'; give 'original', or leave it out for merged ones")
    for row in document.get("published", []):
        _check_keys(row, _PUBLISHED_KEYS, f"{name}, published", needed=("dataset", "method", "mean", "std"))
    parameters = frozenset[str]().union(*(entry.parameters for entry in METHODS.values()))
    for row in document.get("variant", []):
        _check_keys(row, {"name", *parameters}, f"{name}, variant", needed=("name",))
    variants = {row["name"]: {k: v for k, v in row.items() if k != "name"} for row in document.get("variant", [])}
    for key in sorted(_COUNT_KEYS & document.keys()):
        if not isinstance(document[key], int) or isinstance(document[key], bool):
            raise RunError(f"{name}: {key} is {document[key]!r}: give a whole number")
    seed_count = seeds if seeds is not None else document.get("seeds", 5)
    if seed_count < 1:
        raise RunError(f"seeds is {seed_count}: run at least 1")
    cells = dict.fromkeys(
        cell_key
        for grid in document.get("grid", [])
        for cell_key in _grid_cells(name, document, grid, variants, hyperparameters, seed_count)
    )
    return Experiment(
        name=name,
        title=str(document.get("title", name)),
        cells=tuple(sorted(map(_thaw, cells), key=lambda cell: (cell.dataset, cell.seed))),
        published=tuple(document.get("published", [])),
    )


def _grid_cells(
    name: str,
    document: Mapping[str, Any],
    grid: Mapping[str, Any],
    variants: Mapping[str, Mapping[str, Any]],
    hyperparameters: Mapping[str, Any],
    seeds: int,
) -> Iterable[str]:
    """Yield the cells of one grid as JSON, which is hashable: equal cells are counted once."""
    _check_grid(name, grid, variants)
    swept, divided = [key for key in SWEPT if key in grid], not grid.keys().isdisjoint({"epsilon_x", "label_share"})
    sampled, first_seed = int(document.get("sampled", 10)), int(document.get("first_seed", 0))
    axes = [
        grid["datasets"],
        grid["methods"],
        _budgets(name, grid, sampled),
        grid.get("variants", [""]),
        _label_mechanisms(name, grid),
        _edge_settings(name, grid),
        range(first_seed, first_seed + seeds),
        *(grid[key] for key in swept),
    ]
    for dataset, method, (epsilon_x, epsilon_y), variant, labels, edges, seed, *values in itertools.product(*axes):
        entry, knowledge = find_method(method), KNOWLEDGE[edges["neighbours"]]
        # Parameters are tuned for an epsilon_y; the ceiling without privacy has none and keeps its defaults.
        found = hyperparameters.get(_METHODS, {}).get(method, hyperparameters)
        tuned = _tuned(found.get(short_name(dataset), {}), epsilon_y) if entry.private else {}
        parameters = {
            "epochs": document.get("epochs", 100),
            **tuned,
            **variants.get(variant, {}),
            **dict(zip(swept, values, strict=True)),
        }
        cell = make_cell(
            dataset=dataset,
            method=method,
            # Private neighbours ask for features only where a grid says so.
            epsilon_x=float(epsilon_x) if divided or knowledge.asks_features else 0.0,
            epsilon_y=float(epsilon_y),
            sampled=sampled,
            seed=seed,
            variant=variant,
            original_columns=document.get("columns") == "original",
            label_mechanism=labels,
            parameters=parameters,
            **edges,
        )
        if entry.private and entry.uses_features and not cell.epsilon_x and entry.estimator.unmet_need(None):
            raise RunError(
                f"{name}, grid: {method} needs features, and no budget is left for them: give epsilon_x, or a "
                "label_share below 1"
            )
        yield json.dumps(vars(cell))


def _check_grid(name: str, grid: Mapping[str, Any], variants: Mapping[str, object]) -> None:
    """Refuse unknown keys, values that are no lists, and variants that are not declared."""
    _check_keys(grid, _GRID_KEYS, f"{name}, grid", needed=("datasets", "methods"))
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            raise RunError(f"{name}, grid: {key} is {values!r}: write a list, such as {key} = [{_quoted(values)}]")
    for variant in grid.get("variants", ()):
        if variant and variant not in variants:
            raise RunError(
                f"{name}, grid: variant '{variant}' is not declared; add a [[variant]] of that name"
                f"{nearest_names(variant, variants)}"
            )


def _budgets(name: str, grid: Mapping[str, Any], sampled: int) -> list[tuple[float, float]]:
    """Return pairs (epsilon_x, epsilon_y): all combinations, or divisions of totals between features and label."""
    for key in sorted(BUDGET_KEYS & grid.keys()):
        for value in grid[key]:
            if not isinstance(value, int | float) or isinstance(value, bool):
                raise RunError(f"{name}, grid: {key} has {value!r}: give numbers")
    budgets = _budget_pairs(name, grid, sampled)
    for epsilon_x, epsilon_y in budgets:  # a budget that is impossible is refused before anything is fitted
        PrivacyBudget(epsilon_y=epsilon_y) if not epsilon_x else PrivacyBudget(epsilon_x, epsilon_y, sampled)
    return budgets


def _budget_pairs(name: str, grid: Mapping[str, Any], sampled: int) -> list[tuple[float, float]]:
    if "total_epsilon" not in grid and "label_share" not in grid:
        return list(itertools.product(grid.get("epsilon_x", [0.0]), grid.get("epsilon_y", [1.0])))
    _check_keys(grid, _GRID_KEYS - {"epsilon_x", "epsilon_y"}, f"{name}, grid", ("total_epsilon", "label_share"))
    if wrong := [share for share in grid["label_share"] if not 0 < share <= 1]:
        raise RunError(f"{name}, grid: label_share has {wrong[0]!r}: give shares above 0, at most 1")
    return [
        (total * (1 - share) / sampled, total * share)
        for total, share in itertools.product(grid["total_epsilon"], grid["label_share"])
    ]


def _label_mechanisms(name: str, grid: Mapping[str, Any]) -> list[str]:
    """Return the label mechanisms of a grid; GRR if it names none."""
    named = list(grid.get("labels", [GRR_LABELS]))
    if unknown := [each for each in named if each not in (GRR_LABELS, BEST_LABELS)]:
        raise RunError(
            f"{name}, grid: labels has '{unknown[0]}'; known are {GRR_LABELS}, {BEST_LABELS}"
            f"{nearest_names(str(unknown[0]), (GRR_LABELS, BEST_LABELS))}"
        )
    return named


def _edge_settings(name: str, grid: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return all combinations of a grid: what is known of edges, their epsilon, and the share of reporting nodes."""
    for each in grid.get("reporters", []):
        if each not in (USUAL_REPORTERS, HALF):
            raise RunError(f"{name}, grid: reporters has {each!r}; give {USUAL_REPORTERS} or {HALF}")
    settings = []
    for neighbours in grid.get("neighbours", [PUBLIC]):
        knowledge = KNOWLEDGE.get(str(neighbours))
        if knowledge is None:
            raise RunError(
                f"{name}, grid: neighbours has {neighbours!r}; known are {', '.join(KNOWLEDGE)}"
                f"{nearest_names(str(neighbours), KNOWLEDGE)}"
            )
        if knowledge.spends and "edge_epsilon" not in grid:
            raise RunError(f"{name}, grid: neighbours has '{neighbours}': give edge_epsilon, such as [1, 2, 4, 8]")
        epsilons: list[float | None] = [None]
        if knowledge.spends:
            epsilons = [check_epsilon(each, "edge_epsilon") for each in grid["edge_epsilon"]]
        settings += [
            {"neighbours": neighbours, "edge_epsilon": epsilon, "reporters": float(reporters)}
            for epsilon, reporters in itertools.product(epsilons, grid.get("reporters", [USUAL_REPORTERS]))
        ]
    return settings


def _tuned(found: Mapping[str, Any], epsilon_y: float) -> Mapping[str, Any]:
    """Return the tuned parameters of the nearest label budget, by ratio; of the largest one for clean labels."""
    if not found:
        return {}
    spent = min(epsilon_y, max(map(float, found)))
    nearest = min(found, key=lambda budget: abs(math.log(float(budget) / spent)))
    parameters: Mapping[str, Any] = found[nearest]
    return parameters


def _quoted(value: object) -> str:
    """Return a value as TOML writes it in a list.

    >>> _quoted("cora"), _quoted(1.5)
    ('"cora"', '1.5')
    """
    return json.dumps(value) if isinstance(value, str | int | float) else "..."


def _thaw(frozen: str) -> Cell:
    return Cell(**json.loads(frozen))


def _check_keys(row: Mapping[str, Any], known: Iterable[str], where: str, needed: Iterable[str] = ()) -> None:
    if unknown := sorted(set(row) - set(known)):
        raise RunError(
            f"{where}: unknown key '{unknown[0]}'; known are {', '.join(sorted(known))}"
            f"{nearest_names(unknown[0], known)}"
        )
    if missing := [key for key in needed if key not in row]:
        raise RunError(f"{where}: '{missing[0]}' is missing; add it")
