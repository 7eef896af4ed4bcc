"""What can be had without any features: the control that every claim must beat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.errors import FitError
from veilgraph.frequency import estimate_frequencies, project_to_simplex
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.learn.device import resolve_device
from veilgraph.learn.method import Method, check_fit_input
from veilgraph.learn.threads import threads_for
from veilgraph.reconstruct.labels import one_hot_labels
from veilgraph.reconstruct.operators import GraphOperators, operators_of
from veilgraph.reconstruct.propagation import block_width, repeated_product

RESTARTS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)
STEPS = (1, 2, 4, 8, 16, 32)


@dataclass(kw_only=True)
class StructureOnly(Method):
    r"""Label propagation by personalised PageRank from randomized labels alone.

    .. math:: Z \leftarrow (1 - a)\, S Z + a Y', \qquad S = D^{-1/2} A D^{-1/2}

    Propagated reports are debiased into class probabilities. The restart a and the number of steps are chosen on the
    validation nodes' randomized labels, held out of the propagation; then all reports are used.

    Args:
        device: "auto", "cpu" or "cuda".

    >>> StructureOnly().uses_features
    False
    """

    name: ClassVar[str] = "structure_only"
    uses_features: ClassVar[bool] = False

    device: str = "auto"
    restart: float | None = field(init=False, default=None)
    steps: int | None = field(init=False, default=None)
    _probabilities: NDArray[np.float32] | None = field(init=False, default=None, repr=False)

    def fit(self, perturbed: PerturbedGraph, split: Split) -> Self:
        """Choose restart and steps on held-out reports, then propagate all of them."""
        check_fit_input(perturbed, split)
        with threads_for(perturbed.graph.num_nodes):
            operators = operators_of(perturbed.graph, resolve_device(self.device))
            self.restart, self.steps = _choose(perturbed, split, operators)
            self._probabilities = self._propagated(perturbed, operators)
        return self

    def predict_proba(self, perturbed: PerturbedGraph | None = None) -> NDArray[np.float32]:
        """Class probabilities of the fitted graph, or of another one with the settings chosen there."""
        if self._probabilities is None:
            raise FitError("StructureOnly was not fitted yet: call fit(perturbed, split) first")
        if perturbed is None:
            return self._probabilities
        return self._propagated(perturbed, operators_of(perturbed.graph, resolve_device(self.device)))

    def _propagated(self, perturbed: PerturbedGraph, operators: GraphOperators) -> NDArray[np.float32]:
        if self.restart is None or self.steps is None:
            raise FitError("StructureOnly was not fitted yet: call fit(perturbed, split) first")
        reports = one_hot_labels(perturbed).to(operators.device)
        ((_, scores),) = _propagations(operators, reports, (self.restart,), (self.steps,))
        probabilities: NDArray[np.float32] = _debias(scores[0], reports, perturbed).cpu().numpy()
        return probabilities


def _choose(perturbed: PerturbedGraph, split: Split, operators: GraphOperators) -> tuple[float, int]:
    """The restart and number of steps whose scores agree with most held-out reports."""
    held_out = torch.from_numpy(split.validation & perturbed.has_label).to(operators.device)
    labels = torch.from_numpy(perturbed.labels).to(operators.device)[held_out]
    training = torch.from_numpy(split.train).to(operators.device).unsqueeze(1)
    reports = one_hot_labels(perturbed).to(operators.device) * training
    together = max(1, block_width(operators.device, len(reports)) // reports.shape[1])
    hits: dict[tuple[float, int], Tensor] = {}
    for start in range(0, len(RESTARTS), together):
        restarts = RESTARTS[start : start + together]
        for steps, scores in _propagations(operators, reports, restarts, STEPS):
            agreeing = (scores[:, held_out].argmax(dim=2) == labels).sum(dim=1)
            hits |= {(restart, steps): count for restart, count in zip(restarts, agreeing, strict=True)}
    # The first of those that are best, few steps and strong restarts first.
    settings = [(restart, steps) for steps in STEPS for restart in RESTARTS]
    counts = torch.stack([hits[setting] for setting in settings]).tolist()
    return settings[counts.index(max(counts))]


def _propagations(
    operators: GraphOperators, reports: Tensor, restarts: Sequence[float], steps: Sequence[int]
) -> Iterator[tuple[int, Tensor]]:
    """Scores [restarts, nodes, classes] after each number of steps; all restarts go through one sparse product."""
    classes = reports.shape[1]
    weight = torch.tensor(restarts, device=reports.device).repeat_interleave(classes)
    scores = reports.repeat(1, len(restarts))
    sources = scores * weight
    for step in range(1, max(steps) + 1):
        scores = torch.addcmul(sources, repeated_product(operators.symmetric.matrix, scores, 1), 1 - weight)
        if step in steps:
            yield step, scores.view(-1, len(restarts), classes).transpose(0, 1)


def _debias(scores: Tensor, reports: Tensor, perturbed: PerturbedGraph) -> Tensor:
    """Propagated reports as class probabilities; where none arrived, the distribution of all reports."""
    mass = scores.sum(dim=1, keepdim=True)
    shares = torch.where(
        mass > 0, scores / mass.clamp(min=torch.finfo(mass.dtype).tiny), reports.sum(0) / reports.sum()
    )
    return project_to_simplex(estimate_frequencies(shares, perturbed.label_mechanism.channel))
