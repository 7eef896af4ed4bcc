"""Logistic regression on leading eigenvectors of the graph, by the likelihood of randomized labels."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.graph import PerturbedGraph, Split
from veilgraph.models.base import Method, begin_fit, check_is_fitted
from veilgraph.models.engine.device import resolve_device, torch_threads_for
from veilgraph.models.engine.losses import noisy_log_likelihood
from veilgraph.models.veil.cross_fitting import CrossFitting
from veilgraph.models.veil.spectral import logistic_log_posterior
from veilgraph.reconstruct.operators import GraphOperators, operators_of

COUNTS = (16, 64, 256)
"""Numbers of eigenvectors to choose from."""

RIDGES = (10.0, 100.0, 1000.0)
"""Precisions of the weights' prior to choose from. Columns have a mean square of 1."""

_ITERATIONS = 40


@dataclass(kw_only=True)
class SpectralRegression(Method):
    r"""Multinomial logistic regression with forward correction on eigenvectors E of :math:`D^{-1/2} A D^{-1/2}`.

    .. math:: \max_W \sum_v \ln \sum_x p_{v,x} P(y'_v | x) - \tfrac{\lambda}{2} \|W\|^2, \qquad
        p_v = \operatorname{softmax}(e_v W + \ln \pi)

    The number of eigenvectors and the ridge lambda are those that explain the reports of the validation nodes best.
    Then all reports are fitted, as the control does.

    Args:
        device: "auto", "cpu" or "cuda".

    Attributes:
        count_: After fitting, the selected number of eigenvectors.
        ridge_: After fitting, the selected ridge.
        probabilities_: After fitting, class probabilities of the fitted graph, [nodes, classes].

    >>> SpectralRegression().uses_features
    False
    """

    name: ClassVar[str] = "spectral"
    uses_features: ClassVar[bool] = False

    device: str = "auto"
    count_: int = field(init=False, repr=False, compare=False)
    ridge_: float = field(init=False, repr=False, compare=False)
    probabilities_: NDArray[np.float32] = field(init=False, repr=False, compare=False)

    def fit(self, perturbed: PerturbedGraph, split: Split) -> Self:
        """Select number and ridge on the validation nodes' reports, then fit all reports."""
        begin_fit(self, perturbed, split)
        operators = operators_of(perturbed.graph, resolve_device(self.device))
        with torch_threads_for(perturbed.graph.num_nodes):
            training = replace(perturbed, has_label=perturbed.has_label & split.train)
            score = noisy_log_likelihood([perturbed], [split.validation & perturbed.has_label], operators.device)
            scores = {
                (count, ridge): float(score(_log_posterior(training, count, ridge, operators)))
                for count, ridge in itertools.product(COUNTS, RIDGES)
            }
        self.count_, self.ridge_ = max(scores, key=scores.__getitem__)
        self.probabilities_ = self._predict(perturbed)
        return self

    def predict_proba(self, perturbed: PerturbedGraph | None = None) -> NDArray[np.float32]:
        """Return class probabilities [nodes, classes]; on another graph, weights are fitted to its reports."""
        check_is_fitted(self)
        return self.probabilities_ if perturbed is None else self._predict(perturbed)

    def _predict(self, perturbed: PerturbedGraph) -> NDArray[np.float32]:
        operators = operators_of(perturbed.graph, resolve_device(self.device))
        with torch_threads_for(perturbed.graph.num_nodes):
            (found,) = _log_posterior(perturbed, self.count_, self.ridge_, operators).exp()
        return np.asarray(found.T.contiguous().cpu().numpy())


def _log_posterior(perturbed: PerturbedGraph, count: int, ridge: float, operators: GraphOperators) -> Tensor:
    """Return log-probabilities [1, classes, nodes] of a fit to all label reports."""
    folds = np.where(perturbed.has_label, 0, -1)  # one fold: the last training set holds all reports
    labels = CrossFitting(perturbed=perturbed, folds=torch.from_numpy(folds).to(operators.device))
    columns = operators.decompositions.eigenvectors(max(COUNTS), regularised=False)[:, :count]
    fitted = logistic_log_posterior(columns, labels, ridge=ridge, iterations=_ITERATIONS)
    return fitted[:, -1].T.unsqueeze(0)
