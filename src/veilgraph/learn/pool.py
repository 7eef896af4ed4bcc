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

from veilgraph.learn.diffusion import Diffusion
from veilgraph.learn.held_out import HeldOutLabels

SHARPNESS = tuple(np.geomspace(1 / 16, 4, 13).tolist())
CAUTION = (1 / 64, 1 / 16, 1 / 4, 1.0, 4.0, 16.0)
FACTORS = tuple(np.geomspace(0.02, 4, 24).tolist())
_USUAL_FACTOR = 0.3
_USUAL_SHARPNESS = 0.5
_DOUBT = 1e-3
_ENOUGH = 4000
_PRECISION, _BIAS_PRECISION = 100.0, 30.0
_ITERATIONS = 60


Setting = tuple[float, ...]
"""How far to trust a view, in one or two numbers."""


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

    def log_probabilities(self, prior: Tensor, setting: Setting) -> Tensor:
        """Class distributions [n, versions, c]."""
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

    def log_probabilities(self, prior: Tensor, setting: Setting) -> Tensor:
        """Flattened or sharpened by a factor."""
        (factor,) = setting
        return (factor * self.log_beliefs).log_softmax(dim=2)


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

    def log_probabilities(self, prior: Tensor, setting: Setting) -> Tensor:
        """See `Diffusion`."""
        sharpness, caution = setting
        return self.diffusion.log_probabilities(prior, sharpness, caution)


def calibrate(expert: Expert, labels: HeldOutLabels) -> Setting:
    """The setting under which unseen reports are likeliest, less what speaks against it beforehand."""
    # A few thousand reports settle one or two numbers.
    some = labels.thinned(_ENOUGH)
    held = expert.out_of_fold(some)

    def score(setting: Setting) -> float:
        opinion = held.log_probabilities(labels.prior, setting).squeeze(1)
        return float(some.log_likelihood(opinion).sum()) - held.doubt(setting)

    return max(held.settings(), key=score)


def opinions(experts: Mapping[str, Expert], settings: Mapping[str, Setting], labels: HeldOutLabels) -> Tensor:
    """Log-probabilities [experts, n, F + 1, c] with a floor: a pool must not be decided by one that is certain."""
    floor = torch.tensor(math.log(_DOUBT / labels.num_classes))
    return torch.stack(
        [
            torch.logaddexp(experts[name].log_probabilities(labels.prior, setting), floor)
            for name, setting in settings.items()
        ]
    )


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
        pooled: Tensor = torch.tensordot(self.weights, terms, dims=1) + self.bias
        return pooled.log_softmax(dim=-1)


def model_average(terms: Tensor, labels: HeldOutLabels, beforehand: Tensor) -> Tensor:
    """Weights beforehand, times the likelihood of unseen reports; terms are out of fold, [experts, |L|, c]."""
    return (labels.log_likelihood(terms).sum(1) + beforehand.log()).softmax(dim=0)


def fit_pool(terms: Tensor, labels: HeldOutLabels, centre: Tensor) -> Pool:
    r"""The weights and biases that make unseen reports likeliest, held near a centre.

    .. math:: \max_{w \ge 0, b} \sum_{v \in L} \ln [p_v P]_{y'_v} - 50 \|w - w_0\|^2 - 15 \|b\|^2
    """
    # Squares keep weights from being negative; a root of 0 would have no gradient to leave it by.
    roots = (centre + 1e-3).sqrt().requires_grad_()
    bias = torch.zeros(labels.num_classes, requires_grad=True)
    optimiser = torch.optim.LBFGS([roots, bias], max_iter=_ITERATIONS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        pooled = (torch.tensordot(roots.square(), terms, dims=1) + bias).log_softmax(dim=-1)
        penalty = _PRECISION * (roots.square() - centre).square().sum() + _BIAS_PRECISION * bias.square().sum()
        return penalty / 2 - labels.log_likelihood(pooled).sum()

    def closure() -> float:
        optimiser.zero_grad()
        value = loss()
        value.backward()  # type: ignore[no-untyped-call]
        return float(value.detach())

    optimiser.step(closure)  # type: ignore[no-untyped-call]
    return Pool(weights=roots.detach().square(), bias=bias.detach(), objective=-float(loss().detach()))
