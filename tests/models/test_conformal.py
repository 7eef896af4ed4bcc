"""Sets of classes: the finite-sample theorem without randomization, and coverage from randomized labels."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from veilgraph.datasets import csbm
from veilgraph.errors import FitError
from veilgraph.experiments import simulate
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models import LabelVeil, StructureOnly
from veilgraph.models.conformal import ConformalSets, calibrate_sets
from veilgraph.models.veil.contamination import Contamination
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import GRR, LabelMechanism, SubsetSelection
from veilgraph.privacy.mechanisms.registry import best_label_mechanism

NOT_PRIVATE = GRR(4, math.inf)
MECHANISMS: dict[str, LabelMechanism] = {
    "one class": GRR(4, 1.0),
    "two classes": SubsetSelection(4, 1.0, 2),
    "many sets": SubsetSelection(12, 1.0),
}


def people(count: int, classes: int, seed: int, *, overconfident: float = 1.0) -> tuple[NDArray[Any], NDArray[Any]]:
    """Draw true classes from class probabilities; return probabilities that are too confident by a power, and classes.

    Classes come from the probabilities to the power 1 / `overconfident`, normalised.
    """
    rng = np.random.default_rng(seed)
    right = rng.dirichlet(np.full(classes, 0.4), size=count)
    truth = (right.cumsum(axis=1) < rng.random((count, 1))).sum(axis=1).clip(max=classes - 1)
    stated = right**overconfident
    return stated / stated.sum(axis=1, keepdims=True), truth


def named_by(truth: NDArray[Any], mechanism: LabelMechanism, seed: int) -> NDArray[np.bool_]:
    return mechanism.named(mechanism.randomize(truth, rng=np.random.default_rng(seed)))


def posterior(
    probabilities: NDArray[Any], named: NDArray[np.bool_], mechanism: LabelMechanism, unrandomized: Any = 0.0
) -> NDArray[Any]:
    likelihood = np.where(named, float(mechanism.likelihood.keep), float(mechanism.likelihood.other))
    joint = probabilities * (likelihood + np.reshape(unrandomized, (-1, 1)))
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))


def share_covered(sets: NDArray[np.bool_], truth: NDArray[Any]) -> float:
    return float(sets[np.arange(len(truth)), truth].mean())


def test_without_randomization_it_is_split_conformal_prediction() -> None:
    """A new person is covered with probability 0.9 to 0.9 + 1 / (n + 1), however wrong the probabilities are."""
    reports, repetitions, hits = 39, 1500, 0
    for seed in range(repetitions):
        probabilities, truth = people(reports + 1, 4, seed, overconfident=3.0)
        calibrated = calibrate_sets(probabilities[:-1], np.eye(4, dtype=np.bool_)[truth[:-1]], NOT_PRIVATE)
        chosen = calibrated.sets(probabilities[-1:], np.zeros(1, dtype=np.bool_), 0.9, allow_empty=True)
        hits += chosen[0, truth[-1]]
    error = math.sqrt(0.9 * 0.1 / repetitions)
    # Thresholds are 1/64 apart in log-odds: about 0.002 of the scores lie between two of them.
    assert 0.9 - 3 * error < hits / repetitions < 0.9 + 1 / (reports + 1) + 0.002 + 3 * error


@pytest.mark.parametrize("name", MECHANISMS)
def test_coverage_is_estimated_without_bias_although_probabilities_are_wrong(name: str) -> None:
    mechanism, repetitions = MECHANISMS[name], 30
    errors: list[list[float]] = []
    for seed in range(repetitions):
        probabilities, truth = people(4000, mechanism.domain_size, seed, overconfident=2.0)
        named = named_by(truth, mechanism, seed + 1000)
        half = slice(None, 2000)
        calibrated = calibrate_sets(probabilities[half], named[half], mechanism, model_error=1e3)
        new, answers = probabilities[2000:], truth[2000:]
        own = posterior(new, named[2000:], mechanism)
        groups = ((new, np.zeros(2000, dtype=np.bool_)), (own, np.ones(2000, dtype=np.bool_)))
        errors.append([share_covered(calibrated.sets(*each, 0.9, allow_empty=True), answers) - 0.9 for each in groups])
        spread = math.hypot(calibrated.standard_error(0.9), math.sqrt(0.9 * 0.1 / 2000))
    # Estimates do not rise everywhere: choosing a threshold has a bias of the order of their variance, below 0.01.
    assert np.abs(np.mean(errors, axis=0)).max() < 3 * spread / math.sqrt(repetitions) + 0.01
    # The stated error is that of one class in the set; larger sets have one that is up to half as large again.
    assert np.std(errors, axis=0).max() < 1.5 * spread


@pytest.mark.parametrize(("label", "epsilon"), [(GRR, 2.0), (best_label_mechanism, 1.0)])
def test_sets_of_veil_hold_the_true_class(label: Any, epsilon: float) -> None:
    found, errors = [], []
    for seed in range(4):
        private = csbm(800, num_classes=6, homophily=0.5, mean_degree=6, num_features=1, seed=seed)
        split = Split.random(800, seed=seed)
        budget = PrivacyBudget(epsilon_y=epsilon)
        reports = simulate(private, budget, split, rng=np.random.default_rng(seed), label=label)
        veil = LabelVeil(seed=seed).fit(reports, split)
        assert veil.conformal_ is not None
        sets = veil.predict_sets(0.9)
        found.append([share_covered(sets[nodes], private.labels[nodes]) for nodes in (split.test, split.labelled)])
        errors.append(math.hypot(veil.conformal_.standard_error(0.9), math.sqrt(0.9 * 0.1 / split.test.sum())))
    assert np.abs(np.mean(found, axis=0) - 0.9).max() < 3 * np.mean(errors) / math.sqrt(len(found))


@pytest.mark.parametrize("mechanism", [GRR(4, 1.0), SubsetSelection(4, 1.0, 2)])
def test_the_names_of_classes_do_not_matter(mechanism: LabelMechanism) -> None:
    probabilities, truth = people(500, 4, 0)
    named, order, reporting = named_by(truth, mechanism, 1), [2, 0, 3, 1], np.arange(500) % 2 == 0
    sets = calibrate_sets(probabilities, named, mechanism).sets(probabilities, reporting, 0.8)
    renamed = calibrate_sets(probabilities[:, order], named[:, order], mechanism)
    assert (renamed.sets(probabilities[:, order], reporting, 0.8) == sets[:, order]).all()


def test_sets_grow_with_the_coverage_and_one_class_is_never_a_filling() -> None:
    """Where no class reached the threshold, the set had the most likely one, and looked like a sure answer."""
    probabilities, truth = people(400, 4, 0)
    calibrated = calibrate_sets(probabilities, named_by(truth, GRR(4, 1.0), 1), GRR(4, 1.0))
    reporting = np.arange(400) % 2 == 0
    smaller = np.zeros((400, 4), dtype=np.bool_)
    filled = 0
    for coverage in (0.01, 0.3, 0.6, 0.9, 0.99, 0.9999):
        bare = calibrated.sets(probabilities, reporting, coverage, allow_empty=True)
        assert (bare >= smaller).all()
        smaller, empty = bare, ~bare.any(axis=1)
        sets = calibrated.sets(probabilities, reporting, coverage)
        assert (sets[~empty] == bare[~empty]).all()
        assert sets[empty].all()
        filled += int(empty.sum())
    # 400 reports cannot show 99.99 %: (n + 1) / n times as much is more than everyone.
    assert sets.all()
    assert filled


@pytest.mark.parametrize("label", [GRR(4, 1.0), GRR(4, 3.0)], ids=repr)
def test_a_set_with_one_class_is_right_as_often_as_sets_hold_the_class(label: LabelMechanism) -> None:
    """Where one class at most reaches the threshold, nobody is covered but by a set with one class.

    So these are right at least as often as all sets hold the class. Of a quarter of the people nothing is known, and
    their most likely class has a probability of 0.4: filled with that class, their sets were right for 40 %.
    """
    right: list[float] = []
    for seed in range(10):
        probabilities, truth = people(4000, 4, seed)
        unknown = np.arange(4000) % 4 == 0
        shares = np.array([0.4, 0.3, 0.2, 0.1])
        probabilities[unknown] = shares
        truth[unknown] = np.random.default_rng(seed).choice(4, unknown.sum(), p=shares)
        named = named_by(truth, label, seed + 1000)
        calibrated = calibrate_sets(probabilities[:2000], named[:2000], label)
        new, answers, nobody = probabilities[2000:], truth[2000:], np.zeros(2000, dtype=np.bool_)
        assert calibrated.threshold(0.3)[0] > 0.5
        sets = calibrated.sets(new, nobody, 0.3)
        one_class = sets.sum(axis=1) == 1
        assert not one_class[unknown[2000:]].any()
        right.append(share_covered(sets[one_class], answers[one_class]) - 0.3)
    assert min(right) >= 0


@pytest.mark.parametrize("coverage", [0.0, 1.0, -0.1, 1.5, math.nan])
def test_a_coverage_outside_0_and_1_is_refused(coverage: float) -> None:
    probabilities, truth = people(50, 4, 0)
    calibrated = calibrate_sets(probabilities, named_by(truth, GRR(4, 1.0), 1), GRR(4, 1.0))
    with pytest.raises(FitError, match="above 0 and below 1"):
        calibrated.threshold(coverage)


@pytest.mark.parametrize(("count", "asked"), [(2600, []), (3000, [2])])
def test_of_many_reports_of_many_classes_some_decide_about_sets_of_people_who_report(
    count: int, asked: list[int]
) -> None:
    mechanism, strides = GRR(40, 3.0), list[int]()
    probabilities, truth = people(count, 40, 0)

    def every(stride: int) -> NDArray[np.int64]:
        strides.append(stride)
        return np.arange(0, count, stride)

    named = named_by(truth, mechanism, 1)
    some, whole = (calibrate_sets(probabilities, named, mechanism, every=each) for each in (every, None))
    assert strides == asked  # 3,000 x 40 classes x 40 reports are more than 2**22
    assert np.array_equal(some.coverage[0], whole.coverage[0])
    assert some.coverage[1] == pytest.approx(whole.coverage[1], abs=4 * math.sqrt(0.25 / 1500))


def test_without_reports_there_is_no_coverage() -> None:
    with pytest.raises(FitError, match="at least one node must report"):
        calibrate_sets(np.zeros((0, 4)), np.zeros((0, 4), dtype=np.bool_), GRR(4, 1.0))


def collected() -> tuple[PerturbedGraph, Split]:
    private, split = csbm(200, num_classes=3, num_features=1, seed=0), Split.random(200, seed=0)
    return simulate(private, PrivacyBudget(epsilon_y=1.0), split, rng=np.random.default_rng(0)), split


def test_a_saved_method_gives_the_same_sets(tmp_path: Path) -> None:
    reports, split = collected()
    veil = LabelVeil().fit(reports, split)
    veil.save(tmp_path)
    loaded = LabelVeil.load(tmp_path, device="cpu")
    assert (loaded.predict_sets(0.8) == veil.predict_sets(0.8)).all()
    silent = replace(reports, has_label=np.arange(200) < 100)
    assert (loaded.predict_sets(0.8, silent) == veil.predict_sets(0.8, silent)).all()


def test_a_method_without_sets_says_which_methods_have_them() -> None:
    with pytest.raises(FitError, match="use Veil or LabelVeil"):
        StructureOnly().fit(*collected()).predict_sets()


def test_coverage_that_falls_is_refused() -> None:
    valid = calibrate_sets(np.full((1, 2), 0.5), np.eye(2, dtype=np.bool_)[:1], GRR(2, 1.0))
    with pytest.raises(FitError, match="rising"):
        ConformalSets(coverage=valid.coverage[:, ::-1], reporting=valid.reporting, variance=0.0)


def test_reports_that_were_not_randomized_do_not_move_the_coverage() -> None:
    mechanism, lies, repetitions = GRR(4, 1.0), Contamination(share=0.2, targets=(0.0, 0.0, 0.0, 1.0)), 20
    errors: list[list[float]] = []
    for seed in range(repetitions):
        probabilities, truth = people(4000, 4, seed, overconfident=2.0)
        named = named_by(truth, mechanism, seed + 1000)
        named[np.random.default_rng(seed).random(4000) < lies.share] = np.arange(4) == 3
        randomized = (named - lies.share * np.array(lies.named_shares)) / (1 - lies.share)
        calibrated = calibrate_sets(
            probabilities[:2000], randomized[:2000], mechanism, unrandomized=lies.mean_likelihood, model_error=1e3
        )
        new, answers = probabilities[2000:], truth[2000:]
        own = posterior(new, named[2000:], mechanism, lies.mean_likelihood(named[2000:]))
        groups = ((new, np.zeros(2000, dtype=np.bool_)), (own, np.ones(2000, dtype=np.bool_)))
        errors.append([share_covered(calibrated.sets(*each, 0.9, allow_empty=True), answers) - 0.9 for each in groups])
        spread = math.hypot(calibrated.standard_error(0.9), math.sqrt(0.9 * 0.1 / 2000)) / (1 - lies.share)
    assert np.abs(np.mean(errors, axis=0)).max() < 3 * spread / math.sqrt(repetitions) + 0.01
