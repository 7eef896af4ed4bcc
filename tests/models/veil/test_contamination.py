"""Label reports that were not randomized: the channel with contamination, and what a fit does with it."""

from __future__ import annotations

import itertools
import math
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.errors import FitError
from veilgraph.evaluation import accuracy
from veilgraph.experiments import simulate
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models import LabelVeil
from veilgraph.models.veil.contamination import Contamination
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import GRR, SubsetSelection
from veilgraph.privacy.mechanisms.registry import LabelRandomizer

TARGET = 2


def collect(
    nodes: int, seed: int, *, label: LabelRandomizer = GRR, epsilon_y: float = 1.0, classes: int = 4
) -> tuple[PrivateGraph, PerturbedGraph, Split]:
    private = csbm(nodes, num_classes=classes, num_features=2, homophily=0.8, seed=seed)
    split = Split.random(nodes, seed=seed)
    budget = PrivacyBudget(epsilon_y=epsilon_y)
    return private, simulate(private, budget, split, rng=np.random.default_rng(seed), label=label), split


def with_liars(perturbed: PerturbedGraph, share: float) -> PerturbedGraph:
    """Let a share of the reports name the target class without randomization."""
    rng, labels, mechanism = np.random.default_rng(5), perturbed.labels.copy(), perturbed.label_mechanism
    reporting = np.flatnonzero(perturbed.has_label)
    liars = rng.permutation(reporting)[: round(share * len(reporting))]
    if isinstance(mechanism, SubsetSelection):
        order = rng.random((len(liars), mechanism.domain_size))
        order[:, TARGET] = -1
        labels[liars] = mechanism.encode(np.argsort(order, axis=1)[:, : mechanism.set_size].tolist())
    else:
        labels[liars] = TARGET
    return replace(perturbed, labels=labels)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_contaminated_channel_is_a_distribution(size: int) -> None:
    mechanism = SubsetSelection(5, 1.0, size)
    contamination = Contamination(share=0.3, targets=(0.5, 0.0, 0.5, 0.0, 0.0), set_size=size)
    sets = list(itertools.combinations(range(5), size))
    named = torch.tensor(mechanism.named(mechanism.encode(sets)))
    relative = contamination.likelihood(named, torch.ones(len(sets), dtype=torch.int64)).double().numpy()
    lies = 0.7 * relative / math.comb(4, size - 1)
    assert named.double().numpy().T @ lies == pytest.approx(0.3 * np.array(contamination.named_shares), abs=1e-6)
    for record in mechanism.records():
        honest = np.array([float(mechanism.probability(report, record)) for report in sets])
        assert (0.7 * honest + lies).sum() == pytest.approx(1.0, abs=1e-6)


def test_honest_shares_undo_the_lies() -> None:
    contamination = Contamination(share=0.25, targets=(0.0, 1.0, 0.0), set_size=2)
    honest = torch.tensor([0.9, 0.3, 0.8])
    observed = 0.75 * honest + 0.25 * torch.tensor(contamination.named_shares)
    assert torch.allclose(contamination.honest_shares(observed), honest)


@pytest.mark.parametrize("label", [GRR, lambda classes, epsilon: SubsetSelection(classes, epsilon, 2)])
def test_without_a_share_the_channel_is_the_stated_one(label: LabelRandomizer) -> None:
    _, perturbed, _ = collect(200, 0, label=label)
    stated = CrossFitting.random(perturbed, seed=0)
    none = Contamination(share=0.0, targets=(0.0, 0.0, 1.0, 0.0), set_size=stated.reports.set_size)
    same = replace(stated, contamination=none)
    logits = torch.randn(len(stated.reports.nodes), 4, generator=torch.Generator().manual_seed(0)).log_softmax(1)
    assert torch.allclose(same.local_evidence, stated.local_evidence, atol=1e-6)
    assert torch.allclose(same.likelihood.log_likelihood(logits), stated.likelihood.log_likelihood(logits), atol=1e-6)
    assert torch.allclose(same.reports.prior, stated.reports.prior)
    assert torch.equal(same.weighted_reports_of(slice(None)), stated.reports_of(slice(None)))
    assert same.likelihood.log_scale == 0


def test_a_report_of_the_target_says_less_and_others_say_the_same() -> None:
    _, perturbed, _ = collect(200, 0)
    stated = CrossFitting.random(perturbed, seed=0)
    lies = replace(stated, contamination=Contamination(share=0.2, targets=(0.0, 0.0, 1.0, 0.0)))
    names_target = stated.reports.named[:, TARGET]
    assert (lies.local_evidence[names_target, -1].amax(1) < stated.local_evidence[names_target, -1].amax(1)).all()
    assert torch.allclose(lies.local_evidence[~names_target], stated.local_evidence[~names_target], atol=1e-6)
    assert isinstance(lies.likelihood.honesty, torch.Tensor)
    assert (lies.likelihood.honesty[~names_target] == 1).all()
    assert (lies.likelihood.honesty[names_target] < 1).all()


def test_the_share_depends_on_the_degree() -> None:
    contamination = Contamination(share=0.1, targets=(0.0, 1.0), degrees=(5,), group_shares=(0.0, 0.5))
    named = torch.tensor([[False, True], [False, True], [True, False]])
    assert contamination.likelihood(named, torch.tensor([4, 5, 9])).tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"share": 1.0},
        {"share": -0.1},
        {"targets": (0.5, 0.0, 0.0, 0.0)},
        {"targets": (-0.5, 1.5, 0.0, 0.0)},
        {"set_size": 4},
        {"group_shares": (0.1, 0.2)},
        {"degrees": (3,), "group_shares": (0.1, 1.2)},
    ],
)
def test_an_impossible_contamination_is_refused(wrong: dict[str, object]) -> None:
    possible = asdict(Contamination(share=0.2, targets=(0.0, 0.0, 1.0, 0.0)))
    with pytest.raises(FitError):
        Contamination(**(possible | wrong))


@pytest.mark.parametrize("label", [GRR, lambda classes, epsilon: SubsetSelection(classes, epsilon, 2)])
def test_liars_are_measured_and_hardly_matter(label: LabelRandomizer, tmp_path: Path) -> None:
    private, honest, split = collect(1000, 1, label=label)
    unharmed, attacked = LabelVeil().fit(honest, split), LabelVeil().fit(with_liars(honest, 0.25), split)
    assert unharmed.contamination_ is None
    found = attacked.contamination_
    assert found is not None
    assert np.argmax(found.targets) == TARGET
    # The share of reports that name the target has this standard error; other classes are as frequent.
    naming = honest.label_mechanism.set_size / 4
    error = math.sqrt((0.25 + 0.75 * naming) * 0.75 * (1 - naming) / honest.has_label.sum()) / (1 - naming)
    assert found.share * found.targets[TARGET] == pytest.approx(0.25, abs=4 * error)
    before, after = (accuracy(each.predict(), private, split.test) for each in (unharmed, attacked))
    # Paired accuracies of 250 test nodes that differ on at most a tenth of them.
    assert after > before - 3 * math.sqrt(0.1 / 250)
    attacked.save(tmp_path / "model")
    loaded = LabelVeil.load(tmp_path / "model")
    assert loaded.contamination_ == found
    assert np.array_equal(
        loaded.predict_proba(with_liars(honest, 0.25)), attacked.predict_proba(with_liars(honest, 0.25))
    )


def test_a_damaged_contamination_is_refused() -> None:
    _, honest, split = collect(400, 1, epsilon_y=3.0)
    fitted = LabelVeil().fit(with_liars(honest, 0.3), split)
    state, found = fitted.fitted_state(), fitted.contamination_
    assert found is not None
    for damage in ({"share": "many"}, {"targets": [1.0]}, {"extra": 1}):
        lists = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(found).items()}
        calibration = {name: list(each) for name, each in fitted.calibration_.items()}
        values = state.values | {"calibration": calibration, "contamination": lists | damage}
        with pytest.raises(FitError):
            LabelVeil().restore(replace(state, values=values))


@pytest.mark.parametrize("classes", [4, 10])
def test_honest_reports_raise_hardly_any_alarm(classes: int) -> None:
    """At a rate of 1 %, two alarms in 16 collections have a probability of 0.011.

    6 % of the people have a class that nothing around them tells. With ten classes, three collections are suspicious
    enough for a fit with contamination, which makes their reports likelier by 4.4 to 5.7, less than ln(10 / 0.01).
    """
    alarms = 0
    for seed in range(16):
        private, rng = (
            csbm(200, num_classes=classes, num_features=0, homophily=0.9, seed=seed),
            np.random.default_rng(seed),
        )
        labels = private.labels.copy()
        labels[rng.permutation(200)[:12]] = TARGET
        split = Split.random(200, seed=seed)
        budget = PrivacyBudget(epsilon_y=2.0)
        honest = simulate(replace(private, labels=labels), budget, split, rng=rng, label=GRR)
        alarms += LabelVeil(seed=seed).fit(honest, split).contamination_ is not None
    assert alarms <= 1
