"""Algorithm 2: label distributions of neighbourhoods, by masked propagation of randomized labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from veilgraph.errors import ReconstructionError
from veilgraph.graph import PerturbedGraph
from veilgraph.privacy.frequency import estimate_frequencies, population_variance
from veilgraph.privacy.mechanisms import SymmetricChannel
from veilgraph.privacy.schema import NO_LABEL
from veilgraph.reconstruct.propagation import NeighbourhoodMean


def project_to_simplex(estimates: Tensor) -> Tensor:
    """Return the nearest distribution in Euclidean distance, for each row (Held, Wolfe and Crowder 1974).

    >>> project_to_simplex(torch.tensor([[1.2, -0.1, -0.1], [0.2, 0.3, 0.5]]))
    tensor([[1.0000, 0.0000, 0.0000],
            [0.2000, 0.3000, 0.5000]])
    """
    # Adding a number to a whole row does not move its projection; near 0 the differences are exact.
    estimates = estimates - estimates.amax(dim=-1, keepdim=True)
    ordered = estimates.sort(dim=-1, descending=True).values
    ranks = torch.arange(1, estimates.shape[-1] + 1, device=estimates.device, dtype=estimates.dtype)
    excess = (ordered.cumsum(-1) - 1) / ranks
    support = (ordered > excess).sum(-1, keepdim=True)
    return (estimates - excess.gather(-1, support - 1)).clamp(min=0)


@dataclass(frozen=True, kw_only=True, eq=False)
class ChannelRows:
    """Label channels of several draws, as tensors that broadcast against shares with one row per draw.

    Attributes:
        gain: gain of each channel.
        other: probability of each value that is not the true one, for each channel.
        set_size: number of classes that a report names, for each channel: the sum of its rows.
    """

    gain: Tensor
    other: Tensor
    set_size: Tensor

    @classmethod
    def of(cls, channels: Sequence[SymmetricChannel], device: torch.device, *, dims: int) -> ChannelRows:
        """Stack channels along the first of `dims` dimensions.

        >>> from veilgraph.privacy.mechanisms import GRR
        >>> ChannelRows.of([GRR(2, 1.0).channel] * 3, torch.device("cpu"), dims=2).gain.shape
        torch.Size([3, 1])
        """
        numbers = torch.tensor([[float(each.gain), float(each.other), float(each.row_sum)] for each in channels])
        gain, other, set_size = numbers.to(device).view(-1, 3, *[1] * (dims - 1)).unbind(1)
        return cls(gain=gain, other=other, set_size=set_size)

    def at(self, rows: Tensor) -> ChannelRows:
        """Select rows, in the order given."""
        return ChannelRows(gain=self.gain[rows], other=self.other[rows], set_size=self.set_size[rows])


@dataclass(frozen=True, kw_only=True, eq=False)
class ReconstructedLabels:
    """y~: estimated class distribution among the labelled nodes of each node's K-hop neighbourhood.

    Attributes:
        distribution: `[nodes, classes]`, unbiased estimates; rows sum to 1 and are not projected.
        in_reach: `[nodes]`, whether a labelled node is within K hops. Otherwise the distribution is the one of all
            reports.
    """

    distribution: Tensor
    in_reach: Tensor
    _measure_errors: Callable[[], Tensor] = field(repr=False)

    @cached_property
    def standard_errors(self) -> Tensor:
        """Standard errors `[nodes, classes]` for neighbourhoods drawn from a population; computed on first access."""
        return self._measure_errors()


def reconstruct_labels(
    perturbed: PerturbedGraph, hops: int, *, mean: NeighbourhoodMean, estimate: bool = True
) -> ReconstructedLabels:
    """Reconstruct labels by Algorithm 2: propagate the reports, then remove the bias of the randomization.

    A report counts for each class that it names: one with GRR, several with label sets.

    Nodes without a label report are rows of zeros. So the propagated row of a node sums to the weight of labelled
    nodes in its neighbourhood, times the size of a set. Dividing by this weight gives the observed shares among them.
    A node without a labelled node within K hops gets the shares of all reports. Isolated nodes keep their report.

    Args:
        perturbed: the graph and its reports; reports of training and validation nodes are both used.
        hops: K_y.
        mean: neighbourhood mean of the graph, on the device to use.
        estimate: remove the bias of the randomization; False keeps the observed distribution, for ablations.
    """
    observed, in_reach = (each.squeeze(1) for each in _observed_shares([perturbed], hops, mean))
    channel = perturbed.label_mechanism.channel
    estimates = estimate_frequencies(observed, channel)

    def measure_errors() -> Tensor:
        labelled = torch.from_numpy(perturbed.has_label).to(mean.device)
        sizes = torch.where(in_reach, mean.effective_sample_size(labelled, hops), float(labelled.sum()))
        errors = population_variance(estimates, channel, sizes.unsqueeze(1)).sqrt()
        return errors if estimate else errors * float(channel.gain / channel.row_sum)

    return ReconstructedLabels(
        distribution=estimates if estimate else observed / float(channel.row_sum),
        in_reach=in_reach,
        _measure_errors=measure_errors,
    )


def decode_label_draws(
    reports: Sequence[PerturbedGraph], hops: int, *, mean: NeighbourhoodMean, estimate: bool = True
) -> Tensor:
    """Return the decoded labels of `reconstruct_labels` for several draws on one graph, `[draws, nodes]`.

    All draws share one sparse product.
    """
    found, _ = _observed_shares(reports, hops, mean)
    if estimate:
        channels = ChannelRows.of([each.label_mechanism.channel for each in reports], found.device, dims=2)
        found = estimate_frequencies(found, channels, in_place=True)
    return found.argmax(dim=2).T


def _observed_shares(reports: Sequence[PerturbedGraph], hops: int, mean: NeighbourhoodMean) -> tuple[Tensor, Tensor]:
    """Return the shares of reports within K hops that name a class, for each draw, and whether there is a report.

    Returns:
        Shares `[nodes, draws, classes]` and a mask `[nodes, draws]`.
    """
    counts = mean.communicator.all_reduce_sum(torch.tensor([np.count_nonzero(each.has_label) for each in reports]))
    if not bool((counts > 0).all()):
        raise ReconstructionError("no labelled nodes: at least one node must report its label")
    observed = named_class_draws(reports, mean.device)
    propagated = mean.propagate(observed.flatten(1), hops).view_as(observed)
    mass = propagated.sum(2, keepdim=True) / set_sizes(reports, mean.device).unsqueeze(1)
    overall = mean.communicator.all_reduce_sum(observed.sum(0)) / counts.to(mean.device).unsqueeze(1)
    shares = torch.where(mass > 0, propagated / mass.clamp(min=torch.finfo(mass.dtype).tiny), overall)
    return shares, mass.squeeze(2) > 0


def set_sizes(reports: Sequence[PerturbedGraph], device: torch.device) -> Tensor:
    """Return the number of classes that a label report names, `[draws]`."""
    return torch.tensor([float(each.label_mechanism.set_size) for each in reports], device=device)


def named_classes(perturbed: PerturbedGraph) -> Tensor:
    """Return 1 for each class that a node's label report names, `[nodes, classes]`; rows are zero without a report."""
    return named_class_draws([perturbed], torch.device("cpu")).squeeze(1)


def named_class_draws(reports: Sequence[PerturbedGraph], device: torch.device) -> Tensor:
    """Return `named_classes` of several draws on one graph, `[nodes, draws, classes]`."""
    if any(each.labels.ndim > 1 for each in reports):  # a report is more than one code
        named = np.stack([each.named_classes() for each in reports], axis=1)
        return torch.from_numpy(named).to(device).to(torch.float32)
    classes = reports[0].schema.num_classes
    # The narrowest type: the transfer to a GPU takes most of the time.
    codes = np.empty((len(reports), reports[0].graph.num_nodes), dtype=np.int8 if classes <= 2**7 else np.int32)
    for row, each in zip(codes, reports, strict=True):
        row[:] = np.where(each.has_label, each.labels, NO_LABEL)
    labels = torch.from_numpy(codes).to(device).T.contiguous()
    return (labels.unsqueeze(2) == torch.arange(classes, device=device, dtype=labels.dtype)).to(torch.float32)
