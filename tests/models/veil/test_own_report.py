"""What judges a prediction has not entered it: the own report, the class prior, and lies among the reports."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from veilgraph.datasets import csbm
from veilgraph.experiments import simulate
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models import LabelVeil
from veilgraph.models.conformal import calibrate_sets
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import GRR, SubsetSelection
from veilgraph.privacy.mechanisms.registry import LabelRandomizer

LABELS: dict[str, LabelRandomizer] = {"one class": GRR, "two classes": lambda c, e: SubsetSelection(c, e, 2)}
CLASSES, TARGET = 4, 2


@cache
def fitted(label: str, liars: float) -> tuple[LabelVeil, PerturbedGraph, NDArray[np.int64]]:
    """Return a fit to reports of which some name the target class and are not randomized, and the true classes."""
    private = csbm(400, num_classes=CLASSES, num_features=1, homophily=0.8, seed=1)
    split, rng = Split.random(400, seed=1), np.random.default_rng(1)
    reports = simulate(private, PrivacyBudget(epsilon_y=2.0), split, rng=rng, label=LABELS[label])
    chosen = rng.permutation(np.flatnonzero(reports.has_label))[: round(liars * reports.has_label.sum())]
    labels, mechanism = reports.labels.copy(), reports.label_mechanism
    if isinstance(mechanism, SubsetSelection):
        labels[chosen] = mechanism.encode([sorted((TARGET, other)) for other in rng.choice([0, 1, 3], len(chosen))])
    else:
        labels[chosen] = TARGET
    perturbed = replace(reports, labels=labels)
    return LabelVeil().fit(perturbed, split), perturbed, private.labels


CASES = pytest.mark.parametrize(("label", "liars"), [(label, share) for label in LABELS for share in (0.0, 0.2, 0.4)])


def likelihood_of_reports(veil: LabelVeil, perturbed: PerturbedGraph) -> NDArray[np.float64]:
    """Return P(y' | class) of each report up to its factor, with the share of lies that the fit found."""
    named, stated = perturbed.named_classes()[perturbed.has_label], perturbed.label_mechanism.likelihood
    found = np.where(named, float(stated.keep), float(stated.other))
    if (lies := veil.contamination_) is None:
        return found
    shares = lies.shares_at(torch.from_numpy(perturbed.graph.degrees[perturbed.has_label])).double().numpy()
    return np.asarray(found + (shares / (1 - shares) * (named @ np.array(lies.targets)))[:, None])


def prior_without_fold(veil: LabelVeil, perturbed: PerturbedGraph) -> NDArray[np.float64]:
    """Return the class prior from the reports outside each report's fold, [reports, classes]."""
    labels = CrossFitting.random(perturbed, seed=veil.seed)
    rows = np.empty((len(labels.reports.nodes), CLASSES))
    for fold in range(labels.num_folds):
        outside = replace(labels, folds=torch.where(labels.folds == fold, -1, labels.folds))
        members = (labels.folds[labels.reports.nodes] == fold).numpy()
        rows[members] = replace(outside, contamination=veil.contamination_).reports.prior
    return rows


def normalised(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))


@CASES
def test_a_prediction_is_the_one_without_the_own_report_times_its_likelihood(label: str, liars: float) -> None:
    """What else differs is the class prior: a prediction that a report judges takes it from the other folds."""
    veil, perturbed, _ = fitted(label, liars)
    assert (veil.contamination_ is None) == (liars == 0)
    without, final, nodes = veil.predict_without_own_report(perturbed), veil.predict_proba(), perturbed.has_label
    everyone = replace(CrossFitting.random(perturbed, seed=0), contamination=veil.contamination_).reports.prior
    expected = final[nodes] / likelihood_of_reports(veil, perturbed) / everyone.numpy()
    np.testing.assert_allclose(
        without[nodes], normalised(expected * prior_without_fold(veil, perturbed)), rtol=1e-3, atol=1e-6
    )
    np.testing.assert_allclose(without[~nodes], final[~nodes], rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("label", LABELS)
def test_what_a_person_reports_does_not_change_their_prediction_without_it(label: str) -> None:
    """Their prediction with the report moves by twice the epsilon of 2.

    Without it, the weights of the fit held, it moves as far as one of 300 reports moves the class prior and the class
    affinity, which all reports estimate together.
    """
    veil, perturbed, _ = fitted(label, 0.0)
    for person in np.flatnonzero(perturbed.has_label)[:6]:
        labels, again = perturbed.labels.copy(), copy.copy(veil)
        labels[person] = next(code for code in labels[perturbed.has_label] if code != labels[person])
        other = replace(perturbed, labels=labels)
        again.probabilities_ = veil.predict_proba(other)
        rows = np.stack([veil.predict_without_own_report(perturbed), again.predict_without_own_report(other)])[
            :, person
        ]
        assert np.ptp(np.diff(np.log(rows), axis=0)) < 0.4
        own = np.stack([veil.predict_proba(), again.predict_proba()])[:, person]
        assert np.ptp(np.diff(np.log(own), axis=0)) > 3.6


@CASES
def test_sets_are_calibrated_on_predictions_without_the_own_report(label: str, liars: float) -> None:
    veil, perturbed, _ = fitted(label, liars)
    nodes, lies = perturbed.has_label, veil.contamination_
    named = perturbed.named_classes()[nodes].astype(np.float64)
    if lies is not None:
        shares = lies.shares_at(torch.from_numpy(perturbed.graph.degrees[nodes])).double().numpy()[:, None]
        named = (named - shares * np.array(lies.named_shares)) / (1 - shares)
    expected = calibrate_sets(
        veil.predict_without_own_report(perturbed)[nodes],
        named,
        perturbed.label_mechanism,
        reporting=nodes,
        unrandomized=None if lies is None else lies.mean_likelihood,
    )
    np.testing.assert_allclose(veil.conformal_.coverage, expected.coverage, rtol=0, atol=1e-6)
    assert veil.conformal_.variance == pytest.approx(expected.variance)


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("liars", [0.2, 0.4])
def test_accuracy_among_liars_is_estimated_within_its_interval_and_not_without_them(label: str, liars: float) -> None:
    veil, perturbed, truth = fitted(label, liars)
    judged = veil.unused_reports(perturbed)
    assert judged is not None
    right = float((judged.predicted == truth[judged.nodes]).mean())
    assert judged.accuracy().holds(right)
    assert not replace(judged, lies=None).accuracy().holds(right)
    for code in range(CLASSES):
        share = judged.debiased(np.full(len(judged.nodes), code))
        error = share.std() / len(share) ** 0.5
        assert share.mean() == pytest.approx((truth[judged.nodes] == code).mean(), abs=4 * error)
