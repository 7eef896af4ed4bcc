"""Hyper-parameters by a search that sees randomized validation labels only."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from veilgraph.errors import MissingExtraError, RunError
from veilgraph.experiments.cells import draw_reports
from veilgraph.experiments.grid import Cell
from veilgraph.experiments.runner import load_data
from veilgraph.models import RGNN
from veilgraph.models.base import FitTask

try:
    import optuna
    from optuna.distributions import CategoricalDistribution
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend
    from optuna.trial import FrozenTrial
except ImportError:
    raise MissingExtraError("optuna", "lab") from None

FIRST_SEED = 1000
"""Tuning draws its own splits and reports; no seed of a reported table is among them."""

SEARCH_SPACE: dict[str, tuple[Any, ...]] = {
    "feature_hops": (2, 4, 8, 16),
    "label_hops": (2, 4, 8, 16),
    "num_clusters": (4, 8, 16, 32, 64, 128, 256),
    "llp_weight": (0.01, 0.1, 1.0, 10.0, 20.0),
    "dropout": (0.0, 0.25, 0.5, 0.75),
    "learning_rate": (0.001, 0.003, 0.01, 0.03),
}
"""K_x, K_y, C and alpha as the paper lists them; it is silent on dropout and learning rate."""

_ROUND = 8
_SCORES = "scores"


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a search found, and how sure it is.

    Attributes:
        parameters: to use: those of the best trial, or the defaults.
        best: the parameters of the trial with the highest mean score.
        advantage: of that trial over the defaults, in nats per validation label, averaged over draws.
        standard_error: of the advantage, paired over draws.
        needed: the advantage that the best of that many trials has by luck alone.
    """

    parameters: Mapping[str, Any]
    best: Mapping[str, Any]
    advantage: float
    standard_error: float
    needed: float


def tune(
    dataset: str,
    *,
    epsilon_x: float,
    epsilon_y: float,
    sampled: int = 10,
    trials: int,
    seeds: int = 10,
    epochs: int = 100,
    journal: Path,
    data_dir: Path | None = None,
    device: str = "auto",
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Found:
    r"""The parameters of RGNN that explain held-out randomized labels best, on average over `seeds` draws.

    The validation labels are held out of the propagation too: where they take part in it, they also shape the targets
    of their neighbours, and a search prefers the settings that memorise them.

    The first trial has the defaults. Randomized labels are few and noisy, and the best of many trials is best by luck
    to some extent: of T equal settings whose scores have the standard error s, the best is about
    :math:`s \sqrt{2 \ln T}` ahead. A setting replaces the defaults only if it is further ahead than that.

    Every trial is kept in `journal` as its round finishes; the same call goes on where an earlier one stopped. A
    search with another budget, number of seeds or of epochs scores differently and has a study of its own there.
    """
    for name, count, least in (("trials", trials, 1), ("seeds", seeds, 2)):
        if count < least:
            raise RunError(f"{name} is {count}: use at least {least}")
    private = load_data(dataset, data_dir)
    first = Cell(
        dataset=dataset, method="rgnn", epsilon_x=epsilon_x, epsilon_y=epsilon_y, sampled=sampled, seed=FIRST_SEED
    )
    reports = [draw_reports(replace(first, seed=FIRST_SEED + seed), private) for seed in range(seeds)]
    space = _space(private.graph.num_nodes)
    budget = f"epsilon_x {epsilon_x:g}, epsilon_y {epsilon_y:g}, sampled {sampled}"
    study = _study(f"{dataset}, {budget}, {seeds} seeds, {epochs} epochs", journal)
    while (done := len(study.trials)) < trials:
        progress(f"best {study.best_value:.4f}" if done else "first round", done, trials)
        until = min(trials, _ROUND * (done // _ROUND + 1))
        settings = [_proposal(number, study.trials, space) for number in range(done, until)]
        runs = {
            FitTask(
                method=RGNN(**setting, epochs=epochs, seed=FIRST_SEED + seed, device=device, hold_out_validation=True),
                perturbed=perturbed,
                split=split,
            ): number
            for number, setting in enumerate(settings)
            for seed, (perturbed, split) in enumerate(reports)
        }
        for _ in RGNN.fit_together(list(runs)):
            pass
        for number, setting in enumerate(settings):
            scores = [max(run.method.curve_.validation_score) for run, of in runs.items() if of == number]
            study.add_trial(_finished_trial(setting, space, scores))
    progress("done", trials, trials)
    return _choose(study.trials[:trials])


def _space(nodes: int) -> dict[str, CategoricalDistribution]:
    """The search space; a graph cannot have more bags than nodes."""
    return {
        name: CategoricalDistribution([value for value in values if name != "num_clusters" or value <= nodes])
        for name, values in SEARCH_SPACE.items()
    }


def _proposal(
    number: int, finished: Sequence[FrozenTrial], space: Mapping[str, CategoricalDistribution]
) -> dict[str, Any]:
    """The setting of a trial. It depends on the rounds before alone: a search that was stopped goes on the same."""
    if number == 0:
        return _defaults(space)
    memory = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=number))
    memory.add_trials(finished[: number // _ROUND * _ROUND])
    return dict(memory.ask(dict(space)).params)


def _defaults(space: Mapping[str, CategoricalDistribution]) -> dict[str, Any]:
    defaults = {name: getattr(RGNN(), name) for name in space}
    most_clusters = int(str(space["num_clusters"].choices[-1]))
    return defaults | {"num_clusters": min(defaults["num_clusters"], most_clusters)}


def _finished_trial(
    setting: Mapping[str, Any], space: Mapping[str, CategoricalDistribution], scores: list[float]
) -> FrozenTrial:
    return optuna.trial.create_trial(
        params=dict(setting),
        distributions=dict(space),
        value=statistics.mean(scores),
        user_attrs={_SCORES: scores},
    )


def _choose(trials: Sequence[FrozenTrial]) -> Found:
    default, best = trials[0], max(trials, key=lambda trial: -math.inf if trial.value is None else trial.value)
    pairs = zip(best.user_attrs[_SCORES], default.user_attrs[_SCORES], strict=True)
    differences = [ours - theirs for ours, theirs in pairs]
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    needed = error * math.sqrt(2 * math.log(len(trials)))
    advantage = statistics.mean(differences)
    return Found(
        parameters=best.params if advantage > needed else default.params,
        best=best.params,
        advantage=advantage,
        standard_error=error,
        needed=needed,
    )


def _study(name: str, journal: Path) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    journal.parent.mkdir(parents=True, exist_ok=True)
    storage = JournalStorage(JournalFileBackend(str(journal)))
    return optuna.create_study(study_name=name, storage=storage, direction="maximize", load_if_exists=True)
