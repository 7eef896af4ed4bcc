"""Calibration of GNNs: it changes no predicted class, and recovers a known temperature and doubt from reports alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from studies.calibration import calibration_bins, calibration_error

from veilgraph.datasets import csbm
from veilgraph.experiments import simulate
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.models import RGNN
from veilgraph.models.engine.confidence import Confidence
from veilgraph.models.engine.losses import NoisyLogLikelihood, noisy_log_likelihood
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.frequency import expected_observation
from veilgraph.privacy.mechanisms import GRR
from veilgraph.privacy.schema import FeatureSchema

CLASSES, NODES = 3, 40_000


def drawn(temperature: float, doubt: float, epsilon: float) -> tuple[torch.Tensor, PerturbedGraph]:
    """Return logits, and GRR reports of labels drawn from softmax(logits / temperature), or uniformly with doubt."""
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 3, (NODES, CLASSES))
    chances = np.exp(logits / temperature)
    chances = (1 - doubt) * chances / chances.sum(axis=1, keepdims=True) + doubt / CLASSES
    labels = (rng.random((NODES, 1)) > chances.cumsum(axis=1)).sum(axis=1).clip(max=CLASSES - 1)
    mechanism = GRR(CLASSES, epsilon)
    lies = rng.random(NODES) >= float(mechanism.channel.keep)
    reports = np.where(lies, (labels + rng.integers(1, CLASSES, NODES)) % CLASSES, labels)
    perturbed = PerturbedGraph(
        graph=Graph.from_edges(np.array([[0], [1]]), NODES),
        schema=FeatureSchema(columns=(), classes=tuple("abc")),
        features=np.zeros((NODES, 0), dtype=np.int64),
        has_features=np.zeros(NODES, dtype=bool),
        feature_mechanism=None,
        labels=reports,
        has_label=np.ones(NODES, dtype=bool),
        label_mechanism=mechanism,
    )
    return torch.from_numpy(logits.T[None].astype(np.float32)), perturbed


def standard_errors(
    logits: torch.Tensor, score: NoisyLogLikelihood, log_temperature: float, doubt: float
) -> NDArray[np.float64]:
    """Return the standard errors of ln T and the doubt: from the curvature of the log-likelihood at the truth."""
    uniform = score.named_share(torch.zeros_like(logits)).double()

    def height(shift: NDArray[np.float64]) -> float:
        share = score.named_share(logits.double() / np.exp(log_temperature + shift[0]))
        chance = expected_observation(share.lerp(uniform, doubt + float(shift[1])), score.likelihood)
        return NODES * float(score.mean(chance.log()))

    steps = np.eye(2) * 0.01
    curvature = [[height(a + b) - height(a - b) - height(b - a) + height(-a - b) for a in steps] for b in steps]
    return np.sqrt(np.diag(np.linalg.inv(-np.array(curvature) / (4 * 0.01**2))))


@pytest.mark.parametrize(("temperature", "doubt"), [(1.0, 0.0), (2.5, 0.0), (0.7, 0.3), (1.5, 0.2)])
def test_a_known_temperature_and_doubt_are_recovered(temperature: float, doubt: float) -> None:
    logits, perturbed = drawn(temperature, doubt, epsilon=2.0)
    score = noisy_log_likelihood([perturbed], [perturbed.has_label], torch.device("cpu"))
    fitted = Confidence.fit(logits, score)
    errors = 4 * standard_errors(logits, score, np.log(temperature), doubt)
    assert float(fitted.temperatures.log()) == pytest.approx(np.log(temperature), abs=errors[0])
    assert float(fitted.doubts) == pytest.approx(doubt, abs=errors[1])


def test_no_predicted_class_changes() -> None:
    logits, perturbed = drawn(0.5, 0.6, epsilon=1.0)
    score = noisy_log_likelihood([perturbed], [perturbed.has_label], torch.device("cpu"))
    probabilities = Confidence.fit(logits, score).probabilities(logits)
    assert torch.equal(probabilities.argmax(dim=2), logits.argmax(dim=1))
    assert torch.allclose(probabilities.sum(dim=2), torch.ones(1, NODES))


def test_replicas_are_calibrated_one_by_one() -> None:
    (first, one), (second, two) = drawn(2.0, 0.1, epsilon=2.0), drawn(0.6, 0.3, epsilon=1.0)
    device = torch.device("cpu")
    masks = [one.has_label, two.has_label]
    both = Confidence.fit(torch.cat([first, second]), noisy_log_likelihood([one, two], masks, device))
    for place, (logits, perturbed) in enumerate(((first, one), (second, two))):
        alone = Confidence.fit(logits, noisy_log_likelihood([perturbed], masks[:1], device))
        assert float(both.temperatures[place]) == pytest.approx(float(alone.temperatures), rel=1e-4)
        assert float(both.doubts[place]) == pytest.approx(float(alone.doubts), abs=1e-3)


def test_rgnn_is_less_overconfident_than_its_logits() -> None:
    private = csbm(1500, homophily=0.6, seed=0)
    split = Split.random(private.graph.num_nodes, seed=0)
    perturbed = simulate(private, PrivacyBudget(1.0, 2.0, 10), split, rng=np.random.default_rng(0))
    method = RGNN(device="cpu", epochs=60, feature_hops=16, label_hops=8).fit(perturbed, split)
    calibrated = method.predict_proba()
    sharp = (calibrated - method.doubt_ / calibrated.shape[1]).clip(1e-9) ** method.temperature_
    sharp /= sharp.sum(axis=1, keepdims=True)
    errors = [calibration_error(calibration_bins(each, private, split.test)) for each in (calibrated, sharp)]
    assert errors[0] < errors[1]
