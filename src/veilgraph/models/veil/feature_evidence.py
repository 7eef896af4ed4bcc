"""Feature evidence of Veil: log-likelihoods of feature reports under each class, propagated over the graph."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from veilgraph.models.naive_bayes import feature_log_likelihood
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.models.veil.pagerank import personalised_pagerank
from veilgraph.reconstruct.operators import GraphOperators

FEATURE_RESTARTS = (1.0, 0.5, 0.2, 0.05)
"""Restart probabilities for feature likelihoods; at 1 a node has its own report only."""

_STEPS = 16
_UNIT = math.sqrt(10)
"""Standard deviation of a term. The pool's prior allows weights of 0.1, so evidence of 0.3 nats is expected."""


def feature_terms(pooled: Tensor, labels: CrossFitting, operators: GraphOperators) -> Tensor:
    """Return feature log-likelihoods [terms, nodes, K + 1, classes], one term for each of `FEATURE_RESTARTS`.

    Each term has the same standard deviation.

    Args:
        pooled: Log-probabilities of the pool without features, [nodes, K + 1, classes].
        labels: Label reports in folds.
        operators: The graph.
    """
    soft_labels, communicator = (pooled + labels.local_evidence).softmax(dim=2), labels.reports.communicator
    likelihood = feature_log_likelihood(labels.perturbed, soft_labels, communicator=communicator)
    ranges = [(restart, _STEPS if restart < 1 else 0) for restart in FEATURE_RESTARTS]
    matrix = operators.symmetric.matrix
    propagated = personalised_pagerank(matrix, likelihood.flatten(1), ranges, communicator=communicator)
    scales = [_UNIT / communicator.std(columns).clamp(min=1e-6) for columns in propagated.values()]
    return torch.stack([c.view_as(likelihood) * scale for c, scale in zip(propagated.values(), scales, strict=True)])
