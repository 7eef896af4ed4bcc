"""Spectral views: logistic regression on leading eigenvectors of the graph. They need no homophily."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from veilgraph.distributed.communicator import Communicator
from veilgraph.models.veil.calibration import BeliefView, View
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.progress import tracked
from veilgraph.reconstruct.operators import GraphOperators
from veilgraph.reconstruct.threads import map_in_threads

DIMENSIONS = (16, 64)
"""Numbers of eigenvectors, one view for each."""

_RIDGE = 10.0
"""Precision of the weights' prior. Rows of the eigenvectors have a mean square of 1 in every column."""

_ITERATIONS = 25
_MAX_REPORTS = 2**21
_BLOCK = 2**16
"""Nodes whose log-probabilities are computed at once."""

_BLOCK_WIDTH = 16
"""Columns that are propagated at once."""

_TINY = 1e-12


class Rows(Protocol):
    """A matrix whose rows are selected, and perhaps computed, on demand; a tensor is one."""

    @property
    def shape(self) -> torch.Size:
        """Number of rows and columns."""

    def __getitem__(self, rows: Any, /) -> Tensor:
        """Return some rows, [rows, columns]."""


def spectral_views(labels: CrossFitting, operators: GraphOperators) -> dict[str, View]:
    """Return a view for each of `DIMENSIONS`, by name. A graph of fewer nodes has fewer eigenvectors."""
    vectors = operators.decompositions.eigenvectors(max(DIMENSIONS))
    few, many = DIMENSIONS
    views = {few: _view(vectors[:, :few], labels)}
    views[many] = _view(DegreeCorrected.of(vectors, operators), labels)
    return {f"spectral {count}": view for count, view in views.items()}


def _view(columns: Rows, labels: CrossFitting) -> View:
    return BeliefView.of_model(logistic_log_posterior(columns, labels) - labels.reports.prior.log())


@dataclass(frozen=True, kw_only=True, eq=False)
class DegreeCorrected:
    r"""Eigenvectors E and their means over neighbours N, as they are and with rows of equal norm.

    .. math:: \left[ E,\ \frac{e_v}{\|e_v\|},\ N,\ \frac{n_v}{\|n_v\|} \right], \qquad N = D^{-1} A E

    The norm of a row tells about the degree, and its direction about the class (Qin and Rohe 2013). A linear function
    of both parts can use either. All parts have a mean square of 1. Rows are computed when they are selected: all of
    them would take four times the memory of the eigenvectors.

    Attributes:
        vectors: E [nodes, columns].
        means: N [nodes, columns], scaled.
    """

    vectors: Tensor
    means: Tensor

    @classmethod
    def of(cls, vectors: Tensor, operators: GraphOperators) -> DegreeCorrected:
        """Return the columns of a graph's eigenvectors."""
        means = neighbour_means(vectors, operators)
        norm = operators.communicator.norm
        return cls(vectors=vectors, means=means.mul_(norm(vectors) / norm(means).clamp(min=_TINY)))

    @property
    def shape(self) -> torch.Size:
        """Number of nodes, and four times that of eigenvectors."""
        nodes, columns = self.vectors.shape
        return torch.Size([nodes, 4 * columns])

    def __getitem__(self, rows: Any) -> Tensor:
        """Return some rows, [rows, 4 columns]."""
        vectors, means = self.vectors[rows], self.means[rows]
        return torch.cat([vectors, _equal_rows(vectors), means, _equal_rows(means)], dim=1)


def neighbour_means(columns: Tensor, operators: GraphOperators) -> Tensor:
    """Return D^-1 A @ columns, zero for isolated nodes, without a matrix of its own; columns are contiguous."""
    sums, exchange = operators.neighbour_sums(), operators.communicator.exchange_halo
    degrees = sums.starts.diff() if sums.weights is None else torch.from_numpy(operators.graph.strengths).to(columns)
    degrees = degrees.where(degrees > 0, 1).unsqueeze(1)
    means = columns.new_empty(columns.shape[1], columns.shape[0]).T
    for block, out in zip(torch.split(columns, _BLOCK_WIDTH, 1), torch.split(means, _BLOCK_WIDTH, 1), strict=True):
        out.copy_(sums(exchange(block.contiguous())).div_(degrees))
    return means


def _equal_rows(rows: Tensor) -> Tensor:
    """Scale each row to a mean square of 1; a row of zeros stays."""
    norms: Tensor = rows.norm(dim=1, keepdim=True)
    return rows * (math.sqrt(rows.shape[1]) / norms.clamp(min=_TINY))


def logistic_log_posterior(
    columns: Rows, labels: CrossFitting, *, ridge: float = _RIDGE, iterations: int = _ITERATIONS
) -> Tensor:
    r"""Fit multinomial logistic regression to the reports of each training set; return [nodes, K + 1 or 1, classes].

    .. math:: \max_W \sum_{v \in L_k} \ln \left( b + (a - b) \sum_{x \in y'_v} p_{v,x} \right)
        - \tfrac{\lambda}{2} \|W\|^2, \qquad p_v = \operatorname{softmax}(e_v W + \ln \pi)

    This is forward correction: the likelihood of the report itself, for any label mechanism. Each step divides the
    gradient by the upper bound 1/2 E^T E + lambda on the Hessian (Boehning 1992), with Nesterov's acceleration. Of
    more than two million reports, every n-th is used: there are at most some thousand weights.

    Args:
        columns: E [nodes, columns], with a mean square of about 1.
        labels: Label reports in folds.
        ridge: Precision lambda of the weights' prior.
        iterations: Number of steps.
    """
    sets, blocks = labels.num_folds + 1, _blocks_of_reports(columns, labels.subsample(_MAX_REPORTS))
    communicator = labels.reports.communicator
    factors = _hessian_factors(blocks, sets, ridge, communicator)
    log_prior = labels.reports.prior.log().view(-1, 1, 1)
    weights = labels.reports.prior.new_zeros(labels.reports.num_classes, sets, columns.shape[1])
    ahead, momentum = weights, 1.0
    for _ in tracked(range(iterations), "Veil, logistic regression, steps"):
        gradient = -ridge * ahead if communicator.is_first else torch.zeros_like(ahead)
        slopes = map_in_threads(partial(_gradient, ahead, log_prior), blocks, "Veil, logistic regression, reports")
        for block, slope in zip(blocks, slopes, strict=True):
            gradient[:, block.sets] += slope
        gradient = communicator.all_reduce_sum(gradient)
        step = torch.cholesky_solve(gradient.permute(1, 2, 0), factors).permute(2, 0, 1)
        faster = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        moved = ahead + step
        weights, ahead, momentum = moved, moved + (momentum - 1) / faster * (moved - weights), faster
    return _log_posterior(columns, weights, log_prior, labels)


def _log_posterior(columns: Rows, weights: Tensor, log_prior: Tensor, labels: CrossFitting) -> Tensor:
    """Return log-probabilities of all nodes [nodes, K + 1 or 1, classes], in blocks of nodes."""
    nodes, own = columns.shape[0], labels.own_sets if labels.plan.own_only else None

    def block(start: int) -> Tensor:
        rows = slice(start, min(start + _BLOCK, nodes))
        found = (_logits(columns[rows], weights) + log_prior).log_softmax(dim=0).permute(2, 1, 0)
        if own is None:
            return found.contiguous()
        return found[torch.arange(len(found), device=own.device), own[rows]].unsqueeze(1)

    return torch.cat(map_in_threads(block, range(0, nodes, _BLOCK), "Veil, logistic regression, nodes"))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Reports:
    """Reports of one fold, or a block of them.

    Attributes:
        fold: Number of the fold.
        sets: Numbers of the training sets that hold them: all but the fold's own.
        columns: E of the reporting nodes, [reports, columns].
        named: 1 for each class that a report names, [classes, 1, reports].
        outside: Likelihood of a report for a class that it does not name: one number, or [reports].
        contrast: Likelihood for a class that it names, less that.
    """

    fold: int
    sets: Tensor
    columns: Tensor
    named: Tensor
    outside: float | Tensor
    contrast: float

    def gradient(self, weights: Tensor, log_prior: Tensor) -> Tensor:
        """Return the gradient of the log-likelihood by the weights of some training sets, [classes, sets, columns].

        It is the sum of s (r - p) over reports: s is the share of the likelihood of the named classes, r are the
        probabilities among them.
        """
        # Nodes are the last dimension: operations over few classes are fast then.
        probabilities = _logits(self.columns, weights).add_(log_prior).softmax(dim=0)
        among_named = probabilities * self.named
        total = among_named.sum(dim=0)
        likelihood = (self.outside + self.contrast * total).clamp_(min=_TINY)
        slope = among_named.sub_(probabilities.mul_(total)).mul_(self.contrast / likelihood)
        return (slope.flatten(0, 1) @ self.columns).view_as(weights)


def _gradient(weights: Tensor, log_prior: Tensor, reports: _Reports) -> Tensor:
    return reports.gradient(weights[:, reports.sets], log_prior)


def _blocks_of_reports(columns: Rows, labels: CrossFitting) -> list[_Reports]:
    """Return the reports of each fold, in blocks."""
    named, sets = labels.reports.named.T.float().unsqueeze(1), torch.arange(labels.num_folds + 1, device=labels.device)
    blocks = [
        (fold, nodes)
        for fold in range(labels.num_folds)
        for nodes in torch.split((labels.folds == fold).nonzero().squeeze(1), _BLOCK)
    ]
    return [
        _Reports(
            fold=fold,
            sets=sets[sets != fold],
            columns=columns[nodes],
            named=named[:, :, nodes],
            outside=labels.likelihood.outside[nodes]
            if isinstance(labels.likelihood.outside, Tensor)
            else labels.likelihood.outside,
            contrast=labels.likelihood.contrast,
        )
        for fold, nodes in blocks
    ]


def _logits(columns: Tensor, weights: Tensor) -> Tensor:
    """Return E W [classes, sets, nodes] for weights [classes, sets, columns]."""
    return (weights.flatten(0, 1) @ columns.T).view(*weights.shape[:2], -1)


def _hessian_factors(blocks: list[_Reports], sets: int, ridge: float, communicator: Communicator) -> Tensor:
    """Return the Cholesky factors of 1/2 E^T E + lambda for the rows of each training set, [sets, columns, columns]."""
    width = blocks[0].columns.shape[1]
    squares = blocks[0].columns.new_zeros(sets - 1, width, width)
    for block in blocks:
        squares[block.fold] += block.columns.T @ block.columns / 2
    squares = communicator.all_reduce_sum(squares)
    total = squares.sum(0) + ridge * torch.eye(width).to(squares)
    factors: Tensor = torch.linalg.cholesky(torch.cat([total - squares, total.unsqueeze(0)]))
    return factors
