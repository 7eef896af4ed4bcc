"""Algorithm 2: label distributions of neighbourhoods, by masked propagation of randomized labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from veilgraph.errors import ReconstructionError
from veilgraph.frequency import estimate_frequencies, population_variance
from veilgraph.graph import PerturbedGraph
from veilgraph.reconstruct.propagation import NeighbourhoodMean


@dataclass(frozen=True, kw_only=True, eq=False)
class ReconstructedLabels:
    """y~: for each node, the estimated class distribution among the labelled nodes of its K-hop neighbourhood.

    Attributes:
        distribution: unbiased estimates, rows summing to 1, not projected.
        in_reach: whether any labelled node is within K hops; elsewhere the distribution is that of all reports.
    """

    distribution: Tensor
    in_reach: Tensor
    _measure_errors: Callable[[], Tensor] = field(repr=False)

    @cached_property
    def standard_errors(self) -> Tensor:
        """Of each estimate, for neighbourhoods drawn from a population; measured when asked for."""
        return self._measure_errors()

    def decoded(self) -> Tensor:
        """The most likely class of each node.

        The estimator is one increasing affine map for all classes, so this equals a plain majority vote over the
        reports of the neighbourhood.
        """
        return self.distribution.argmax(dim=1)


def reconstruct_labels(
    perturbed: PerturbedGraph, hops: int, *, mean: NeighbourhoodMean, estimate: bool = True
) -> ReconstructedLabels:
    """Algorithm 2: propagate one-hot reports with zeros for unlabelled nodes, then undo the randomization.

    What K hops leave at a node sums to the weight of labelled nodes in its neighbourhood, not to 1; dividing by it
    gives the distribution among them, which the estimator is for. A node with no labelled node in reach has no
    distribution of its own and falls back to that of all reports. Isolated nodes keep their own report.

    Args:
        perturbed: the graph and its reports; train and validation reports both take part.
        hops: K_y.
        mean: the graph's neighbourhood mean, on the device to use.
        estimate: undo the randomization; otherwise observed shares are kept, for ablations.
    """
    labelled = torch.from_numpy(perturbed.has_label).to(mean.device)
    reports = int(mean.peers.total(labelled.sum()))
    if reports == 0:
        raise ReconstructionError("no labelled nodes: at least one node must report its label")
    channel = perturbed.label_mechanism.channel
    observed = one_hot_labels(perturbed).to(mean.device)
    propagated = mean.propagate(observed, hops)
    mass = propagated.sum(1, keepdim=True)
    in_reach = mass.squeeze(1) > 0
    overall = mean.peers.total(observed.sum(0)) / reports
    shares = torch.where(mass > 0, propagated / mass.clamp(min=torch.finfo(mass.dtype).tiny), overall)
    estimates = estimate_frequencies(shares, channel)

    def measure_errors() -> Tensor:
        sizes = torch.where(in_reach, mean.effective_sample_size(labelled, hops), float(reports))
        errors = population_variance(estimates, channel, sizes.unsqueeze(1)).sqrt()
        return errors if estimate else errors * float(channel.gain)

    return ReconstructedLabels(
        distribution=estimates if estimate else shares, in_reach=in_reach, _measure_errors=measure_errors
    )


def one_hot_labels(perturbed: PerturbedGraph) -> Tensor:
    """y' as rows with a single 1, all zero where no label was reported."""
    columns = perturbed.labels[:, None] == np.arange(perturbed.schema.num_classes)
    return torch.from_numpy(columns & perturbed.has_label[:, None]).to(torch.float32)
