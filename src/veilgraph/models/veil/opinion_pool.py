"""Logarithmic opinion pool: views combined by how likely they make out-of-fold reports."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from veilgraph.models.veil.calibration import log_softmax
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.reconstruct.threads import map_in_threads

_MAX_ITERATIONS, _MAX_HALVINGS = 60, 20
_TOLERANCE, _FINE_TOLERANCE = 1e-9, 1e-12
"""Relative decrease of an objective at which Newton steps end: in 32 bits, and in 64 bits."""


_ROUNDING = 2.0**-52
"""Relative decrease that no value in 64 bits can show: a step that promises less is not tried."""


class Derivatives(NamedTuple):
    """An objective at a point.

    Attributes:
        value: Value of the objective.
        gradient: Gradient, [variables].
        hessians: Hessian and approximations to it [variables, variables], in order of preference.
    """

    value: float
    gradient: Tensor
    hessians: tuple[Tensor, ...]


def projected_newton(
    objective: Callable[[Tensor], Derivatives], start: Tensor, nonnegative: int, *, tolerance: float = _TOLERANCE
) -> tuple[Tensor, float]:
    """Minimise an objective from `start`, with the first `nonnegative` variables at or above 0.

    Variables at zero with a positive gradient stay there. The others take a Newton step, which is projected onto the
    constraints and halved until the objective decreases (Bertsekas 1982).

    Args:
        objective: The objective and its derivatives at a point.
        start: Point to begin with, [variables].
        nonnegative: Number of variables that stay at or above 0.
        tolerance: Decrease of the objective, relative to its value, after which there is no other step.

    Returns:
        The minimiser and the value of the objective there.

    >>> def bowl(x):
    ...     offset = x - torch.tensor([-1.0, 2.0])
    ...     return Derivatives(float(offset.square().sum()), 2 * offset, (2 * torch.eye(2),))
    >>> projected_newton(bowl, torch.tensor([1.0, 1.0]), nonnegative=1)
    (tensor([0., 2.]), 1.0)
    """
    point, here = start, objective(start)
    for _ in range(_MAX_ITERATIONS):
        step = _newton_step(point, here, nonnegative)
        if -float(here.gradient @ step) <= _ROUNDING * abs(here.value):
            break
        for halvings in range(_MAX_HALVINGS):
            moved = point + step / 2**halvings
            moved[:nonnegative].clamp_(min=0)
            if (there := objective(moved)).value < here.value:
                break
        else:
            break
        decrease, point, here = here.value - there.value, moved, there
        if decrease <= tolerance * abs(here.value):
            break
    return point, here.value


def _newton_step(point: Tensor, derivatives: Derivatives, nonnegative: int) -> Tensor:
    """Return the step by the first Hessian that is positive definite, or the gradient step if none is."""
    fixed = (point <= 0) & (derivatives.gradient > 0)
    fixed[nonnegative:] = False
    gradient = derivatives.gradient.masked_fill(fixed, 0.0)
    fixed_pairs, identity = fixed | fixed.unsqueeze(1), torch.eye(len(point)).to(point)
    for hessian in derivatives.hessians:
        factor, failed = torch.linalg.cholesky_ex(torch.where(fixed_pairs, identity, hessian))
        if not failed:
            return -torch.cholesky_solve(gradient.unsqueeze(1), factor).squeeze(1)
    return -gradient


_WEIGHT_PRECISION, _BIAS_PRECISION = 100.0, 30.0
_BLOCK = 2**17
"""Reports whose derivatives are computed at once."""

_LEARNING_RATE = 0.5
"""Power of the likelihood in model averaging."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OpinionPool:
    r"""A logarithmic opinion pool (Genest and Zidek 1986): :math:`\ln p_v = \sum_e w_e \ln p_{e,v} + \phi_v b`.

    It holds up to a constant for each node. phi are the node's `degree_columns`: classes may differ in degree, which
    no view says by itself.

    Attributes:
        weights: w, one weight >= 0 for each term.
        bias: b, [3, classes].
        objective: Penalised log-likelihood at the optimum.
    """

    weights: Tensor
    bias: Tensor
    objective: float

    def combine(self, terms: Tensor, columns: Tensor) -> Tensor:
        """Return log-probabilities [nodes, ..., classes].

        Args:
            terms: Terms, [terms, nodes, ..., classes].
            columns: phi, [nodes, 3].
        """
        biases = (columns @ self.bias).view(len(columns), *[1] * (terms.dim() - 3), -1)
        return log_softmax(torch.tensordot(self.weights, terms, dims=1) + biases)


def model_averaging_weights(terms: Tensor, labels: CrossFitting, prior_weights: Tensor) -> Tensor:
    r"""Return the weights of Bayesian model averaging, from the square root of the likelihood of out-of-fold reports.

    .. math:: w_e \propto \pi_e \prod_{v \in L} P_e(y'_v)^{1/2}

    No view is the truth, and a view errs alike at neighbouring nodes: reports say less about it than as many
    independent ones. The likelihood itself would choose one view by luck (a generalised posterior with learning rate
    1/2; Bissiri, Holmes and Walker 2016).

    Args:
        terms: Out-of-fold log-probabilities, [terms, reports, classes].
        labels: The reports.
        prior_weights: pi, the prior probability of each term.
    """
    likelihoods = labels.reports.communicator.all_reduce_sum(
        labels.likelihood.log_likelihood(terms).sum(1, dtype=torch.float64)
    )
    return (_LEARNING_RATE * likelihoods + prior_weights.log()).softmax(dim=0).to(terms)


def fit_pool(terms: Tensor, labels: CrossFitting, centre: Tensor) -> OpinionPool:
    r"""Fit weights and biases to out-of-fold reports, with a penalty on the distance to the centre.

    A bias of a class has one number for each of `degree_columns`.

    .. math:: \max_{w \ge 0, b} \sum_{v \in L} \ln \sum_x p_{v,x} P(y'_v | x) - 50 \|w - w_0\|^2 - 15 \|b\|^2

    On a graph that several processes may share, derivatives are in 64 bits. The rounding of a likelihood in 32 bits is
    as large as the gain of the last Newton step. So the number of processes would decide whether that step is taken.

    Args:
        terms: Out-of-fold terms, [terms, reports, classes].
        labels: The reports.
        centre: w_0, [terms].
    """
    shared = labels.reports.communicator.counted_nodes is not None
    precision_of_sums = torch.float64 if shared else terms.dtype
    count = len(terms)
    likelihood = NegativeLogLikelihood(terms, labels, block=_BLOCK // 2 if shared else _BLOCK)
    shape = labels.reports.degree_columns.shape[1], labels.reports.num_classes
    centre = torch.cat([centre, centre.new_zeros(math.prod(shape))]).double()
    precision = torch.full_like(centre, _WEIGHT_PRECISION)
    precision[count:] = _BIAS_PRECISION

    def objective(point: Tensor) -> Derivatives:
        here = point.to(precision_of_sums)
        value, gradient, hessians = likelihood.derivatives(here[:count], here[count:].view(shape))
        offset = point - centre
        return Derivatives(
            value + float((precision * offset.square()).sum()) / 2,
            gradient + precision * offset,
            tuple(hessian + precision.diag() for hessian in hessians),
        )

    tolerance = _FINE_TOLERANCE if shared else _TOLERANCE
    best, value = projected_newton(objective, centre, nonnegative=count, tolerance=tolerance)
    return OpinionPool(weights=best[:count].to(terms), bias=best[count:].view(shape).to(terms), objective=-value)


def wider_pool(pool: OpinionPool, terms: Tensor, added: Tensor, labels: CrossFitting) -> OpinionPool | None:
    """Return the pool with more terms if the log-likelihood of out-of-fold reports gains more than 1 for each of them.

    The terms of the pool alone are fitted again, from the same centre: a gain that they also have is theirs.

    Args:
        pool: The pool.
        terms: Out-of-fold terms of the pool, [terms, reports, classes].
        added: Further out-of-fold terms, [added, reports, classes].
        labels: The reports.
    """
    columns, joined = labels.reports.degree_columns[labels.reports.nodes], torch.cat([terms, added])
    again, wider = (
        fit_pool(each, labels, torch.cat([pool.weights, pool.weights.new_zeros(len(each) - len(terms))]))
        for each in (terms, joined)
    )
    before, after = (
        labels.likelihood.log_likelihood(fitted.combine(each, columns)).sum(dtype=torch.float64)
        for fitted, each in ((again, terms), (wider, joined))
    )
    gain = labels.reports.communicator.all_reduce_sum(after - before)
    return wider if float(gain) > len(added) else None


class NegativeLogLikelihood:
    r"""Negative log-likelihood of the reports as a function of the pool's weights and biases.

    s is the share of P(y') that the named classes have. r are the probabilities among the named classes, one-hot if a
    report names one. With u = r - p, the derivatives by the logits are

    .. math:: -s u, \qquad s (\operatorname{diag} p - p p^T) - s (1 - s) u u^T - s (\operatorname{diag} r - r r^T)

    Without its last two parts (the information that randomization hides) the Hessian is that of complete data, which
    is positive semidefinite.

    Args:
        terms: Out-of-fold terms, [terms, reports, classes].
        labels: The reports.
        block: Number of reports that are computed at once.
    """

    def __init__(self, terms: Tensor, labels: CrossFitting, *, block: int = _BLOCK) -> None:
        self.communicator = labels.reports.communicator
        starts = range(0, max(1, terms.shape[1]), block)
        self.blocks = [_ReportLikelihood(terms, labels, slice(start, start + block)) for start in starts]

    def derivatives(self, weights: Tensor, bias: Tensor) -> Derivatives:
        """Return the value, the gradient, and the observed and the complete-data Hessian.

        They are computed in the precision of the weights.

        Args:
            weights: w, [terms].
            bias: b, [columns, classes].
        """

        def part_of(block: _ReportLikelihood) -> Derivatives:
            return block.to(weights.dtype).derivatives(weights, bias)

        parts = map_in_threads(part_of, self.blocks, "Veil, reports of the pool")
        hessians, total = zip(*(part.hessians for part in parts), strict=True), self.communicator.all_reduce_sum
        gradient = torch.stack([part.gradient for part in parts]).sum(0)
        return Derivatives(
            float(total(gradient.new_tensor(sum(part.value for part in parts)))),
            total(gradient),
            tuple(total(torch.stack(each).sum(0)) for each in hessians),
        )


class _ReportLikelihood:
    """The part of some reports in `NegativeLogLikelihood`."""

    def __init__(self, terms: Tensor, labels: CrossFitting, block: slice) -> None:
        nodes, outside = labels.reports.nodes[block], labels.likelihood.outside_of_reports
        self.columns = labels.reports.degree_columns[nodes].T.contiguous().to(terms)
        self.terms = terms[
            :, block
        ].mT.contiguous()  # a sum over few classes is fast with reports in the last dimension
        self.named = labels.reports.named[nodes].T.contiguous().to(terms)
        self.single = self._with_biases(self.named) if labels.reports.set_size == 1 else None
        self.contrast, self.outside = (
            labels.likelihood.contrast,
            outside[block] if isinstance(outside, Tensor) else outside,
        )

    def to(self, precision: torch.dtype) -> _ReportLikelihood:
        """Return the part in another precision; a copy in 64 bits lasts for one computation."""
        if precision == self.terms.dtype:
            return self
        converted = copy(self)
        converted.columns, converted.terms, converted.named = (
            each.to(precision) for each in (self.columns, self.terms, self.named)
        )
        return converted

    def derivatives(self, weights: Tensor, bias: Tensor) -> Derivatives:
        """Return the derivatives of the part."""
        probabilities = (torch.tensordot(weights, self.terms, dims=1) + bias.T @ self.columns).softmax(dim=0)
        among_named = probabilities * self.named
        total = among_named.sum(0)
        likelihood = self.outside + self.contrast * total
        share = 1 - self.outside / likelihood
        mean = self._with_biases(probabilities)
        complete = self._second_moments(share * probabilities) - (mean * share) @ mean.T
        if self.single is not None:
            difference, hidden = self.single - mean, torch.zeros_like(complete)
        else:
            among_named = among_named / total.clamp(min=torch.finfo(total.dtype).tiny)
            mean_named = self._with_biases(among_named)
            difference = mean_named - mean
            hidden = self._second_moments(share * among_named) - (mean_named * share) @ mean_named.T
        observed = complete - hidden - (difference * (share * (1 - share))) @ difference.T
        value = -float(likelihood.double().log().sum())
        return Derivatives(value, -(difference @ share).double(), (observed.double(), complete.double()))

    def _with_biases(self, classes: Tensor) -> Tensor:
        """Sum terms and bias columns over classes, weighted by [classes, reports]."""
        return torch.cat([(self.terms * classes).sum(1), self._bias_columns(classes).flatten(0, 1)])

    def _second_moments(self, classes: Tensor) -> Tensor:
        """Sum the products of any two terms or biases over reports and classes, weighted by [classes, reports]."""
        weighted = self.terms * classes
        squares = weighted.flatten(1) @ self.terms.flatten(1).T
        across = torch.einsum("tcr,jr->tjc", weighted, self.columns).flatten(1)
        products = torch.einsum("jcr,ir->jci", self._bias_columns(classes), self.columns)
        biases = torch.diag_embed(products.permute(0, 2, 1)).permute(0, 2, 1, 3).reshape(len(across.T), -1)
        return torch.cat([torch.cat([squares, across], 1), torch.cat([across.T, biases], 1)])

    def _bias_columns(self, classes: Tensor) -> Tensor:
        """Return the products of bias columns and classes, [columns, classes, reports]."""
        return self.columns.unsqueeze(1) * classes
