"""What can be had without any features: the control that every claim must beat."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.errors import FitError
from veilgraph.frequency import estimate_frequencies, project_to_simplex
from veilgraph.graph import PerturbedGraph, Split
from veilgraph.learn.method import Method, check_fit_input
from veilgraph.reconstruct.labels import one_hot_labels
from veilgraph.reconstruct.operators import GraphOperators

RESTARTS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)
STEPS = (1, 2, 4, 8, 16, 32)


@dataclass(kw_only=True)
class StructureOnly(Method):
    r"""Label propagation by personalised PageRank from randomized labels alone.

    .. math:: Z \leftarrow (1 - a)\, S Z + a Y', \qquad S = D^{-1/2} A D^{-1/2}

    Propagated reports are debiased into class probabilities. The restart a and the number of steps are chosen on the
    validation nodes' randomized labels, held out of the propagation; then all reports are used.

    >>> StructureOnly().uses_features
    False
    """

    name: ClassVar[str] = "structure_only"
    uses_features: ClassVar[bool] = False

    restart: float | None = field(init=False, default=None)
    steps: int | None = field(init=False, default=None)
    _probabilities: NDArray[np.float32] | None = field(init=False, default=None, repr=False)

    def fit(self, perturbed: PerturbedGraph, split: Split) -> Self:
        """Choose restart and steps on held-out reports, then propagate all of them."""
        check_fit_input(perturbed, split)
        matrix = GraphOperators(perturbed.graph).symmetric
        reports = one_hot_labels(perturbed)
        held_out = torch.from_numpy(split.validation & perturbed.has_label)
        labels = torch.from_numpy(perturbed.labels)[held_out]
        training = reports * torch.from_numpy(split.train).unsqueeze(1)
        hits = {
            setting: int((scores[held_out].argmax(dim=1) == labels).sum())
            for setting, scores in _propagations(matrix, training)
        }
        self.restart, self.steps = max(hits, key=lambda setting: hits[setting])
        scores = dict(_propagations(matrix, reports))[self.restart, self.steps]
        self._probabilities = _debias(scores, perturbed).numpy()
        return self

    def predict_proba(self, perturbed: PerturbedGraph | None = None) -> NDArray[np.float32]:
        """Class probabilities of the fitted graph, or of another one with the settings chosen there."""
        if self._probabilities is None or self.restart is None or self.steps is None:
            raise FitError("StructureOnly was not fitted yet: call fit(perturbed, split) first")
        if perturbed is None:
            return self._probabilities
        settings = _propagations(GraphOperators(perturbed.graph).symmetric, one_hot_labels(perturbed))
        return _debias(dict(settings)[self.restart, self.steps], perturbed).numpy()


def _propagations(matrix: Tensor, reports: Tensor) -> list[tuple[tuple[float, int], Tensor]]:
    """Scores for every restart and number of steps; all restarts go through one sparse product."""
    classes = reports.shape[1]
    sources = torch.cat([a * reports for a in RESTARTS], dim=1)
    kept = torch.tensor(RESTARTS).neg().add(1).repeat_interleave(classes)
    scores, snapshots = reports.repeat(1, len(RESTARTS)), []
    for step in range(1, max(STEPS) + 1):
        scores = kept * (matrix @ scores) + sources
        if step in STEPS:
            snapshots.append(scores)
    return [
        ((restart, steps), snapshot[:, i * classes : (i + 1) * classes])
        for (steps, snapshot), (i, restart) in itertools.product(
            zip(STEPS, snapshots, strict=True), enumerate(RESTARTS)
        )
    ]


def _debias(scores: Tensor, perturbed: PerturbedGraph) -> Tensor:
    """Propagated reports as class probabilities; where none arrived, the distribution of all reports."""
    reports = one_hot_labels(perturbed)
    mass = scores.sum(dim=1, keepdim=True)
    shares = torch.where(
        mass > 0, scores / mass.clamp(min=torch.finfo(mass.dtype).tiny), reports.sum(0) / reports.sum()
    )
    return project_to_simplex(estimate_frequencies(shares, perturbed.label_mechanism.channel))
