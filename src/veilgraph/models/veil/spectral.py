"""Spectral views: logistic regression on leading eigenvectors of the graph. They need no homophily."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from veilgraph.models.veil.calibration import BeliefView, View
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.reconstruct.operators import GraphOperators

DIMENSIONS = (16, 64)
"""Numbers of eigenvectors, one view for each."""

_RIDGE = 10.0
"""Precision of the weights' prior. Rows of the eigenvectors have a mean square of 1 in every column."""

_ITERATIONS = 25
_TINY = 1e-12


def spectral_views(labels: CrossFitting, operators: GraphOperators) -> dict[str, View]:
    """Return a view for each of `DIMENSIONS`, by name. A graph of fewer nodes has fewer eigenvectors."""
    vectors = operators.eigenvectors(max(DIMENSIONS))
    few, many = DIMENSIONS
    columns = {few: vectors[:, :few], many: degree_corrected(vectors, operators)}
    return {
        f"spectral {count}": BeliefView.of_model(logistic_log_posterior(own, labels)) for count, own in columns.items()
    }


def degree_corrected(vectors: Tensor, operators: GraphOperators) -> Tensor:
    r"""Return eigenvectors E and their means over neighbours N, as they are and with rows of equal norm.

    .. math:: \left[ E,\ \frac{e_v}{\|e_v\|},\ N,\ \frac{n_v}{\|n_v\|} \right], \qquad N = D^{-1} A E

    The norm of a row tells about the degree, and its direction about the class (Qin and Rohe 2013). A linear function
    of both parts can use either. All parts have a mean square of 1.

    Args:
        vectors: E [nodes, columns].
        operators: The graph.
    """
    means = operators.neighbours(vectors, 1)
    means = means * (vectors.norm() / means.norm().clamp(min=_TINY))
    return torch.cat([vectors, _equal_rows(vectors), means, _equal_rows(means)], dim=1)


def _equal_rows(rows: Tensor) -> Tensor:
    """Scale each row to a mean square of 1; a row of zeros stays."""
    norms: Tensor = rows.norm(dim=1, keepdim=True)
    return rows * (math.sqrt(rows.shape[1]) / norms.clamp(min=_TINY))


def logistic_log_posterior(
    columns: Tensor, labels: CrossFitting, *, ridge: float = _RIDGE, iterations: int = _ITERATIONS
) -> Tensor:
    r"""Fit multinomial logistic regression to the reports of each training set; return [nodes, K + 1, classes].

    .. math:: \max_W \sum_{v \in L_k} \ln \left( b + (a - b) \sum_{x \in y'_v} p_{v,x} \right)
        - \tfrac{\lambda}{2} \|W\|^2, \qquad p_v = \operatorname{softmax}(e_v W + \ln \pi)

    This is forward correction: the likelihood of the report itself, for any label mechanism. Each step divides the
    gradient by the upper bound 1/2 E^T E + lambda on the Hessian (Boehning 1992), with Nesterov's acceleration.

    Args:
        columns: E [nodes, columns], with a mean square of about 1.
        labels: Label reports in folds.
        ridge: Precision lambda of the weights' prior.
        iterations: Number of steps.
    """
    folds, sets = _folds(columns, labels), labels.num_folds + 1
    factors = _hessian_factors([fold.columns for fold in folds], ridge)
    log_prior = labels.prior.log().view(-1, 1, 1)
    weights = columns.new_zeros(labels.num_classes, sets, columns.shape[1])
    ahead, momentum = weights, 1.0
    for _ in range(iterations):
        gradient = -ridge * ahead
        for fold in folds:
            gradient[:, fold.sets] += fold.gradient(ahead[:, fold.sets], log_prior)
        step = torch.cholesky_solve(gradient.permute(1, 2, 0), factors).permute(2, 0, 1)
        faster = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        moved = ahead + step
        weights, ahead, momentum = moved, moved + (momentum - 1) / faster * (moved - weights), faster
    return (_logits(columns, weights) + log_prior).log_softmax(dim=0).permute(2, 1, 0).contiguous()


@dataclass(frozen=True, kw_only=True, eq=False)
class _Fold:
    """Reports of one fold, and the training sets that hold them: all but its own.

    Attributes:
        columns: E of the reporting nodes, [reports, columns].
        named: 1 for each class that a report names, [classes, 1, reports].
        outside: Likelihood of a report for a class that it does not name: one number, or [reports].
        contrast: Likelihood for a class that it names, less that.
        sets: Numbers of the training sets, [sets].
    """

    columns: Tensor
    named: Tensor
    outside: float | Tensor
    contrast: float
    sets: Tensor

    def gradient(self, weights: Tensor, log_prior: Tensor) -> Tensor:
        """Return the gradient of the log-likelihood by the weights, [classes, sets, columns].

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


def _folds(columns: Tensor, labels: CrossFitting) -> list[_Fold]:
    """Return the reports of each fold."""
    named, sets = labels.named.T.to(columns).unsqueeze(1), torch.arange(labels.num_folds + 1, device=labels.device)
    nodes_of_folds = [(labels.folds == fold).nonzero().squeeze(1) for fold in range(labels.num_folds)]
    return [
        _Fold(
            columns=columns[nodes],
            named=named[:, :, nodes],
            outside=labels.outside[nodes] if isinstance(labels.outside, Tensor) else labels.outside,
            contrast=labels.contrast,
            sets=sets[sets != fold],
        )
        for fold, nodes in enumerate(nodes_of_folds)
    ]


def _logits(columns: Tensor, weights: Tensor) -> Tensor:
    """Return E W [classes, sets, nodes] for weights [classes, sets, columns]."""
    return (weights.flatten(0, 1) @ columns.T).view(*weights.shape[:2], -1)


def _hessian_factors(folds: list[Tensor], ridge: float) -> Tensor:
    """Return the Cholesky factors of 1/2 E^T E + lambda for the rows of each training set, [sets, columns, columns]."""
    squares = torch.stack([rows.T @ rows / 2 for rows in folds])
    total = squares.sum(0) + ridge * torch.eye(squares.shape[1]).to(squares)
    factors: Tensor = torch.linalg.cholesky(torch.cat([total - squares, total.unsqueeze(0)]))
    return factors
