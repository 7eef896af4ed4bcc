"""Logarithmic opinion pool: views combined by how likely they make out-of-fold reports."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from veilgraph.models.veil.calibration import log_softmax
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.models.veil.projected_newton import Derivatives, projected_newton

_WEIGHT_PRECISION, _BIAS_PRECISION = 100.0, 30.0


@dataclass(frozen=True, kw_only=True, eq=False)
class OpinionPool:
    r"""A logarithmic opinion pool (Genest and Zidek 1986): :math:`\ln p = \sum_e w_e \ln p_e + b` up to a constant.

    Attributes:
        weights: w, one weight >= 0 for each term.
        bias: b, one number for each class.
        objective: Penalised log-likelihood at the optimum.
    """

    weights: Tensor
    bias: Tensor
    objective: float

    def combine(self, terms: Tensor) -> Tensor:
        """Return log-probabilities [..., classes] from terms [terms, ..., classes]."""
        return log_softmax(torch.tensordot(self.weights, terms, dims=1) + self.bias)


def model_averaging_weights(terms: Tensor, labels: CrossFitting, prior_weights: Tensor) -> Tensor:
    """Return the weights of Bayesian model averaging: prior weights times the likelihood of out-of-fold reports.

    Args:
        terms: Out-of-fold log-probabilities, [terms, reports, classes].
        labels: The reports.
        prior_weights: Prior probability of each term.
    """
    return (labels.log_likelihood(terms).sum(1) + prior_weights.log()).softmax(dim=0)


def fit_pool(terms: Tensor, labels: CrossFitting, centre: Tensor) -> OpinionPool:
    r"""Fit weights and biases to out-of-fold reports, with a penalty on the distance to the centre.

    .. math:: \max_{w \ge 0, b} \sum_{v \in L} \ln [p_v P]_{y'_v} - 50 \|w - w_0\|^2 - 15 \|b\|^2

    Args:
        terms: Out-of-fold terms, [terms, reports, classes].
        labels: The reports.
        centre: w_0, [terms].
    """
    count, likelihood = len(terms), NegativeLogLikelihood(terms, labels)
    centre = torch.cat([centre, centre.new_zeros(labels.num_classes)]).double()
    precision = torch.full_like(centre, _WEIGHT_PRECISION)
    precision[count:] = _BIAS_PRECISION

    def objective(point: Tensor) -> Derivatives:
        value, gradient, hessians = likelihood.derivatives(point[:count].to(terms), point[count:].to(terms))
        offset = point - centre
        return Derivatives(
            value + float((precision * offset.square()).sum()) / 2,
            gradient + precision * offset,
            tuple(hessian + precision.diag() for hessian in hessians),
        )

    best, value = projected_newton(objective, centre, nonnegative=count)
    return OpinionPool(weights=best[:count].to(terms), bias=best[count:].to(terms), objective=-value)


class NegativeLogLikelihood:
    r"""Negative log-likelihood of the reports as a function of the pool's weights and biases.

    With s the share of P(y') that the reported class itself has, and u = e_{y'} - p, the derivatives by the logits are

    .. math:: -s u, \qquad s (\operatorname{diag} p - p p^T) - s (1 - s) u u^T

    Without its last part (the information that randomization hides) the Hessian is that of complete data, which is
    positive semidefinite.

    Args:
        terms: Out-of-fold terms, [terms, reports, classes].
        labels: The reports.
    """

    def __init__(self, terms: Tensor, labels: CrossFitting) -> None:
        self.terms = terms.mT.contiguous()  # a sum over few classes is fast with reports in the last dimension
        self.reported = torch.nn.functional.one_hot(labels.reported_labels, labels.num_classes).T.to(terms)
        self.at_reported = self._with_biases(self.reported)
        self.keep, self.other = labels.keep, labels.other

    def derivatives(self, weights: Tensor, bias: Tensor) -> Derivatives:
        """Return the value, the gradient, and the observed and the complete-data Hessian."""
        probabilities = (torch.tensordot(weights, self.terms, dims=1) + bias.unsqueeze(1)).softmax(dim=0)
        likelihood = self.other + (self.keep - self.other) * (probabilities * self.reported).sum(0)
        share = 1 - self.other / likelihood
        mean = self._with_biases(probabilities)
        difference = self.at_reported - mean
        complete = self._second_moments(share * probabilities) - (mean * share) @ mean.T
        observed = complete - (difference * (share * (1 - share))) @ difference.T
        value = -float(likelihood.double().log().sum())
        return Derivatives(value, -(difference @ share).double(), (observed.double(), complete.double()))

    def _with_biases(self, columns: Tensor) -> Tensor:
        """Sum terms and bias indicators over classes, weighted by columns [classes, reports]."""
        return torch.cat([(self.terms * columns).sum(1), columns])

    def _second_moments(self, columns: Tensor) -> Tensor:
        """Sum the products of any two terms or biases over reports and classes, weighted by columns."""
        weighted = self.terms * columns
        squares, across = weighted.flatten(1) @ self.terms.flatten(1).T, weighted.sum(2)
        return torch.cat([torch.cat([squares, across], 1), torch.cat([across.T, columns.sum(1).diag()], 1)])
