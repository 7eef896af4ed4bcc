"""Spectral views: logistic regression on leading eigenvectors of the graph. They need no homophily."""

from __future__ import annotations

import math

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
    # Nodes are the last dimension: operations over few classes are fast then.
    rows = columns.T.contiguous()
    training_sets, classes = labels.training_sets.shape[1:]
    kept, named = labels.kept.T.to(columns), labels.named.T.to(columns).unsqueeze(1)
    log_prior, odds = labels.prior.log().view(-1, 1, 1), labels.contrast
    factors = torch.stack([_hessian_factor(columns[chosen], ridge) for chosen in labels.kept.T])

    def logits(weights: Tensor) -> Tensor:
        return (weights.flatten(0, 1) @ rows).view(classes, training_sets, -1) + log_prior

    weights = columns.new_zeros(classes, training_sets, columns.shape[1])
    ahead, momentum = weights, 1.0
    for _ in range(iterations):
        probabilities = logits(ahead).softmax(dim=0)
        among_named = probabilities * named
        total = among_named.sum(dim=0)
        # s (r - p): s the share of the likelihood of the named classes, r the probabilities among them.
        likelihood = (labels.outside + odds * total).clamp(min=_TINY)
        slope = among_named.sub_(probabilities.mul_(total)).mul_(kept * odds / likelihood)
        gradient = (slope.flatten(0, 1) @ columns).view_as(ahead) - ridge * ahead
        step = torch.cholesky_solve(gradient.permute(1, 2, 0), factors).permute(2, 0, 1)
        faster = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        moved = ahead + step
        weights, ahead, momentum = moved, moved + (momentum - 1) / faster * (moved - weights), faster
    return logits(weights).log_softmax(dim=0).permute(2, 1, 0).contiguous()


def _hessian_factor(rows: Tensor, ridge: float) -> Tensor:
    """Return the Cholesky factor of 1/2 E^T E + lambda for the rows of one training set."""
    factor: Tensor = torch.linalg.cholesky(rows.T @ rows / 2 + ridge * torch.eye(rows.shape[1]).to(rows))
    return factor
