"""Calibration: parameters of each view, averaged over what out-of-fold reports leave possible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from veilgraph.models.veil.cross_fitting import CrossFitting

FACTORS = tuple(np.geomspace(0.02, 4, 24).tolist())
_EXPECTED_FACTOR, _SPREAD = 0.3, 1.0
_MODEL_FACTOR, _MODEL_SPREAD = 1.0, 0.5
_FLOOR = 1e-3
_MAX_REPORTS = 4000
_MAX_ENTRIES = 2**17
"""Probabilities computed at once, so that they fit the cache."""

Parameters = tuple[float, ...]
"""Calibration parameters of a view: one or two numbers."""

ParameterTensors = tuple[Tensor, ...]
"""Several candidates at once: each parameter is a tensor [candidates, 1, 1, 1]."""


class View(Protocol):
    """Class log-probabilities of every node from one kind of evidence, up to calibration parameters."""

    def candidates(self) -> Sequence[Parameters]:
        """Return the parameters to choose from."""

    def negative_log_prior(self, parameters: Parameters) -> float:
        """Return -ln of the prior density of the parameters, up to a constant."""

    def out_of_fold(self, labels: CrossFitting) -> View:
        """Return the out-of-fold view of the reporting nodes, with one training set."""

    def log_probabilities(self, prior: Tensor, parameters: Parameters | ParameterTensors) -> Tensor:
        """Return class log-probabilities [nodes, K + 1, classes], given the class prior [..., classes].

        Parameter tensors add a dimension of candidates in front.
        """


@dataclass(frozen=True, eq=False)
class BeliefView:
    """Log-beliefs with temperature scaling (Guo et al. 2017).

    Beliefs are overconfident where evidence arrives by several paths. Calibration multiplies them by one factor, the
    inverse temperature.

    Attributes:
        log_beliefs: Logarithms of beliefs relative to the class prior, [nodes, K + 1, classes].
        expected_factor: Centre of the prior of the factor.
        spread: Standard deviation of the factor's logarithm in the prior.
    """

    log_beliefs: Tensor
    expected_factor: float = _EXPECTED_FACTOR
    spread: float = _SPREAD

    @classmethod
    def of_model(cls, log_beliefs: Tensor) -> BeliefView:
        """Return the view of a model's beliefs, whose factor is near 1: it is 1 if the model is right."""
        return cls(log_beliefs, expected_factor=_MODEL_FACTOR, spread=_MODEL_SPREAD)

    def candidates(self) -> Sequence[Parameters]:
        """Return every factor."""
        return [(factor,) for factor in FACTORS]

    def negative_log_prior(self, parameters: Parameters) -> float:
        """Return half the squared log-distance to the expected factor, in units of the spread."""
        (factor,) = parameters
        return (math.log(factor / self.expected_factor) / self.spread) ** 2 / 2

    def out_of_fold(self, labels: CrossFitting) -> BeliefView:
        """Return the out-of-fold log-beliefs of the reporting nodes, [reports, 1, classes]."""
        return replace(self, log_beliefs=by_class(labels.out_of_fold(self.log_beliefs).unsqueeze(1)))

    def log_probabilities(self, prior: Tensor, parameters: Parameters | ParameterTensors) -> Tensor:
        """Return the log-beliefs times the factor, with the prior, normalised."""
        (factor,) = parameters
        return log_softmax(prior.log() + factor * self.log_beliefs)


def calibrate(view: View, labels: CrossFitting) -> Parameters:
    r"""Return the posterior mean of the logarithms of the parameters, given out-of-fold reports.

    .. math:: \ln \hat\theta = \sum_\theta P(\theta | y') \ln \theta, \qquad
        P(\theta | y') \propto P(\theta) \prod_{v \in L} \sum_x p_{v,x}(\theta) P(y'_v | x)

    With many reports this is where their likelihood is greatest. With few it is a compromise with the prior. The
    greatest likelihood itself would be an accident there, and bold as often as cautious.
    """
    # A few thousand reports are enough for one or two parameters.
    scored = labels.subsample(_MAX_REPORTS)
    held_out, prior = view.out_of_fold(scored), labels.priors[labels.folds[scored.reports.nodes]].unsqueeze(1)
    candidates = held_out.candidates()

    def log_likelihoods(some: Tensor) -> Tensor:
        parameters = tuple(some.T.view(-1, len(some), 1, 1, 1))
        log_probabilities = held_out.log_probabilities(prior, parameters).squeeze(2)
        return scored.likelihood.log_likelihood(log_probabilities).sum(1, dtype=torch.float64)

    at_once = max(1, _MAX_ENTRIES // max(1, len(scored.reports.nodes) * labels.reports.num_classes))
    blocks = torch.split(torch.tensor(candidates, device=labels.device), at_once)
    likelihoods = labels.reports.communicator.all_reduce_sum(
        torch.cat([log_likelihoods(block) for block in blocks])
    ).cpu()
    penalties = [held_out.negative_log_prior(each) for each in candidates]
    posterior = (likelihoods - torch.tensor(penalties, dtype=torch.float64)).softmax(dim=0)
    return tuple((posterior @ torch.tensor(candidates, dtype=torch.float64).log()).exp().tolist())


def calibrated_log_probabilities(view: View, parameters: Parameters, labels: CrossFitting) -> Tensor:
    """Return class log-probabilities [nodes, K + 1 or 1, classes] with a floor.

    The floor keeps one view that is certain from deciding the pool alone.
    """
    floor = torch.tensor(math.log(_FLOOR / labels.reports.num_classes), device=labels.device)
    own = labels.plan.own_only  # then a view has the set of each node alone
    priors = labels.priors[labels.own_sets].unsqueeze(1) if own else labels.priors.unsqueeze(0)
    return torch.logaddexp(view.log_probabilities(priors, parameters), floor)


def by_class(values: Tensor) -> Tensor:
    """Return values [..., classes] with those of one class adjacent in memory: sums over few classes are fast then."""
    return values.movedim(-1, 0).contiguous().movedim(0, -1)


def log_softmax(logits: Tensor) -> Tensor:
    """Return the log-softmax over the last dimension, classes.

    With few classes, torch's kernel over a strided dimension is three times as fast as over adjacent numbers.

    >>> log_softmax(torch.tensor([[0.0, 0.0]])).exp()
    tensor([[0.5000, 0.5000]])
    """
    classes = _before_nodes(logits)
    return logits.movedim(-1, classes).log_softmax(dim=classes).movedim(classes, -1)


def softmax(logits: Tensor) -> Tensor:
    """Return the softmax over the last dimension, classes, by the same kernel.

    >>> softmax(torch.tensor([[0.0, 0.0]]))
    tensor([[0.5000, 0.5000]])
    """
    classes = _before_nodes(logits)
    return logits.movedim(-1, classes).softmax(dim=classes).movedim(classes, -1)


def _before_nodes(values: Tensor) -> int:
    """Return the dimension of nodes in values [..., nodes, K + 1, classes], or the first if there are fewer."""
    return max(values.dim() - 3, 0)
