"""Reports that predictions did not use estimate accuracies without a true label, at the nominal rate."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from tests.support.collected import without_features
from veilgraph.datasets import csbm
from veilgraph.experiments.simulation import randomize_labels, simulated_collection
from veilgraph.graph import Split
from veilgraph.models import LabelVeil, MajorityClass, StructureOnly
from veilgraph.models.unused_reports import UnusedReports
from veilgraph.privacy.estimate import LEVEL, QUANTILE, Estimate
from veilgraph.privacy.mechanisms import GRR, LabelMechanism, SubsetSelection

PEOPLE, CLASSES = 600, 6
MECHANISMS: list[LabelMechanism] = [GRR(CLASSES, 2.0), SubsetSelection(CLASSES, 1.0)]


def fewest(draws: int) -> int:
    """Return a number of intervals that hold the truth below which chance falls once in 10,000 tests."""
    return int(binom.ppf(1e-4, draws, LEVEL))


def judged_once(mechanism: LabelMechanism, rng: np.random.Generator) -> tuple[UnusedReports, np.ndarray]:
    """Draw people of a population in which 80 % of predictions are right, and their reports."""
    truth = rng.integers(0, CLASSES, PEOPLE)
    guess = np.where(rng.random(PEOPLE) < 0.76, truth, rng.integers(0, CLASSES, PEOPLE))
    probabilities = np.full((PEOPLE, CLASSES), 0.04)
    probabilities[np.arange(PEOPLE), guess] = 0.8
    named = mechanism.named(mechanism.randomize(truth, rng=rng))
    return UnusedReports(nodes=np.arange(PEOPLE), probabilities=probabilities, named=named, mechanism=mechanism), truth


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_intervals_hold_the_accuracy_of_a_population_at_the_nominal_rate(mechanism: LabelMechanism) -> None:
    rng, draws = np.random.default_rng(0), 200
    held = dict.fromkeys(("accuracy", "precision", "recall", "difference"), 0)
    values = []
    for _ in range(draws):
        judged, _ = judged_once(mechanism, rng)
        first = judged.by_class()[0]
        # 76 % + 24 % / 6 are right; the same by symmetry for each class.
        held["accuracy"] += judged.accuracy().holds(0.8)
        held["precision"] += first.precision.holds(0.8)
        held["recall"] += first.recall.holds(0.8)
        one_class = judged.with_predictions(np.eye(CLASSES)[np.zeros(PEOPLE, dtype=np.int64)])
        held["difference"] += judged.difference(one_class).holds(0.8 - 1 / CLASSES)
        values.append(judged.accuracy().value or 0.0)
    assert min(held.values()) >= fewest(draws), held
    # Unbiased where no estimate is cut at 1: four standard errors of the mean.
    assert abs(np.mean(values) - 0.8) < 4 * np.std(values) / draws**0.5 + 0.002


@pytest.mark.parametrize("mechanism", [*MECHANISMS, GRR(CLASSES, 5.0)], ids=repr)
def test_the_accuracy_with_the_own_report_is_that_of_the_bayes_rule(mechanism: LabelMechanism) -> None:
    """The truth is that of the predictions that these very reports lead to."""
    rng, draws, held = np.random.default_rng(1), 200, 0
    for _ in range(draws):
        judged, truth = judged_once(mechanism, rng)
        likelihood = np.where(judged.named, float(mechanism.likelihood.keep), float(mechanism.likelihood.other))
        right = (judged.probabilities * likelihood).argmax(axis=1) == truth
        held += judged.accuracy_with_own_report().holds(float(right.mean()))
    assert held >= fewest(draws)


def test_lies_are_taken_out_of_the_estimate() -> None:
    rng, mechanism, estimates = np.random.default_rng(2), GRR(CLASSES, 2.0), []
    for _ in range(200):
        judged, _ = judged_once(mechanism, rng)
        lying = rng.random(PEOPLE) < 0.3
        named = np.where(lying[:, None], np.eye(CLASSES, dtype=np.bool_)[0], judged.named)
        lies = replace(judged, named=named, lies=np.full(PEOPLE, 0.3), lies_name=(1.0, 0, 0, 0, 0, 0))
        estimates.append(lies.debiased(lies.predicted).mean())
    assert abs(np.mean(estimates) - 0.8) < 4 * np.std(estimates) / len(estimates) ** 0.5


def test_no_report_means_no_estimate_and_the_whole_range() -> None:
    judged, _ = judged_once(MECHANISMS[0], np.random.default_rng(0))
    nobody = judged.of(np.zeros(PEOPLE, dtype=np.bool_))
    assert nobody.accuracy() == Estimate(value=None, low=0, high=1, reports=0)
    assert judged.certain(0.9) == (0.0, nobody.accuracy())


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("right", [0.5, 0.97, 1.0])
def test_a_difference_is_that_of_the_accuracies_beside_it(mechanism: LabelMechanism, right: float) -> None:
    """A difference of +68.4 points stood beside 100.0 and 41.0 %. Intervals hold the truth at the edge, too."""
    rng, draws, held = np.random.default_rng(4), 200, 0
    for _ in range(draws):
        truth = rng.integers(0, CLASSES, 100)
        guess = np.where(rng.random(100) < right, truth, (truth + 1) % CLASSES)
        named = mechanism.named(mechanism.randomize(truth, rng=rng))
        judged = UnusedReports(
            nodes=np.arange(100), probabilities=np.eye(CLASSES)[guess], named=named, mechanism=mechanism
        )
        other = judged.with_predictions(np.eye(CLASSES)[np.zeros(100, dtype=np.int64)])
        model, control, difference = judged.accuracy(), other.accuracy(), judged.difference(other)
        assert model.value is not None
        assert control.value is not None
        assert model.low <= model.value <= model.high
        assert difference.low <= model.value - control.value <= difference.high + 5e-4
        if difference.value is None:
            assert model.at_edge or control.at_edge
        else:
            shown = round(1000 * model.value) - round(1000 * control.value)
            assert round(1000 * difference.value) == shown
        held += difference.holds(right - 1 / CLASSES)
    assert held >= fewest(draws)


def test_calibration_bins_split_the_people_and_are_as_many_as_the_noise_allows() -> None:
    rng, mechanism = np.random.default_rng(3), GRR(2, 1.0)
    probabilities = rng.dirichlet([1, 1], 2000)
    named = np.eye(2, dtype=np.bool_)[rng.integers(0, 2, 2000)]
    judged = UnusedReports(nodes=np.arange(2000), probabilities=probabilities, named=named, mechanism=mechanism)
    bins = judged.calibration()
    assert sum(each.found.reports for each in bins) == 2000
    assert len(bins) > 1
    assert all(a.stated <= b.lowest for a, b in itertools.pairwise(bins))
    assert all(each.found.high - each.found.low <= 0.21 for each in bins)
    assert len(judged.of(np.arange(2000) < 200).calibration()) == 1


def test_cross_fitted_methods_judge_themselves_at_the_nominal_rate() -> None:
    """Twelve collections of a block model: intervals of Veil and of the control hold the true accuracy of everyone."""
    draws, held = 12, {"veil": 0, "control": 0, "difference": 0}
    for seed in range(draws):
        private = without_features(csbm(400, num_features=1, num_classes=4, mean_degree=6, seed=seed))
        split, mechanism = Split.random(400, seed=seed), SubsetSelection(4, 1.0)
        labels = randomize_labels(private, mechanism, split, rng=np.random.default_rng(seed))
        perturbed = simulated_collection(private, split, mechanism, labels)
        veil, control = LabelVeil(seed=seed).fit(perturbed, split), StructureOnly(device="cpu").fit(perturbed, split)
        judged, other = veil.unused_reports(perturbed), control.unused_reports(perturbed)
        assert judged is not None
        assert other is not None
        right, other_right = (
            float((method.predict_without_own_report(perturbed).argmax(axis=1) == private.labels).mean())
            for method in (veil, control)
        )
        held["veil"] += judged.accuracy().holds(right)
        held["control"] += other.accuracy().holds(other_right)
        held["difference"] += judged.difference(other).holds(right - other_right)
    assert min(held.values()) >= fewest(draws), held


def test_a_method_that_is_not_cross_fitted_judges_nothing() -> None:
    private = csbm(60, num_features=1, seed=0)
    split, mechanism = Split.random(60, seed=0), GRR(private.schema.num_classes, 1.0)
    labels = randomize_labels(private, mechanism, split, rng=np.random.default_rng(0))
    perturbed = simulated_collection(private, split, mechanism, labels)
    assert MajorityClass().fit(perturbed, split).unused_reports(perturbed) is None


def test_the_ends_of_the_interval_of_a_recall_are_the_ratios_that_the_reports_just_allow() -> None:
    """Fieller: a ratio r is held where the mean of a - r b is within z standard errors of 0."""
    judged, _ = judged_once(MECHANISMS[0], np.random.default_rng(0))
    recalls = [found.recall for found in judged.by_class()]
    inside = [(code, each) for code, each in enumerate(recalls) if each.value is not None and each.value < 1]
    assert len(inside) >= 3, "a recall above 1 is moved to 1, with its interval"
    for code, recall in inside:
        debiased = judged.debiased(np.full(PEOPLE, code))
        for end in (recall.low, recall.high):
            terms = debiased * (judged.predicted == code) - end * debiased
            error = terms.std(ddof=1) / PEOPLE**0.5
            assert abs(terms.mean()) == pytest.approx(QUANTILE * error, rel=1e-6) or end in (0.0, 1.0)
