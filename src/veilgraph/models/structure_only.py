"""What can be had without any features: the control that every claim must beat."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.models.base import DEFAULT_MEMORY, FitTask, Method, PendingFit, check_fit_input, check_is_fitted
from veilgraph.models.engine.device import resolve_device, threads_for
from veilgraph.privacy.frequency import estimate_frequencies
from veilgraph.reconstruct.labels import stacked_one_hot
from veilgraph.reconstruct.operators import GraphOperators, operators_of
from veilgraph.reconstruct.propagation import block_width, repeated_product
from veilgraph.reconstruct.simplex import project_to_simplex

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
    restart_: float = field(init=False, repr=False, compare=False)
    steps_: int = field(init=False, repr=False, compare=False)
    probabilities_: NDArray[np.float32] = field(init=False, repr=False, compare=False)

    def fit(self, perturbed: PerturbedGraph, split: Split) -> Self:
        """Choose restart and steps on held-out reports, then propagate all of them."""
        for _ in self.fit_together([FitTask(method=self, perturbed=perturbed, split=split)]):
            pass
        return self

    @classmethod
    def start_together(
        cls, runs: Sequence[FitTask[Self]], *, memory: int = DEFAULT_MEMORY
    ) -> Iterator[PendingFit[Self]]:
        """Fit many at once: the columns of runs on one graph share products."""
        by_graph: dict[tuple[Graph, torch.device], list[FitTask[Self]]] = {}
        for run in runs:
            check_fit_input(run.perturbed, run.split)
            by_graph.setdefault((run.perturbed.graph, resolve_device(run.method.device)), []).append(run)
        for (graph, device), same_graph in by_graph.items():
            operators = operators_of(graph, device)
            with threads_for(graph.num_nodes):
                chosen = _choose(same_graph, operators)
                found = _propagated(chosen, [run.perturbed for run in same_graph], operators)
            for run, (restart, steps), probabilities in zip(same_graph, chosen, found, strict=True):
                fitted = run.method
                fitted.restart_, fitted.steps_, fitted.probabilities_ = restart, steps, probabilities
            yield PendingFit(same_graph)

    def predict_proba(self, perturbed: PerturbedGraph | None = None) -> NDArray[np.float32]:
        """Class probabilities of the fitted graph, or of another one with the settings chosen there."""
        check_is_fitted(self)
        if perturbed is None:
            return self.probabilities_
        operators = operators_of(perturbed.graph, resolve_device(self.device))
        (found,) = _propagated([(self.restart_, self.steps_)], [perturbed], operators)
        return found


def _propagated(
    settings: Sequence[tuple[float, int]], reports: Sequence[PerturbedGraph], operators: GraphOperators
) -> list[NDArray[np.float32]]:
    """Class probabilities with the restarts and steps that were chosen."""
    sources, found = stacked_one_hot(reports, operators.device), dict[int, NDArray[np.float32]]()
    restarts, steps = zip(*settings, strict=True)
    for step, scores in _propagations(operators, sources, restarts, steps):
        for run in (run for run, last in enumerate(steps) if last == step):
            found[run] = _debias(scores[:, run], sources[:, run], reports[run]).cpu().numpy()
    return [found[run] for run in range(len(settings))]


def _choose(runs: Sequence[FitTask[StructureOnly]], operators: GraphOperators) -> list[tuple[float, int]]:
    """Each run's restart and number of steps whose scores agree with most held-out reports."""
    training = np.stack([run.split.train for run in runs], axis=1)
    sources = stacked_one_hot([run.perturbed for run in runs], operators.device)
    sources *= torch.from_numpy(training).to(operators.device).unsqueeze(2)
    held_out = [_held_out(run, operators.device) for run in runs]
    together = max(1, block_width(operators.device, len(sources)) // sources.shape[2])
    pairs, hits = list(itertools.product(range(len(runs)), RESTARTS)), dict[tuple[int, float, int], Tensor]()
    for start in range(0, len(pairs), together):
        which, restarts = zip(*pairs[start : start + together], strict=True)
        columns = sources[:, torch.tensor(which, device=operators.device)]
        for steps, scores in _propagations(operators, columns, restarts, STEPS):
            for run in dict.fromkeys(which):
                nodes, labels = held_out[run]
                part = slice(which.index(run), which.index(run) + which.count(run))
                agreeing = (scores[nodes, part].argmax(dim=2) == labels.unsqueeze(1)).sum(dim=0)
                hits |= {(run, restart, steps): count for restart, count in zip(restarts[part], agreeing, strict=True)}
    # The first of those that are best, few steps and strong restarts first.
    settings = [(restart, steps) for steps in STEPS for restart in RESTARTS]
    counts = torch.stack([hits[run, *setting] for run in range(len(runs)) for setting in settings])
    return [settings[row.index(max(row))] for row in counts.view(len(runs), -1).tolist()]


def _held_out(run: FitTask[StructureOnly], device: torch.device) -> tuple[Tensor, Tensor]:
    """The nodes that select, and their reported labels."""
    nodes = np.flatnonzero(run.split.validation & run.perturbed.has_label)
    return torch.from_numpy(nodes).to(device), torch.from_numpy(run.perturbed.labels[nodes]).to(device)


def _propagations(
    operators: GraphOperators, reports: Tensor, restarts: Sequence[float], steps: Sequence[int]
) -> Iterator[tuple[int, Tensor]]:
    """Scores [nodes, restarts, classes] after each number of steps; all restarts go through one sparse product.

    Args:
        operators: of the graph.
        reports: [nodes, restarts, classes].
        restarts: of each.
        steps: after which scores are wanted.
    """
    weight = torch.tensor(restarts, device=reports.device).repeat_interleave(reports.shape[2])
    scores = reports.flatten(1)
    sources = scores * weight
    for step in range(1, max(steps) + 1):
        scores = torch.addcmul(sources, repeated_product(operators.symmetric.matrix, scores, 1), 1 - weight)
        if step in steps:
            yield step, scores.view_as(reports)


def _debias(scores: Tensor, reports: Tensor, perturbed: PerturbedGraph) -> Tensor:
    """Propagated reports as class probabilities; where none arrived, the distribution of all reports."""
    mass = scores.sum(dim=1, keepdim=True)
    shares = torch.where(
        mass > 0, scores / mass.clamp(min=torch.finfo(mass.dtype).tiny), reports.sum(0) / reports.sum()
    )
    return project_to_simplex(estimate_frequencies(shares, perturbed.label_mechanism.channel))
