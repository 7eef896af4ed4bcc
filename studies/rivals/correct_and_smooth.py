"""Correct and Smooth by the likelihood of randomized labels: a linear model, its errors and posteriors propagated."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple, Self

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
from veilgraph.reconstruct.attribute_components import smoothed_components
from veilgraph.reconstruct.labels import project_to_simplex
from veilgraph.reconstruct.operators import GraphOperators, operators_of

POSITIONS = (0, 64)
"""Numbers of eigenvectors beside the attributes to choose from."""

RIDGES = (10.0, 100.0, 1000.0)
"""Precisions of the weights' prior to choose from."""

RESTARTS = (0.05, 0.2, 0.5)
"""Restart probabilities of both propagations to choose from."""

SCALES = (0.0, 1.0, 2.0)
"""Factors of the propagated errors to choose from; 0 corrects nothing."""

_COMPONENTS, _STEPS, _FLOOR = 64, 20, 1e-6


class Settings(NamedTuple):
    """What is chosen by the reports of validation nodes."""

    positions: float
    ridge: float
    correct: float = 1.0
    scale: float = 0.0
    smooth: float = 1.0


@dataclass(kw_only=True)
class CorrectAndSmooth(Method):
    r"""Huang et al., "Combining Label Propagation and Simple Models Out-performs Graph Neural Networks", ICLR 2021.

    A linear model on public attributes gives p_v. Its errors on reports are propagated and added, and the posteriors
    of what results are propagated again:

    .. math:: z_v = p_v + s\,[\mathrm{PPR}_a (t - p)]_v, \qquad \hat y = \mathrm{PPR}_b \left( z_v P(y'_v | .) \right)

    True labels are not known: t_v is the unbiased estimate of a class from its report, the linear model is fitted by
    the likelihood of the reports, and posteriors take the place of labels. The inputs, the ridge, s, a and b are those
    that explain the reports of the validation nodes best. Then all reports are used.

    Args:
        device: "auto", "cpu" or "cuda".

    Attributes:
        settings_: After fitting, what was chosen.
        probabilities_: After fitting, class probabilities of the fitted graph, [nodes, classes].

    >>> CorrectAndSmooth().uses_features
    False
    """

    name: ClassVar[str] = "correct_and_smooth"
    uses_features: ClassVar[bool] = False

    device: str = "auto"
    settings_: dict[str, float] = field(init=False, repr=False, compare=False)
    probabilities_: NDArray[np.float32] = field(init=False, repr=False, compare=False)

    def fit(self, perturbed: PerturbedGraph, split: Split) -> Self:
        """Choose the settings on the validation nodes' reports, then use all reports."""
        begin_fit(self, perturbed, split)
        operators = operators_of(perturbed.graph, resolve_device(self.device))
        with torch_threads_for(perturbed.graph.num_nodes):
            training = replace(perturbed, has_label=perturbed.has_label & split.train)
            score = noisy_log_likelihood([perturbed], [split.validation & perturbed.has_label], operators.device)

            def scored(probabilities: Tensor) -> float:
                return float(score(probabilities.clamp(min=_FLOOR).log().T.unsqueeze(0)))

            bases = {each: _linear(training, *each, operators) for each in itertools.product(POSITIONS, RIDGES)}
            chosen = max(bases, key=lambda each: scored(bases[each]))
            corrected = {
                (restart, scale): _corrected(training, bases[chosen], restart, scale, operators)
                for restart, scale in itertools.product(RESTARTS, SCALES)
            }
            found = {
                Settings(*chosen, *each, smooth): scored(_smoothed(training, corrected[each], smooth, operators))
                for each, smooth in itertools.product(corrected, (*RESTARTS, 1.0))
            }
        self.settings_ = max(found, key=found.__getitem__)._asdict()
        self.probabilities_ = self._predict(perturbed)
        return self

    def predict_proba(self, perturbed: PerturbedGraph | None = None) -> NDArray[np.float32]:
        """Return class probabilities [nodes, classes]; on another graph, weights are fitted to its reports."""
        check_is_fitted(self)
        return self.probabilities_.copy() if perturbed is None else self._predict(perturbed)

    def _predict(self, perturbed: PerturbedGraph) -> NDArray[np.float32]:
        operators, chosen = operators_of(perturbed.graph, resolve_device(self.device)), Settings(**self.settings_)
        with torch_threads_for(perturbed.graph.num_nodes):
            base = _linear(perturbed, chosen.positions, chosen.ridge, operators)
            corrected = _corrected(perturbed, base, chosen.correct, chosen.scale, operators)
            found = _smoothed(perturbed, corrected, chosen.smooth, operators)
        return np.asarray(found.cpu().numpy())


def _linear(perturbed: PerturbedGraph, positions: float, ridge: float, operators: GraphOperators) -> Tensor:
    """Return class probabilities by logistic regression on attributes and positions, [nodes, classes]."""
    columns = []
    if perturbed.public is not None:
        columns.append(smoothed_components(perturbed.public, operators, hops=0).shrunk(_COMPONENTS))
    if positions or not columns:
        columns.append(operators.decompositions.eigenvectors(max(POSITIONS))[:, : max(POSITIONS)])
    folds = torch.from_numpy(np.where(perturbed.has_label, 0, -1)).to(operators.device)  # one fold: all reports
    labels = CrossFitting(perturbed=perturbed, folds=folds)
    return logistic_log_posterior(torch.cat(columns, dim=1), labels, ridge=ridge)[:, -1].exp()


def _corrected(
    perturbed: PerturbedGraph, base: Tensor, restart: float, scale: float, operators: GraphOperators
) -> Tensor:
    """Add the propagated errors of the reports to a model's probabilities, [nodes, classes]."""
    if scale == 0:
        return base
    channel, reported = perturbed.label_mechanism.channel, torch.from_numpy(perturbed.has_label).to(base.device)
    named = torch.from_numpy(perturbed.named_classes()).to(base)
    errors = ((named - float(channel.other)) / float(channel.gain) - base) * reported.unsqueeze(1)
    return project_to_simplex(base + scale * _propagated(errors, restart, operators))


def _smoothed(perturbed: PerturbedGraph, prior: Tensor, restart: float, operators: GraphOperators) -> Tensor:
    """Propagate the posteriors of reporters and the predictions of all others, [nodes, classes]."""
    likelihood = perturbed.label_mechanism.likelihood
    named = torch.from_numpy(perturbed.named_classes()).to(prior)
    posterior = prior * (float(likelihood.other) + float(likelihood.gain) * named)
    found = _propagated(posterior / posterior.sum(1, keepdim=True).clamp(min=_FLOOR), restart, operators)
    return found / found.sum(1, keepdim=True).clamp(min=_FLOOR)


def _propagated(rows: Tensor, restart: float, operators: GraphOperators) -> Tensor:
    r"""Return a sum over steps, :math:`a \sum_k (1 - a)^k S^k` times the rows; rows without an edge are kept."""
    if restart == 1 or not operators.num_edges:
        return rows
    found = rows
    for _ in range(_STEPS):
        found = (1 - restart) * operators.symmetric(found, 1) + restart * rows
    return found
