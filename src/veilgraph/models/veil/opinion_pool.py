"""Several opinions on each node, made commensurable and combined by how well they explain reports they did not see."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from veilgraph.models.engine.device import in_threads
from veilgraph.models.veil.cross_fitting import HeldOutLabels
from veilgraph.models.veil.log_softmax import log_softmax
from veilgraph.models.veil.pagerank import Diffusion
from veilgraph.models.veil.projected_newton import Slope, minimise

SHARPNESS = tuple(np.geomspace(1 / 16, 4, 13).tolist())
CAUTION = (1 / 64, 1 / 16, 1 / 4, 1.0, 4.0, 16.0)
FACTORS = tuple(np.geomspace(0.02, 4, 24).tolist())
_USUAL_FACTOR = 0.3
_USUAL_SHARPNESS = 0.5
_DOUBT = 1e-3
_ENOUGH = 4000
_PRECISION, _BIAS_PRECISION = 100.0, 30.0


Setting = tuple[float, ...]
"""How far to trust a view, in one or two numbers."""

Settings = tuple[float, ...] | tuple[Tensor, ...]
"""One, or many at once: each number a tensor that is spread over a dimension of its own."""


class Expert(Protocol):
    """An opinion on every node, up to parameters that say how far to trust it."""

    def settings(self) -> Sequence[Setting]:
        """The parameters to choose from."""
        ...

    def doubt(self, setting: Setting) -> float:
        """How unlikely the parameters were beforehand, -ln of a density."""
        ...

    def out_of_fold(self, labels: HeldOutLabels) -> Expert:
        """The same opinion on reporting nodes alone, from the versions without their reports."""
        ...

    def log_probabilities(self, prior: Tensor, setting: Settings) -> Tensor:
        """Class distributions [n, versions, c], under many settings with one more dimension before these."""
        ...


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Log-beliefs [n, F + 1, c], too sure of themselves where paths of evidence overlap.

    Attributes:
        usual: the factor that is expected to undo it, 1 where none does.
    """

    log_beliefs: Tensor
    usual: float = _USUAL_FACTOR

    def settings(self) -> Sequence[Setting]:
        """One factor for all."""
        return [(factor,) for factor in FACTORS]

    def doubt(self, setting: Setting) -> float:
        """How unusual the factor is."""
        (factor,) = setting
        return math.log(factor / self.usual) ** 2 / 2

    def out_of_fold(self, labels: HeldOutLabels) -> Beliefs:
        """Of reporting nodes."""
        return Beliefs(labels.out_of_fold(self.log_beliefs).unsqueeze(1), self.usual)

    def log_probabilities(self, prior: Tensor, setting: Settings) -> Tensor:
        """Flattened or sharpened by a factor."""
        (factor,) = setting
        return log_softmax(factor * self.log_beliefs)


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Label shares around each node."""

    diffusion: Diffusion

    def settings(self) -> Sequence[Setting]:
        """Sharpness in units of c, and caution in units of the reports that an estimate needs to mean something."""
        return list(itertools.product(SHARPNESS, CAUTION))

    def doubt(self, setting: Setting) -> float:
        """How unusual they are."""
        sharpness, caution = setting
        return (math.log(sharpness / _USUAL_SHARPNESS) ** 2 + math.log(caution) ** 2) / 2

    def out_of_fold(self, labels: HeldOutLabels) -> Surroundings:
        """Of reporting nodes."""
        excess, sizes = (
            labels.out_of_fold(part).unsqueeze(1) for part in (self.diffusion.excess, self.diffusion.sizes)
        )
        return Surroundings(Diffusion(excess=excess, sizes=sizes, needed=self.diffusion.needed))

    def log_probabilities(self, prior: Tensor, setting: Settings) -> Tensor:
        """See `Diffusion`."""
        sharpness, caution = setting
        return self.diffusion.log_probabilities(prior, sharpness, caution)


def calibrate(expert: Expert, labels: HeldOutLabels) -> Setting:
    """The setting under which unseen reports are likeliest, less what speaks against it beforehand."""
    # A few thousand reports settle one or two numbers.
    some = labels.thinned(_ENOUGH)
    held = expert.out_of_fold(some)
    settings = held.settings()
    numbers = torch.tensor(settings, device=labels.device).T.unsqueeze(2).unsqueeze(3).unsqueeze(4)
    opinion = held.log_probabilities(labels.prior, tuple(numbers)).squeeze(2)
    likelihoods = some.log_likelihood(opinion).sum(1, dtype=torch.float64).tolist()
    scores = [value - held.doubt(setting) for value, setting in zip(likelihoods, settings, strict=True)]
    return settings[scores.index(max(scores))]


def opinions(experts: Mapping[str, Expert], settings: Mapping[str, Setting], labels: HeldOutLabels) -> Tensor:
    """Log-probabilities [experts, n, F + 1, c] with a floor: a pool must not be decided by one that is certain."""
    floor = torch.tensor(math.log(_DOUBT / labels.num_classes), device=labels.device)

    def floored(name: str) -> Tensor:
        return torch.logaddexp(experts[name].log_probabilities(labels.prior, settings[name]), floor)

    return torch.stack(in_threads(floored, list(settings)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Pool:
    r"""A logarithmic pool: :math:`\ln p = \sum_e w_e \ln p_e + b` up to a constant, with no weight below 0.

    Attributes:
        weights: w.
        bias: b, one number for each class.
        objective: what the fit reached, log-likelihood less penalties.
    """

    weights: Tensor
    bias: Tensor
    objective: float

    def combine(self, terms: Tensor) -> Tensor:
        """Log-probabilities from terms [experts, ..., c]."""
        return log_softmax(torch.tensordot(self.weights, terms, dims=1) + self.bias)


def model_average(terms: Tensor, labels: HeldOutLabels, beforehand: Tensor) -> Tensor:
    """Weights beforehand, times the likelihood of unseen reports; terms are out of fold, [experts, |L|, c]."""
    return (labels.log_likelihood(terms).sum(1) + beforehand.log()).softmax(dim=0)


def fit_pool(terms: Tensor, labels: HeldOutLabels, centre: Tensor) -> Pool:
    r"""The weights and biases that make unseen reports likeliest, held near a centre.

    .. math:: \max_{w \ge 0, b} \sum_{v \in L} \ln [p_v P]_{y'_v} - 50 \|w - w_0\|^2 - 15 \|b\|^2
    """
    count, surprise = len(terms), _Surprise(terms, labels)
    centre = torch.cat([centre, centre.new_zeros(labels.num_classes)]).double()
    precision = torch.full_like(centre, _PRECISION)
    precision[count:] = _BIAS_PRECISION

    def objective(numbers: Tensor) -> Slope:
        value, gradient, curvatures = surprise(numbers[:count].to(terms), numbers[count:].to(terms))
        away = numbers - centre
        return Slope(
            value + float((precision * away.square()).sum()) / 2,
            gradient + precision * away,
            tuple(curvature + precision.diag() for curvature in curvatures),
        )

    best, value = minimise(objective, centre, positive=count)
    return Pool(weights=best[:count].to(terms), bias=best[count:].to(terms), objective=-value)


class _Surprise:
    r"""Minus the log-likelihood of reports, as a function of weights and biases.

    With s the share of P(y') that the reported class itself has, and u = e_{y'} - p, derivatives by the logits are

    .. math:: -s u, \qquad s (\operatorname{diag} p - p p^T) - s (1 - s) u u^T

    Without its last part, which is what the report leaves open of the class, the curvature is never negative.

    Args:
        terms: out of fold, [experts, |L|, c].
        labels: the reports.
    """

    def __init__(self, terms: Tensor, labels: HeldOutLabels) -> None:
        self.terms = terms.mT.contiguous()  # sums over few classes are fast across reports
        self.reported = torch.nn.functional.one_hot(labels.reports, labels.num_classes).T.to(terms)
        self.of_reported = self._with_biases(self.reported)
        self.keep, self.other = labels.keep, labels.other

    def __call__(self, weights: Tensor, bias: Tensor) -> Slope:
        shares = (torch.tensordot(weights, self.terms, dims=1) + bias.unsqueeze(1)).softmax(dim=0)
        likelihood = self.other + (self.keep - self.other) * (shares * self.reported).sum(0)
        share = 1 - self.other / likelihood
        mean = self._with_biases(shares)
        difference = self.of_reported - mean
        complete = self._squares(share * shares) - (mean * share) @ mean.T
        observed = complete - (difference * (share * (1 - share))) @ difference.T
        value = -float(likelihood.double().log().sum())
        return Slope(value, -(difference @ share).double(), (observed.double(), complete.double()))

    def _with_biases(self, columns: Tensor) -> Tensor:
        """Sums over classes, weighted by columns [c, |L|], of terms and of biases: a bias is 1 for its class."""
        return torch.cat([(self.terms * columns).sum(1), columns])

    def _squares(self, columns: Tensor) -> Tensor:
        """Sums over reports and classes of the products of any two terms or biases."""
        weighted = self.terms * columns
        squares, across = weighted.flatten(1) @ self.terms.flatten(1).T, weighted.sum(2)
        return torch.cat([torch.cat([squares, across], 1), torch.cat([across.T, columns.sum(1).diag()], 1)])
