"""The search for hyper-parameters: seeded, resumable, and blind to everything but reports."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

import veilgraph.experiments.tune as tune_module
from tests.support.miniatures import SMALL, miniature
from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.errors import BudgetError, RunError
from veilgraph.experiments.cells import DatasetLoader
from veilgraph.experiments.grid import make_cell
from veilgraph.experiments.tune import FIRST_SEED, SEARCH_SPACE, Search, SearchResult, Trial, choose, tune
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models import RGNN
from veilgraph.models.base import FitTask
from veilgraph.models.registry import METHODS

NODES = 260


def search(journal: Path, **changed: Any) -> SearchResult:
    """Three trials of two epochs on two draws, with changes."""
    arguments: dict[str, Any] = {"epsilon_x": 1.0, "epsilon_y": 2.0, "trials": 3, "seeds": 2, "epochs": 2}
    arguments |= {"data": SMALL} | changed
    options = {name: arguments.pop(name) for name in ("trials", "seeds", "epochs", "space") if name in arguments}
    others = {name: arguments.pop(name) for name in ("data", "progress") if name in arguments}
    common: dict[str, Any] = {"dataset": "cora", "method": "rgnn", "sampled": 10, "seed": FIRST_SEED, "parameters": {}}
    return tune(make_cell(**(common | arguments)), Search(**options, device="cpu"), journal=journal, **others)


def trials_of(journal: Path) -> list[tuple[dict[str, Any], float | None]]:
    """Parameters and score of every finished trial in a journal, study by study."""
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(journal)))
    return [
        (trial.params, trial.value)
        for name in optuna.get_all_study_names(storage)
        for trial in optuna.load_study(study_name=name, storage=storage).trials
        if trial.state == optuna.trial.TrialState.COMPLETE
    ]


def test_a_search_is_seeded_begins_with_the_defaults_and_takes_the_highest_score_of_its_space(tmp_path: Path) -> None:
    first, second = (search(tmp_path / name) for name in ("a", "b"))
    assert first == second
    trials = trials_of(tmp_path / "a")
    assert (len(trials), trials) == (3, trials_of(tmp_path / "b"))
    assert max(trials, key=lambda trial: trial[1] or -np.inf)[0] == first.best
    defaults = RGNN(feature_hops=16, label_hops=8)
    assert trials[0][0] == {name: getattr(defaults, name) for name in SEARCH_SPACE}
    assert set(first.best) == set(SEARCH_SPACE) <= METHODS["rgnn"].parameters
    assert all(value in SEARCH_SPACE[name] for name, value in first.best.items())


def finished(setting: int, scores: list[float]) -> Trial:
    return Trial(parameters={"feature_hops": setting}, scores=scores)


def test_the_defaults_stay_unless_another_setting_is_ahead_by_more_than_luck() -> None:
    # Differences 0.1, 0.3, 0.5, 0.7 have the mean 0.4 and the standard error 0.129; of two trials that is enough.
    default, better = finished(0, [0.0, 0.0, 0.0, 0.0]), finished(1, [0.1, 0.3, 0.5, 0.7])
    found = choose([default, better])
    assert found.advantage == pytest.approx(0.4)
    assert found.standard_error == pytest.approx(0.1291, abs=1e-4)
    assert found.needed == pytest.approx(0.1291 * np.sqrt(2 * np.log(2)), abs=1e-4)
    assert found.parameters == better.parameters
    # The same mean with a wide spread could be chance.
    lucky = finished(2, [-2.0, 3.6, -1.0, 1.0])
    found = choose([default, lucky])
    assert found.advantage == pytest.approx(0.4)
    assert (found.parameters, found.best) == (default.parameters, lucky.parameters)


def test_equal_settings_replace_the_defaults_about_as_rarely_as_luck_says() -> None:
    # 16 settings without any difference: the best is beyond its threshold in few of 200 searches. P(max of 15 standard
    # normals > sqrt(2 ln 16) = 2.35) = 0.13; differences share the defaults' noise and have 9 degrees of freedom.
    rng = np.random.default_rng(0)
    replaced = 0
    for _ in range(200):
        trials = [finished(min(i, 1), list(rng.normal(size=10))) for i in range(16)]
        replaced += choose(trials).parameters == {"feature_hops": 1}
    assert replaced <= 0.3 * 200


# The first ten trials of a search are drawn at random, later ones depend on the rounds before.
@pytest.mark.parametrize(("first", "trials"), [(2, 4), (16, 18)])
def test_a_search_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, trials: int
) -> None:
    whole = search(tmp_path / "whole", trials=trials)
    search(tmp_path / "stopped", trials=first)
    together, fits = RGNN.fit_together, 0

    def counted(runs: Sequence[FitTask[RGNN]], **options: Any) -> Iterator[Sequence[FitTask[RGNN]]]:
        nonlocal fits
        fits += len(runs)
        return together(runs, **options)

    monkeypatch.setattr(RGNN, "fit_together", counted)
    for _ in range(2):  # a finished search is not searched again
        assert search(tmp_path / "stopped", trials=trials) == whole
        assert fits == 2 * (trials - first)
    assert trials_of(tmp_path / "stopped") == trials_of(tmp_path / "whole")


def test_a_round_that_was_killed_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = search(tmp_path / "whole", trials=18)
    together, rounds = RGNN.fit_together, 0

    def killed(runs: Sequence[FitTask[RGNN]], **options: Any) -> Iterator[Sequence[FitTask[RGNN]]]:
        nonlocal rounds
        rounds += 1
        if rounds == 3:
            raise KeyboardInterrupt
        return together(runs, **options)

    monkeypatch.setattr(RGNN, "fit_together", killed)
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path / "killed", trials=18)
    assert trials_of(tmp_path / "killed") == trials_of(tmp_path / "whole")[:16]
    assert search(tmp_path / "killed", trials=18) == whole
    assert trials_of(tmp_path / "killed") == trials_of(tmp_path / "whole")


@pytest.mark.parametrize("changed", [{"epochs": 1}, {"seeds": 3}, {"sampled": 3}, {"epsilon_x": 0.1}, {"epsilon_y": 1}])
def test_a_search_that_scores_differently_does_not_take_over_anothers_trials(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    search(tmp_path / "shared", trials=2)
    alone, beside = (search(tmp_path / name, trials=2, **changed) for name in ("alone", "shared"))
    assert beside == alone
    assert len(trials_of(tmp_path / "shared")) == 4


def test_true_labels_that_nobody_reported_have_no_influence(tmp_path: Path) -> None:
    search(tmp_path / "true")
    test_nodes = Split.random(NODES, seed=FIRST_SEED).test & Split.random(NODES, seed=FIRST_SEED + 1).test

    def garbled(name: str, **options: Any) -> PrivateGraph:
        private = miniature(name)
        return replace(private, labels=np.where(test_nodes, (private.labels + 1) % 3, private.labels))

    search(tmp_path / "garbled", data=DatasetLoader(read=garbled))
    assert trials_of(tmp_path / "garbled") == trials_of(tmp_path / "true")


def test_the_search_is_given_reports_and_never_scores_against_the_truth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[type, type]] = []
    together = RGNN.fit_together

    def watched(runs: Sequence[FitTask[RGNN]], **options: Any) -> Iterator[Sequence[FitTask[RGNN]]]:
        for run in runs:
            given.append((type(run.perturbed), type(run.split)))
            assert run.method.hold_out_validation
            assert not run.perturbed.has_label[run.split.test].any()
        return together(runs, **options)

    monkeypatch.setattr(RGNN, "fit_together", watched)
    search(tmp_path / "journal", seeds=2)
    assert given == [(PerturbedGraph, Split)] * 6
    assert "evaluation" not in inspect.getsource(tune_module)


def test_no_draw_of_a_table_is_searched_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    random = Split.random

    def watched(*arguments: Any, seed: int, **options: Any) -> Split:
        seeds.append(seed)
        return random(*arguments, seed=seed, **options)

    monkeypatch.setattr(Split, "random", watched)
    # Data that no other test has drawn from.
    search(tmp_path / "journal", seeds=2, trials=1, data=DatasetLoader(read=lambda name, **options: miniature("new")))
    assert seeds == [FIRST_SEED, FIRST_SEED + 1]


def test_more_bags_than_nodes_are_not_tried(tmp_path: Path) -> None:
    tiny = csbm(10, num_classes=2, mean_degree=3, num_features=3, seed=0)
    search(tmp_path / "journal", trials=12, epochs=1, data=lambda cell: tiny)
    assert {parameters["num_clusters"] for parameters, _ in trials_of(tmp_path / "journal")} == {4, 8}


def test_another_method_is_searched_in_a_space_of_its_own(tmp_path: Path) -> None:
    best = search(tmp_path / "journal", method="graphsage", space={"dropout": (0.0, 0.5)}).best
    assert set(best) == {"dropout"}
    assert best["dropout"] in (0.0, 0.5)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"trials": 0}, RunError, "trials is 0: use at least 1"),
        ({"seeds": 1}, RunError, "seeds is 1: use at least 2"),
        ({"epsilon_y": 0.0}, BudgetError, "epsilon_y is 0.0"),
    ],
)
def test_a_search_that_cannot_be_run_is_refused_before_a_journal_is_begun(
    tmp_path: Path, changed: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        search(tmp_path / "journal", **changed)
    assert list(tmp_path.iterdir()) == []
