"""What public attributes tell about the classes of people whose neighbours are private."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from veilgraph.graph import PerturbedGraph, PublicAttributes
from veilgraph.models.veil.attribute_views import SIZES
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.models.veil.spectral import logistic_log_posterior
from veilgraph.reconstruct.attribute_components import smoothed_components
from veilgraph.reconstruct.operators import operators_of


def public_evidence(
    perturbed: PerturbedGraph, public: PublicAttributes, folds: NDArray[np.int64]
) -> NDArray[np.float64]:
    r"""Return log-odds of each class against the prior, given a person's public attributes, out of fold.

    It is the mean over the sizes of :math:`\ln p_v(x) - \ln \pi(x)`, with p the logistic regression by the likelihood
    of the reports that Veil's views of attributes are. No edge is read.

    Args:
        perturbed: The label reports.
        public: The attributes.
        folds: Fold of each report that may be learned from, -1 for everyone else, [nodes].

    Returns:
        Log-odds from regressions that did not see the person's own report, [nodes, classes].
    """
    labels = CrossFitting(perturbed=perturbed, folds=torch.from_numpy(folds))
    components = smoothed_components(public, operators_of(perturbed.graph, torch.device("cpu")), hops=0)
    rows, log_prior = torch.arange(len(folds)), labels.reports.prior.log()
    found = [
        logistic_log_posterior(components.shrunk(size), labels, ridge=ridge)[rows, labels.own_sets] - log_prior
        for size, ridge in SIZES.items()
    ]
    return np.asarray(torch.stack(found).mean(0).double().numpy())
