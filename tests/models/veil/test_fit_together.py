"""Batches of Veil fits: results as in separate fits, shared views, and the memory limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.errors import FitError
from veilgraph.experiments import simulate
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models import LabelVeil, Veil
from veilgraph.models.base import FitTask
from veilgraph.models.veil.model import bytes_needed
from veilgraph.privacy.budget import PrivacyBudget

PRIVATE = csbm(200, num_classes=3, num_features=6, seed=1)
OTHER = csbm(150, num_classes=4, num_features=6, seed=2)

# Threads change the order of sums only; single precision rounds a sum of a few hundred numbers by about 1e-6.
TOLERANCE = 1e-5


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def collect(private: PrivateGraph, epsilon_y: float, seed: int) -> tuple[PerturbedGraph, Split]:
    split = Split.random(private.graph.num_nodes, seed=seed)
    return simulate(private, PrivacyBudget(1.0, epsilon_y, 4), split, rng=np.random.default_rng(seed)), split


REPORTS = [collect(PRIVATE, 3.0, 0), collect(PRIVATE, 1.0, 0), collect(OTHER, 2.0, 1), collect(PRIVATE, 2.0, 1)]


def runs_of(make: type[Veil] = Veil) -> list[FitTask[Veil]]:
    """Return runs on two graphs with two seeds; the last one has the label reports of the first and no features."""
    runs = [FitTask(method=make(seed=i % 2), perturbed=p, split=s) for i, (p, s) in enumerate(REPORTS)]
    silent = replace(REPORTS[0][0], has_features=np.zeros(200, dtype=np.bool_))
    return [*runs, FitTask(method=make(seed=0), perturbed=silent, split=REPORTS[0][1])]


@pytest.mark.parametrize("make", [Veil, LabelVeil])
def test_results_equal_those_of_separate_fits(make: type[Veil]) -> None:
    together = runs_of(make)
    batches = list(Veil.fit_together(together))
    assert {id(run) for batch in batches for run in batch} == set(map(id, together))
    for run in together:
        alone = make(seed=run.method.seed).fit(run.perturbed, run.split)
        assert np.allclose(run.method.predict_proba(), alone.predict_proba(), rtol=0, atol=TOLERANCE)
        assert run.method.calibration_ == alone.calibration_
        assert (run.method.feature_pool_ is None) == (alone.feature_pool_ is None)


def test_one_run_is_a_batch() -> None:
    (run, *_) = runs_of()
    assert list(Veil.fit_together([run])) == [(run,)]
    assert list(Veil.fit_together([])) == []


def test_runs_with_the_same_label_reports_share_the_pool_of_their_views() -> None:
    runs = runs_of()
    list(Veil.fit_together(runs))
    assert runs[-1].method.pool_ is runs[0].method.pool_
    assert len({id(run.method.pool_) for run in runs}) == len(runs) - 1


def test_concurrent_fits_stay_within_the_memory() -> None:
    need = bytes_needed(REPORTS[0][0])
    runs = [run for run in runs_of()[:-1] if run.perturbed.graph is PRIVATE.graph]
    assert [len(batch) for batch in Veil.fit_together(runs, memory=2 * need)] == [2, 1]
    assert [len(batch) for batch in Veil.fit_together(runs, memory=2 * need - 1)] == [1, 1, 1]
    with pytest.raises(FitError, match=r"one fit needs about .* MiB and .* MiB are allowed: allow more memory"):
        list(Veil.fit_together(runs, memory=need - 1))


def test_an_invalid_run_is_refused_before_any_run_is_fitted() -> None:
    good, *_ = runs_of()
    bad = replace(good, method=Veil(), perturbed=replace(good.perturbed, has_label=np.zeros(200, dtype=np.bool_)))
    with pytest.raises(FitError, match="no labelled nodes"):
        list(Veil.fit_together([good, bad]))
    with pytest.raises(FitError, match="not fitted"):
        good.method.predict_proba()
