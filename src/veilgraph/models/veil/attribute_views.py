"""Views of public attributes: logistic regression on their components, at several ranges and sizes."""

from __future__ import annotations

from veilgraph.graph import PublicAttributes
from veilgraph.models.veil.calibration import BeliefView, View
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.models.veil.spectral import logistic_log_posterior
from veilgraph.reconstruct.attribute_components import smoothed_components
from veilgraph.reconstruct.operators import GraphOperators

KIND = "attributes"
"""First word of the names of these views."""

HOPS = (0, 2, 4)
"""Steps of smoothing: a node's own attributes, those around it, and those of a wider neighbourhood."""

SIZES = {8: 0.5, 32: 1.0}
"""Effective numbers of components, and the precision of the weights' prior for columns of variance 1 in all."""

_EXPECTED_FACTOR, _SPREAD = 2.0, 1.0
"""A strong prior makes a regression shy: its log-probabilities are expected to be too small by half."""


def attribute_views(public: PublicAttributes, labels: CrossFitting, operators: GraphOperators) -> dict[str, View]:
    r"""Return a view for each of `HOPS` and `SIZES`, by name.

    Each is `logistic_log_posterior` on columns of :math:`S^h X` whose variances fall as a power of the spectrum. This
    is a Gaussian process with covariance :math:`(S^h X X^T S^h)^a`: reports decide about the leading components only,
    which neighbours with like attributes share, and the more so the smaller the size.

    Args:
        public: What is known about the nodes without asking.
        labels: Label reports in folds.
        operators: The graph.
    """
    views: dict[str, View] = {}
    for hops in HOPS if operators.num_edges else HOPS[:1]:
        components = smoothed_components(public, operators, hops)
        for size, ridge in SIZES.items():
            posterior = logistic_log_posterior(components.shrunk(size), labels, ridge=ridge)
            views[f"{KIND} {hops} {size}"] = BeliefView(
                posterior - labels.reports.prior.log(), _EXPECTED_FACTOR, _SPREAD
            )
    return views
