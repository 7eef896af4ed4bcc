"""The structure-only control: label propagation without features, which every claim must beat."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.distributed.communicator import Communicator
from veilgraph.graph import Graph, PerturbedGraph, Split
from veilgraph.models.base import DEFAULT_MEMORY, FitTask, Method, PendingFit, begin_fit, check_is_fitted
from veilgraph.models.engine.device import resolve_device, torch_threads_for
from veilgraph.privacy.frequency import estimate_frequencies
from veilgraph.reconstruct.labels import named_class_draws, project_to_simplex
from veilgraph.reconstruct.operators import GraphOperators, operators_of
from veilgraph.reconstruct.sparse import block_width, repeated_product

RESTARTS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)
STEPS = (1, 2, 4, 8, 16, 32)

_FOLDS = 5


@dataclass(kw_only=True)
class StructureOnly(Method):
    r"""Label propagation by personalised PageRank from randomized labels alone.

    .. math:: Z \leftarrow (1 - a)\, S Z + a Y', \qquad S = D^{-1/2} A D^{-1/2}

    Propagated reports are debiased into class probabilities. The restart probability a and the number of steps are
    selected on the randomized labels of the validation nodes, which are held out of the propagation. Then all reports
    are propagated.

    Args:
        device: "auto", "cpu" or "cuda".

    Attributes:
        restart_: After fitting, the selected restart probability.
        steps_: After fitting, the selected number of steps.
        probabilities_: After fitting, class probabilities of the fitted graph, [nodes, classes].

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
        """Select restart and steps on held-out reports, then propagate all reports."""
        for _ in self.fit_together([FitTask(method=self, perturbed=perturbed, split=split)]):
            pass
        return self

    @classmethod
    def start_together(
        cls, tasks: Sequence[FitTask[Self]], *, memory: int = DEFAULT_MEMORY
    ) -> Iterator[PendingFit[Self]]:
        """Fit many tasks: those on one graph share sparse products."""
        by_graph: dict[tuple[Graph, torch.device], list[FitTask[Self]]] = {}
        for task in tasks:
            communicator = operators_of(task.perturbed.graph, resolve_device(task.method.device)).communicator
            begin_fit(task.method, task.perturbed, task.split, communicator)
            by_graph.setdefault((task.perturbed.graph, resolve_device(task.method.device)), []).append(task)
        for (graph, device), same_graph in by_graph.items():
            operators = operators_of(graph, device)
            with torch_threads_for(graph.num_nodes):
                settings = _select_settings(same_graph, operators)
                results = _class_probabilities(settings, [task.perturbed for task in same_graph], operators)
            for task, (restart, steps), probabilities in zip(same_graph, settings, results, strict=True):
                method = task.method
                method.restart_, method.steps_, method.probabilities_ = restart, steps, probabilities
            yield PendingFit(same_graph)

    def predict_proba(self, perturbed: PerturbedGraph | None = None) -> NDArray[np.float32]:
        """Return class probabilities [nodes, classes] of the fitted graph, or of another with the selected settings."""
        check_is_fitted(self)
        if perturbed is None:
            return self.probabilities_.copy()
        operators = operators_of(perturbed.graph, resolve_device(self.device))
        (result,) = _class_probabilities([(self.restart_, self.steps_)], [perturbed], operators)
        return result

    def predict_without_own_report(self, perturbed: PerturbedGraph) -> NDArray[np.float64]:
        """Return class probabilities that use no label report of the node itself, [nodes, classes].

        The control is fitted again without each of five folds of the reports. Nodes without a report have the
        probabilities of the fit.
        """
        order = np.random.default_rng(0).permutation(np.flatnonzero(perturbed.has_label))
        tasks = []
        for fold in range(_FOLDS):
            kept = perturbed.has_label.copy()
            kept[order[fold::_FOLDS]] = False
            reports = replace(perturbed, has_label=kept)
            split = Split.random(len(kept), seed=fold, train=2 / 3, validation=1 / 3, eligible=kept)
            tasks.append(FitTask(method=StructureOnly(device=self.device), perturbed=reports, split=split))
        probabilities = self.predict_proba().astype(np.float64)
        for _ in StructureOnly.fit_together(tasks):
            pass
        for fold, task in enumerate(tasks):
            nodes = order[fold::_FOLDS]
            probabilities[nodes] = task.method.predict_proba()[nodes]
        return probabilities


def _class_probabilities(
    settings: Sequence[tuple[float, int]], reports: Sequence[PerturbedGraph], operators: GraphOperators
) -> list[NDArray[np.float32]]:
    """Return class probabilities [nodes, classes] of each task with its restart and number of steps."""
    sources, results = named_class_draws(reports, operators.device), dict[int, NDArray[np.float32]]()
    restarts, steps = zip(*settings, strict=True)
    for step, scores in _propagations(operators, sources, restarts, steps):
        for run in (run for run, last in enumerate(steps) if last == step):
            debiased = _debias(scores[:, run], sources[:, run], reports[run], operators.communicator)
            results[run] = debiased.cpu().numpy()
    return [results[run] for run in range(len(settings))]


def _select_settings(tasks: Sequence[FitTask[StructureOnly]], operators: GraphOperators) -> list[tuple[float, int]]:
    """Return, for each task, the restart and number of steps whose predictions most held-out reports name."""
    training = np.stack([task.split.train for task in tasks], axis=1)
    sources = named_class_draws([task.perturbed for task in tasks], operators.device)
    sources *= torch.from_numpy(training).to(operators.device).unsqueeze(2)
    held_out = [_held_out(task, operators.device) for task in tasks]
    rows = operators.communicator.max_extended_rows(len(sources))
    together = max(1, block_width(operators.device, rows) // sources.shape[2])
    pairs, hits = list(itertools.product(range(len(tasks)), RESTARTS)), dict[tuple[int, float, int], Tensor]()
    for start in range(0, len(pairs), together):
        which, restarts = zip(*pairs[start : start + together], strict=True)
        columns = sources[:, torch.tensor(which, device=operators.device)]
        for steps, scores in _propagations(operators, columns, restarts, STEPS):
            for run in dict.fromkeys(which):
                nodes, named = held_out[run]
                part = slice(which.index(run), which.index(run) + which.count(run))
                agreeing = named.gather(1, scores[nodes, part].argmax(dim=2)).sum(dim=0)
                hits |= {(run, restart, steps): count for restart, count in zip(restarts[part], agreeing, strict=True)}
    # Ties go to fewer steps, then to the larger restart.
    settings = [(restart, steps) for steps in STEPS for restart in RESTARTS]
    counts = torch.stack([hits[run, *setting] for run in range(len(tasks)) for setting in settings])
    counts = operators.communicator.all_reduce_sum(counts)
    return [settings[row.index(max(row))] for row in counts.view(len(tasks), -1).tolist()]


def _held_out(task: FitTask[StructureOnly], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the validation nodes with a report, and the classes that they name, [nodes, classes]."""
    nodes = np.flatnonzero(task.split.validation & task.perturbed.has_label)
    named = task.perturbed.label_mechanism.named(task.perturbed.labels[nodes])
    return torch.from_numpy(nodes).to(device), torch.from_numpy(named).to(device)


def _propagations(
    operators: GraphOperators, reports: Tensor, restarts: Sequence[float], steps: Sequence[int]
) -> Iterator[tuple[int, Tensor]]:
    """Yield the scores [nodes, restarts, classes] after each number of steps; all restarts share sparse products.

    Args:
        operators: The graph.
        reports: Classes that reports name, [nodes, restarts, classes].
        restarts: Restart probability of each column of classes.
        steps: Numbers of steps after which to yield.
    """
    weight = torch.tensor(restarts, device=reports.device).repeat_interleave(reports.shape[2])
    scores = reports.flatten(1)
    sources = scores * weight
    for step in range(1, max(steps) + 1):
        arriving = repeated_product(operators.symmetric.matrix, scores, 1, communicator=operators.communicator)
        scores = torch.addcmul(sources, arriving, 1 - weight)
        if step in steps:
            yield step, scores.view_as(reports)


def _debias(scores: Tensor, reports: Tensor, perturbed: PerturbedGraph, communicator: Communicator) -> Tensor:
    """Return class probabilities from propagated reports; where none arrived, the class shares of all reports."""
    count = int(communicator.all_reduce_sum(torch.tensor(int(perturbed.has_label.sum()))))
    mass = scores.sum(dim=1, keepdim=True) / perturbed.label_mechanism.set_size
    overall = communicator.all_reduce_sum(reports.sum(0)) / count
    shares = torch.where(mass > 0, scores / mass.clamp(min=torch.finfo(mass.dtype).tiny), overall)
    return project_to_simplex(estimate_frequencies(shares, perturbed.label_mechanism.channel))
