"""Search of hyper-parameters. Its score comes from randomized validation labels only."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from veilgraph.datasets import EMBEDDED, PrivateGraph
from veilgraph.datasets.catalogue import known_datasets
from veilgraph.datasets.registry import short_name
from veilgraph.errors import MissingExtraError, RunError
from veilgraph.experiments.cells import DatasetLoader, DataSource, draw_reports
from veilgraph.experiments.grid import GRR_LABELS, Cell
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models.base import DEFAULT_MEMORY, FitTask
from veilgraph.models.engine.gnn_method import GNNMethod
from veilgraph.models.registry import make_method
from veilgraph.progress import Progress, no_progress

try:
    import optuna
    from optuna.distributions import CategoricalDistribution
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend
    from optuna.trial import FrozenTrial
except ImportError:
    raise MissingExtraError("optuna", "lab") from None

FIRST_SEED = 1000
"""First seed of the search. No table uses the seeds of the search, so no table is tuned on its own draws."""

SEARCH_SPACE: dict[str, tuple[Any, ...]] = {
    "feature_hops": (2, 4, 8, 16),
    "label_hops": (2, 4, 8, 16),
    "num_clusters": (4, 8, 16, 32, 64, 128, 256),
    "llp_weight": (0.01, 0.1, 1.0, 10.0, 20.0),
    "dropout": (0.0, 0.25, 0.5, 0.75),
    "learning_rate": (0.001, 0.003, 0.01, 0.03),
}
"""K_x, K_y, C and alpha as in the paper, which does not list values of dropout and learning rate."""

_FIRST_HOPS = {"feature_hops": 16, "label_hops": 8}
"""Hops of the first trial of a method that would choose its own; settings of the paper's data are relative to them."""

_ROUND = 8
_SCORES = "scores"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A finished setting.

    Attributes:
        parameters: the setting.
        scores: mean log-likelihood of validation labels, one for each draw.
    """

    parameters: Mapping[str, Any]
    scores: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """Result of a search, with its uncertainty.

    Attributes:
        parameters: recommended parameters: the best trial's, or the defaults.
        best: parameters of the trial with the highest mean score.
        advantage: mean score of that trial minus the mean score of the defaults, in nats per validation label.
        standard_error: standard error of the advantage, paired over draws.
        needed: advantage that the best of equally many equal settings has by chance alone.
    """

    parameters: Mapping[str, Any]
    best: Mapping[str, Any]
    advantage: float
    standard_error: float
    needed: float


@dataclass(frozen=True, kw_only=True)
class Search:
    """How much is searched, where, and by what.

    Args:
        space: values to try by the name of the parameter; default: the search space of RGNN.
        trials: number of settings to try.
        seeds: number of draws of split and reports that each setting is averaged over.
        epochs: number of epochs of each fit.
        device: "auto", "cpu" or "cuda".
        memory: limit for all fits that run at the same time, in bytes.
    """

    space: Mapping[str, tuple[Any, ...]] = field(default_factory=lambda: SEARCH_SPACE)
    trials: int
    seeds: int = 10
    epochs: int = 100
    device: str = "auto"
    memory: int = DEFAULT_MEMORY

    def __post_init__(self) -> None:
        for name, count, least in (("trials", self.trials, 1), ("seeds", self.seeds, 2)):
            if count < least:
                raise RunError(f"{name} is {count}: use at least {least}")


def tune(
    cell: Cell, search: Search, *, journal: Path, data: DataSource | None = None, progress: Progress = no_progress
) -> SearchResult:
    r"""Find the parameters of a method that explain held-out randomized labels best, on average over draws.

    The validation labels are held out of the propagation too. Otherwise they would shape the targets of their
    neighbours, and the search would prefer settings that memorise them.

    The first trial has the defaults. Randomized labels are few and noisy, so the best of many trials is best by chance
    to some extent: of T equal settings whose scores have the standard error s, the best is about
    :math:`s \sqrt{2 \ln T}` ahead. A setting replaces the defaults only if it is further ahead than that.

    Trials are written to `journal` after each round; the same call continues an earlier search. A search with another
    budget, number of seeds or number of epochs has other scores, and a separate study in the journal.

    Args:
        cell: data set, method that trains a GNN, and budget; its seed and its parameters are replaced.
        search: how much is searched, where, and by what.
        journal: file of the trials.
        data: returns the data of a cell; default: data sets of the catalogue by name.
        progress: called with the best score, the number of finished trials, and the number of all trials.
    """
    first = replace(cell, seed=FIRST_SEED, parameters={})
    method, trials = first.method, search.trials
    private = (DatasetLoader() if data is None else data)(first)
    reports = [draw_reports(replace(first, seed=FIRST_SEED + seed), private) for seed in range(search.seeds)]
    distributions = _distributions(search.space, private.graph.num_nodes)
    study = _study(_study_name(first, private, search.seeds, search.epochs), journal)
    while (done := len(study.trials)) < trials:
        progress(f"best {study.best_value:.4f}" if done else "first round", done, trials)
        until = min(trials, _ROUND * (done // _ROUND + 1))
        settings = [_proposal(method, number, study.trials, distributions) for number in range(done, until)]
        for setting, scores in zip(settings, _scores(first, settings, reports, search), strict=True):
            study.add_trial(_finished_trial(setting, distributions, scores))
    progress("done", trials, trials)
    return choose([_trial_of(trial) for trial in study.trials[:trials]])


def _study_name(cell: Cell, private: PrivateGraph, seeds: int, epochs: int) -> str:
    features = "" if cell.epsilon_x is None else f"epsilon_x {cell.epsilon_x:g}, "
    budget = f"{features}epsilon_y {cell.epsilon_y:g}, sampled {cell.sampled}"
    method = "" if cell.method == "rgnn" else f"{cell.method}, "
    labels = "" if cell.label_mechanism == GRR_LABELS else f"{cell.label_mechanism} labels, "
    # Data of the reader's own may change under the same name.
    known = cell.dataset in {**EMBEDDED, **known_datasets()}
    data = cell.dataset if known else f"{short_name(cell.dataset)} {private.fingerprint[:16]}"
    return f"{data}, {method}{labels}{budget}, {seeds} seeds, {epochs} epochs"


def _scores(
    cell: Cell,
    settings: Sequence[Mapping[str, Any]],
    reports: Sequence[tuple[PerturbedGraph, Split]],
    search: Search,
) -> list[list[float]]:
    """Fit all settings on all draws together; return the best validation score of each, [settings, draws]."""
    common = {"epochs": search.epochs, "device": search.device, "hold_out_validation": True}
    tasks = [
        [
            FitTask(method=_gnn(cell.method, setting | common | {"seed": seed}), perturbed=perturbed, split=split)
            for seed, (perturbed, split) in enumerate(reports, start=FIRST_SEED)
        ]
        for setting in map(dict, settings)
    ]
    together = [task for draws in tasks for task in draws]
    for _ in type(together[0].method).fit_together(together, memory=search.memory):
        pass
    return [[max(task.method.curve_.validation_score) for task in draws] for draws in tasks]


def _gnn(method: str, parameters: Mapping[str, Any]) -> GNNMethod:
    return cast(GNNMethod, make_method(method, parameters))  # the network's parameters are what is searched


def _distributions(space: Mapping[str, tuple[Any, ...]], nodes: int) -> dict[str, CategoricalDistribution]:
    """Return the search space without cluster counts above the number of nodes."""
    return {
        name: CategoricalDistribution([value for value in values if name != "num_clusters" or value <= nodes])
        for name, values in space.items()
    }


def _proposal(
    method: str, number: int, finished: Sequence[FrozenTrial], space: Mapping[str, CategoricalDistribution]
) -> dict[str, Any]:
    """Return the setting of a trial. It depends only on finished rounds, so a resumed search is the same search."""
    if number == 0:
        return _defaults(method, space)
    memory = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=number))
    memory.add_trials(finished[: number // _ROUND * _ROUND])
    return dict(memory.ask(dict(space)).params)


def _defaults(method: str, space: Mapping[str, CategoricalDistribution]) -> dict[str, Any]:
    """Return the defaults of the method; one above the largest value of the space is that value."""
    made = make_method(method, {})
    defaults = {name: _FIRST_HOPS[name] if getattr(made, name) is None else getattr(made, name) for name in space}
    if "num_clusters" in space:
        defaults["num_clusters"] = min(defaults["num_clusters"], int(str(space["num_clusters"].choices[-1])))
    return defaults


def _finished_trial(
    setting: Mapping[str, Any], space: Mapping[str, CategoricalDistribution], scores: list[float]
) -> FrozenTrial:
    return optuna.trial.create_trial(
        params=dict(setting),
        distributions=dict(space),
        value=statistics.mean(scores),
        user_attrs={_SCORES: scores},
    )


def _trial_of(trial: FrozenTrial) -> Trial:
    return Trial(parameters=trial.params, scores=trial.user_attrs[_SCORES])


def choose(trials: Sequence[Trial]) -> SearchResult:
    """Return the best trial's parameters if they are ahead by more than chance, else the first trial's.

    Args:
        trials: finished trials on the same draws; the first has the defaults.
    """
    default, best = trials[0], max(trials, key=lambda trial: statistics.mean(trial.scores))
    differences = [ours - theirs for ours, theirs in zip(best.scores, default.scores, strict=True)]
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    needed = error * math.sqrt(2 * math.log(len(trials)))
    advantage = statistics.mean(differences)
    return SearchResult(
        parameters=best.parameters if advantage > needed else default.parameters,
        best=best.parameters,
        advantage=advantage,
        standard_error=error,
        needed=needed,
    )


def _study(name: str, journal: Path) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    journal.parent.mkdir(parents=True, exist_ok=True)
    storage = JournalStorage(JournalFileBackend(str(journal)))
    return optuna.create_study(study_name=name, storage=storage, direction="maximize", load_if_exists=True)
