"""The main theorem of the engine: fits that are trained together equal separate fits."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from veilgraph.datasets import csbm
from veilgraph.errors import FitError
from veilgraph.experiments import simulate
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models import LPGNN, RGNN, MajorityClass, PlainGNN, StructureOnly
from veilgraph.models.base import FitTask, Method
from veilgraph.models.engine.backbones import HIDDEN
from veilgraph.models.engine.gnn_method import GNNMethod
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import GRRFS
from veilgraph.privacy.mechanisms.registry import grr_fs, multi_bit

NODES = 120
PRIVATE = csbm(NODES, num_classes=3, num_features=8, mean_degree=6, seed=0)
EPOCHS = 5

# Alone or together, only the order of single-precision sums differs. Each pass rounds some dozens of numbers of the
# order of 1, by 6e-8 each, and five steps are too few for the differences to grow. (Kernels that add in the same order
# for every number of replicas give no difference.) Scores of the two best epochs differ by more than that, so that the
# same epoch is selected.
TOLERANCE = 1e-5


def reports_of(seed: int, epsilon_x: float, epsilon_y: float, *, bits: bool = False) -> tuple[PerturbedGraph, Split]:
    split = Split.random(NODES, seed=seed)
    randomizer = multi_bit if bits else grr_fs
    budget = PrivacyBudget(epsilon_x, epsilon_y, 4)
    return simulate(PRIVATE, budget, split, rng=np.random.default_rng(seed), features=randomizer), split


# Two draws at one budget and two at others. Reports of one draw are shared by several fits.
BUDGETS = [(0, 1.0, 2.0), (1, 1.0, 2.0), (0, 2.0, 1.0), (2, 0.5, 3.0)]
GRR_REPORTS = [reports_of(*budget) for budget in BUDGETS]
BIT_REPORTS = [reports_of(*budget, bits=True) for budget in BUDGETS]

M = TypeVar("M", bound=Method)

RGNN_SETTINGS: list[dict[str, Any]] = [
    {"feature_hops": 2, "label_hops": 2, "num_clusters": 4},
    {"feature_hops": 2, "label_hops": 3, "num_clusters": 8, "llp_weight": 10.0, "learning_rate": 0.05},
    {"feature_hops": 1, "label_hops": 0, "num_clusters": 4, "dropout": 0.0, "seed": 3},
    {
        "feature_hops": 1,
        "label_hops": 8,
        "num_clusters": 16,
        "dropout": 0.75,
        "llp_weight": 0.1,
        "weight_decay": 0.01,
        "seed": 4,
    },
    {"use_proportions": False, "feature_hops": 2, "label_hops": 2},
    {"reconstruct_x": False, "label_hops": 8, "feature_hops": 16, "num_clusters": 4},
    {
        "reconstruct_y": False,
        "num_clusters": 4,
        "estimate": False,
        "feature_hops": 2,
        "label_hops": 8,
        "decoding": "argmax",
    },
    {"hold_out_validation": True, "num_clusters": 4, "feature_hops": 2, "label_hops": 2},
]
PLAIN_SETTINGS: list[dict[str, Any]] = [
    {},
    {"dropout": 0.0, "seed": 1},
    {"dropout": 0.25, "learning_rate": 0.05, "seed": 2},
    {"weight_decay": 0.1, "seed": 1},
    {"epochs": 3, "seed": 5},
]
LPGNN_SETTINGS: list[dict[str, Any]] = [
    {"feature_hops": 2, "label_hops": 2},
    {"feature_hops": 1, "label_hops": 2, "dropout": 0.0, "seed": 1},
    {"feature_hops": 2, "label_hops": 1, "learning_rate": 0.05},
    {"feature_hops": 2, "label_hops": 2, "forward_correction": False, "seed": 2},
]
FAMILIES: dict[str, tuple[type[GNNMethod], list[dict[str, Any]], list[tuple[PerturbedGraph, Split]]]] = {
    "rgnn": (RGNN, RGNN_SETTINGS, GRR_REPORTS),
    "plain": (PlainGNN, PLAIN_SETTINGS, GRR_REPORTS),
    "lpgnn": (LPGNN, LPGNN_SETTINGS, BIT_REPORTS),
}


def tasks_of(family: str, backbone: str, draws: Sequence[int] = range(4)) -> list[FitTask[GNNMethod]]:
    make, settings, reports = FAMILIES[family]
    return [
        FitTask(
            method=make(**{"backbone": backbone, "epochs": EPOCHS, **each}),
            perturbed=reports[draw][0],
            split=reports[draw][1],
        )
        for draw in draws
        for each in settings
    ]


def fitted_together(tasks: Sequence[FitTask[M]], **options: int) -> list[Sequence[FitTask[M]]]:
    return [pending.result() for pending in type(tasks[0].method).start_together(tasks, **options)]


def assert_the_same(found: GNNMethod, expected: GNNMethod) -> None:
    assert np.allclose(found.predict_proba(), expected.predict_proba(), rtol=0, atol=TOLERANCE)
    assert np.allclose(found.curve_.train_loss, expected.curve_.train_loss, rtol=TOLERANCE, atol=TOLERANCE)
    scores, expected_scores = found.curve_.validation_score, expected.curve_.validation_score
    assert np.allclose(scores, expected_scores, rtol=0, atol=TOLERANCE)
    assert found.curve_.selected_epoch == expected.curve_.selected_epoch


@pytest.mark.parametrize(("family", "backbone"), [*((family, "sage") for family in FAMILIES), ("rgnn", "gcn")])
def test_fits_that_are_trained_together_equal_separate_fits(family: str, backbone: str) -> None:
    together, alone = tasks_of(family, backbone), tasks_of(family, backbone)
    batches = fitted_together(together)
    assert sorted(id(task) for batch in batches for task in batch) == sorted(map(id, together))
    assert len(batches) < len(together) / 2  # they were trained together
    for found, task in zip(together, alone, strict=True):
        assert_the_same(found.method, task.method.fit(task.perturbed, task.split))
    # Fits with other settings, seeds or reports differ, so that the comparison means something.
    predictions = [task.method.predict_proba() for task in together]
    for number, one in enumerate(predictions):
        assert all(np.abs(one - other).max() > 100 * TOLERANCE for other in predictions[:number])


@pytest.mark.parametrize("family", FAMILIES)
def test_attention_is_trained_one_by_one_with_exactly_the_same_result(family: str) -> None:
    together, alone = tasks_of(family, "gat", draws=[3]), tasks_of(family, "gat", draws=[3])
    assert [len(batch) for batch in fitted_together(together)] == [1] * len(together)
    for found, task in zip(together, alone, strict=True):
        expected = task.method.fit(task.perturbed, task.split)
        assert (found.method.predict_proba() == expected.predict_proba()).all()
        assert found.method.curve_ == expected.curve_


def test_all_backbones_at_once_come_back_in_batches_of_one_kind() -> None:
    tasks = [task for backbone in ("gat", "sage", "gcn") for task in tasks_of("plain", backbone, draws=[0])]
    for batch in fitted_together(tasks):
        assert len({task.method.backbone for task in batch}) == 1
        assert len({task.method.epochs for task in batch}) == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_neither_the_order_of_tasks_nor_the_memory_changes_results(family: str) -> None:
    expected = tasks_of(family, "sage")
    fitted_together(expected)
    reordered = tasks_of(family, "sage")
    order = np.random.default_rng(0).permutation(len(reordered))
    fitted_together([reordered[number] for number in order])
    confined = tasks_of(family, "sage")
    # Two or three replicas at a time.
    batches = fitted_together(confined, memory=4 * NODES * (2 * 8 + 3 * 6 * (HIDDEN + 3)))
    assert 1 < max(map(len, batches)) <= 3
    # All of them at once, without a limit by the cache of a CPU.
    unconfined = tasks_of(family, "sage")
    fitted_together(unconfined, cache_bytes=2**40)
    for task, *others in zip(expected, reordered, confined, unconfined, strict=True):
        for other in others:
            assert_the_same(other.method, task.method)


def test_memory_for_less_than_one_fit_is_refused_with_the_numbers() -> None:
    with pytest.raises(FitError, match=r"one fit needs about 0.1 MiB and 0.0 MiB are allowed: allow more memory"):
        fitted_together(tasks_of("plain", "sage", draws=[0]), memory=1000)


@pytest.mark.parametrize("backbone", ["sage", "gcn"])
@pytest.mark.parametrize("family", FAMILIES)
def test_little_memory_means_blocks_of_nodes_and_the_same_results(
    family: str, backbone: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="veilgraph")
    tasks, expected = tasks_of(family, backbone, [0]), tasks_of(family, backbone, [0])
    fitted_together(expected)
    assert caplog.messages == []
    columns, classes = len(PRIVATE.schema.domain_sizes), PRIVATE.schema.num_classes
    enough = 4 * NODES * (3 * columns + HIDDEN + 12 * classes)  # for one fit in blocks, and not for a whole one
    assert all(len(batch) == 1 for batch in fitted_together(tasks, memory=enough, block_nodes=50))
    assert len(caplog.messages) == len(tasks)
    assert "blocks of at most 50" in caplog.messages[0]
    for found, alone in zip(tasks, expected, strict=True):
        assert_the_same(found.method, alone.method)
    with pytest.raises(FitError, match="allow more memory"):
        fitted_together(tasks, memory=enough - 1, block_nodes=50)


def test_attention_is_not_computed_in_blocks_and_is_refused_without_memory() -> None:
    columns, classes = len(PRIVATE.schema.domain_sizes), PRIVATE.schema.num_classes
    memory = 4 * NODES * (3 * columns + HIDDEN + 12 * classes)
    with pytest.raises(FitError, match="allow more memory"):
        fitted_together(tasks_of("rgnn", "gat", [0])[:1], memory=memory, block_nodes=50)


def test_a_fit_that_diverges_is_refused() -> None:
    (task, *_) = tasks_of("rgnn", "sage", draws=[0])
    wild = replace_method(task, learning_rate=1e30)
    with pytest.raises(FitError, match="training diverged: no epoch has a score"):
        fitted_together([task, wild])


def replace_method(task: FitTask[M], **changed: Any) -> FitTask[M]:
    parameters = task.method.get_params() | changed
    return FitTask(method=type(task.method)(**parameters), perturbed=task.perturbed, split=task.split)


def test_equal_arrays_of_different_mechanisms_are_not_shared() -> None:
    # One array of codes, read through two channels: the estimates differ.
    perturbed, split = GRR_REPORTS[0]
    sizes = perturbed.schema.domain_sizes
    other = replace(perturbed, feature_mechanism=GRRFS(sizes, sampled=4, epsilon=3.0))
    together, alone = (
        [
            FitTask(
                method=RGNN(epochs=EPOCHS, feature_hops=2, num_clusters=4, label_hops=8), perturbed=each, split=split
            )
            for each in (perturbed, other)
        ]
        for _ in range(2)
    )
    fitted_together(together)
    for found, task in zip(together, alone, strict=True):
        assert_the_same(found.method, task.method.fit(task.perturbed, task.split))


def test_one_call_fits_tasks_on_several_graphs() -> None:
    private = csbm(60, num_classes=2, num_features=5, mean_degree=4, seed=7)
    split = Split.random(60, seed=7)
    smaller = simulate(private, PrivacyBudget(1.0, 1.0, 3), split, rng=np.random.default_rng(7))

    def tasks() -> list[FitTask[RGNN]]:
        pairs = [(smaller, split), GRR_REPORTS[0], (smaller, split), GRR_REPORTS[1]]
        return [
            FitTask(
                method=RGNN(epochs=EPOCHS, num_clusters=4, seed=seed, feature_hops=16, label_hops=8),
                perturbed=perturbed,
                split=own_split,
            )
            for seed, (perturbed, own_split) in enumerate(pairs)
        ]

    together, alone = tasks(), tasks()
    assert len(fitted_together(together)) == 2
    for found, task in zip(together, alone, strict=True):
        assert_the_same(found.method, task.method.fit(task.perturbed, task.split))


class Linear(nn.Module):
    """A custom backbone."""

    def __init__(self, num_inputs: int, num_classes: int) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Dropout(0.5), nn.Linear(num_inputs, num_classes))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        scores: Tensor = self.layer(x)
        return scores


def test_custom_backbones_do_not_share_randomness() -> None:
    torch.manual_seed(7)
    expected_noise = torch.rand(3)
    torch.manual_seed(7)
    perturbed, split = GRR_REPORTS[0]
    together, alone = (
        [
            FitTask(method=PlainGNN(backbone=Linear, epochs=EPOCHS, seed=seed), perturbed=perturbed, split=split)
            for seed in (0, 1, 0)
        ]
        for _ in range(2)
    )
    fitted_together(together)
    for found, task in zip(together, alone, strict=True):
        expected = task.method.fit(task.perturbed, task.split)
        assert (found.method.predict_proba() == expected.predict_proba()).all()
    assert (together[0].method.predict_proba() == together[2].method.predict_proba()).all()
    assert torch.equal(torch.rand(3), expected_noise)


@pytest.mark.parametrize(("make", "batches"), [(StructureOnly, 1), (MajorityClass, len(GRR_REPORTS))])
def test_methods_without_a_network_equal_separate_fits(make: type[Method], batches: int) -> None:
    tasks = [FitTask(method=make(), perturbed=perturbed, split=split) for perturbed, split in GRR_REPORTS]
    found = fitted_together(tasks)
    assert [task for batch in found for task in batch] == tasks
    assert len(found) == batches
    for task in tasks:
        alone = make().fit(task.perturbed, task.split)
        assert (task.method.predict_proba() == alone.predict_proba()).all()


@pytest.mark.parametrize("bad", [{"epochs": 0}, {"backbone": "transformer"}])
def test_one_bad_task_is_refused(bad: dict[str, Any]) -> None:
    tasks = tasks_of("plain", "sage", draws=[0])
    with pytest.raises(FitError, match=r"epochs is 0|backbone is 'transformer'"):
        fitted_together([*tasks, replace_method(tasks[0], **bad)])
