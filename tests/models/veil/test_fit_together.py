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
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.models.veil.fit_memory import bytes_needed, plan_within
from veilgraph.models.veil.fit_plan import FitPlan
from veilgraph.models.veil.views import read_views
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.reconstruct.operators import GraphOperators

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


def tasks_of(make: type[Veil] = Veil) -> list[FitTask[Veil]]:
    """Return tasks on two graphs with two seeds; the last one has the label reports of the first and no features."""
    tasks = [FitTask(method=make(seed=i % 2), perturbed=p, split=s) for i, (p, s) in enumerate(REPORTS)]
    silent = replace(REPORTS[0][0], has_features=np.zeros(200, dtype=np.bool_))
    return [*tasks, FitTask(method=make(seed=0), perturbed=silent, split=REPORTS[0][1])]


@pytest.mark.parametrize("make", [Veil, LabelVeil])
def test_results_equal_those_of_separate_fits(make: type[Veil]) -> None:
    together = tasks_of(make)
    batches = list(Veil.fit_together(together))
    assert {id(task) for batch in batches for task in batch} == set(map(id, together))
    for task in together:
        alone = make(seed=task.method.seed).fit(task.perturbed, task.split)
        assert np.allclose(task.method.predict_proba(), alone.predict_proba(), rtol=0, atol=TOLERANCE)
        assert task.method.calibration_ == alone.calibration_
        assert (task.method.feature_pool_ is None) == (alone.feature_pool_ is None)


def test_one_task_is_a_batch() -> None:
    (task, *_) = tasks_of()
    assert list(Veil.fit_together([task])) == [(task,)]
    assert list(Veil.fit_together([])) == []


def test_tasks_with_the_same_label_reports_share_the_pool_of_their_views() -> None:
    tasks = tasks_of()
    list(Veil.fit_together(tasks))
    assert tasks[-1].method.pool_ is tasks[0].method.pool_
    assert len({id(task.method.pool_) for task in tasks}) == len(tasks) - 1


def test_concurrent_fits_stay_within_the_memory() -> None:
    need = bytes_needed(REPORTS[0][0])
    tasks = [task for task in tasks_of()[:-1] if task.perturbed.graph is PRIVATE.graph]
    assert [len(batch) for batch in Veil.fit_together(tasks, memory=2 * need)] == [2, 1]
    assert [len(batch) for batch in Veil.fit_together(tasks, memory=2 * need - 1)] == [1, 1, 1]
    least = bytes_needed(REPORTS[0][0], sets_at_once=1)
    assert [len(batch) for batch in Veil.fit_together(tasks, memory=least)] == [1, 1, 1]
    with pytest.raises(FitError, match=r"one fit needs about .* MiB and .* MiB are allowed: allow more memory"):
        list(Veil.fit_together(tasks, memory=least - 1))


def test_less_memory_means_one_view_and_fewer_training_sets_at_once() -> None:
    labels_only = replace(REPORTS[0][0], has_features=np.zeros(200, dtype=np.bool_))
    need = [bytes_needed(labels_only, sets_at_once=sets) for sets in range(1, 7)]
    assert need == sorted(need)
    assert plan_within(bytes_needed(labels_only, views_at_once=2), labels_only, threads=2) == FitPlan(own_only=True)
    for memory in need:
        most = sum(each <= memory for each in need)
        expected = FitPlan(own_only=True, sets_at_once=most, views_at_once=1)
        assert plan_within(memory, labels_only, threads=2) == expected
    assert not plan_within(2**30, REPORTS[0][0], threads=2).own_only


def test_views_do_not_depend_on_the_memory() -> None:
    perturbed, _ = REPORTS[0]
    labels, operators = CrossFitting.random(perturbed, seed=0), GraphOperators(PRIVATE.graph)
    divided = replace(labels, plan=FitPlan(own_only=True, sets_at_once=1, views_at_once=1))
    nodes = torch.arange(200)
    whole, parts = (read_views(each, operators, lambda _, view: view, seed=0) for each in (labels, divided))
    for name, view in parts.items():
        parameters = view.candidates()[-1]
        expected = whole[name].log_probabilities(labels.reports.prior, parameters)[nodes, labels.own_sets].exp()
        found = view.log_probabilities(labels.reports.prior, parameters)[:, 0].exp()
        # Each training set of the block model stops by itself, where its posterior changes by less than 0.01.
        apart = (found - expected).abs()
        assert float(apart.max()) < TOLERANCE or (name == "block model" and float(apart.mean()) < 0.01)


def test_an_invalid_task_is_refused_before_any_task_is_fitted() -> None:
    good, *_ = tasks_of()
    bad = replace(good, method=Veil(), perturbed=replace(good.perturbed, has_label=np.zeros(200, dtype=np.bool_)))
    with pytest.raises(FitError, match="no labelled nodes"):
        list(Veil.fit_together([good, bad]))
    with pytest.raises(FitError, match="not fitted"):
        good.method.predict_proba()
