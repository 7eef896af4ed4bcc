"""Hyper-parameters by a search that sees randomized validation labels only."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from veilgraph.errors import MissingExtraError, RunError
from veilgraph.experiments.fit import draw_reports
from veilgraph.experiments.plan import Cell
from veilgraph.experiments.runner import load_data
from veilgraph.learn import RGNN

try:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend
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


def tune(
    dataset: str,
    *,
    epsilon_x: float,
    epsilon_y: float,
    sampled: int = 10,
    trials: int,
    seeds: int = 3,
    epochs: int = 100,
    journal: Path,
    data_dir: Path | None = None,
    device: str = "auto",
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> dict[str, Any]:
    """The parameters of RGNN that explain held-out randomized labels best, on average over `seeds` draws.

    The validation labels are held out of the propagation too: where they take part in it, they also shape the targets
    of their neighbours, and a search prefers the settings that memorise them.

    Every trial is kept in `journal` as it finishes; the same call goes on where an earlier one stopped. A
    search with another budget, number of seeds or of epochs scores differently and has a study of its own there.
    """
    for name, count in (("trials", trials), ("seeds", seeds)):
        if count < 1:
            raise RunError(f"{name} is {count}: use at least 1")
    private = load_data(dataset, data_dir)
    first = Cell(
        dataset=dataset, method="rgnn", epsilon_x=epsilon_x, epsilon_y=epsilon_y, sampled=sampled, seed=FIRST_SEED
    )
    reports = [draw_reports(replace(first, seed=FIRST_SEED + seed), private) for seed in range(seeds)]
    nodes = reports[0][0].graph.num_nodes
    space = {**SEARCH_SPACE, "num_clusters": tuple(c for c in SEARCH_SPACE["num_clusters"] if c <= nodes)}

    def score(trial: optuna.Trial) -> float:
        chosen = {name: trial.suggest_categorical(name, values) for name, values in space.items()}
        fits = [
            RGNN(**chosen, epochs=epochs, seed=FIRST_SEED + seed, device=device, hold_out_validation=True).fit(
                perturbed, split
            )
            for seed, (perturbed, split) in enumerate(reports)
        ]
        return statistics.mean(max(fit.curve.validation_score) for fit in fits)

    budget = f"epsilon_x {epsilon_x:g}, epsilon_y {epsilon_y:g}, sampled {sampled}"
    study = _study(f"{dataset}, {budget}, {seeds} seeds, {epochs} epochs", journal)
    while (done := len(study.get_trials(states=(optuna.trial.TrialState.COMPLETE,)))) < trials:
        progress(f"best {study.best_value:.4f}" if done else "first trial", done, trials)
        # A sampler that depends on the trials before alone: a search that was stopped finds what it would have found.
        study.sampler = optuna.samplers.TPESampler(seed=done)
        study.optimize(score, n_trials=1)
    progress("done", trials, trials)
    return dict(study.best_params)


def _study(name: str, journal: Path) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    journal.parent.mkdir(parents=True, exist_ok=True)
    storage = JournalStorage(JournalFileBackend(str(journal)))
    return optuna.create_study(study_name=name, storage=storage, direction="maximize", load_if_exists=True)
