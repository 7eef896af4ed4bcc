"""Label reports of a graph, as every estimate of Veil reads them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from veilgraph.distributed.communicator import Communicator
from veilgraph.graph import PerturbedGraph
from veilgraph.models.veil.contamination import Contamination
from veilgraph.models.veil.degree_columns import degree_columns
from veilgraph.privacy.frequency import estimate_frequencies
from veilgraph.reconstruct.labels import project_to_simplex
from veilgraph.reconstruct.operators import GraphOperators, operators_of

_PSEUDO_REPORTS = 100.0


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelReports:
    """Label reports of some nodes, on one device.

    Attributes:
        perturbed: The graph and its reports.
        nodes: Indices of the nodes whose reports are read, [reports].
        contamination: Reports that were not randomized; None if all were.
    """

    perturbed: PerturbedGraph
    nodes: Tensor
    contamination: Contamination | None = None

    @property
    def device(self) -> torch.device:
        """Device of all tensors."""
        return self.nodes.device

    @property
    def operators(self) -> GraphOperators:
        """Matrices of the graph, or of the part of it that this process holds."""
        return operators_of(self.perturbed.graph, self.device)

    @property
    def communicator(self) -> Communicator:
        """Collective operations over the processes that share the graph."""
        return self.operators.communicator

    @cached_property
    def num_reports(self) -> int:
        """Number of label reports of all processes."""
        return int(self.communicator.all_reduce_sum(torch.tensor(len(self.nodes), device=self.device)))

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return self.perturbed.schema.num_classes

    @property
    def set_size(self) -> int:
        """Number of classes that a report names, w."""
        return self.perturbed.label_mechanism.set_size

    @property
    def keep(self) -> float:
        """Probability p that a report names the true class."""
        return float(self.perturbed.label_mechanism.channel.keep)

    @property
    def other(self) -> float:
        """Probability q that a report names a given other class."""
        return float(self.perturbed.label_mechanism.channel.other)

    @cached_property
    def named(self) -> Tensor:
        """Whether a node's report names a class, [nodes, classes]; no class without a report."""
        return torch.from_numpy(self.perturbed.named_classes()).to(self.device)

    @cached_property
    def reported_classes(self) -> Tensor:
        """Classes y' that each report names, as codes in ascending order, [reports, w]."""
        return self.named[self.nodes].nonzero()[:, 1].view(-1, self.set_size)

    @property
    def degrees(self) -> Tensor:
        """Degree of each node, [nodes]."""
        return torch.from_numpy(self.perturbed.graph.degrees).to(self.device)

    @cached_property
    def degree_columns(self) -> Tensor:
        """Columns of the bias of each node, [nodes, 3]."""
        return degree_columns(self.operators)

    @cached_property
    def report_shares(self) -> Tensor:
        """Share of the randomized reports that name each class [classes]; the shares sum to w."""
        counts = torch.bincount(self.reported_classes.flatten(), minlength=self.num_classes)
        shares = self.communicator.all_reduce_sum(counts) / self.num_reports
        return shares if self.contamination is None else self.contamination.honest_shares(shares)

    @cached_property
    def prior(self) -> Tensor:
        r"""Class prior [classes]: the debiased shares, shrunk towards equal shares.

        .. math:: \pi \propto n_e \tilde\pi + 100 / c, \qquad n_e = |L| (p - q)^2 / (q (1 - q))

        n_e is the effective sample size: the number of true labels that would estimate the shares equally well.
        """
        channel = self.perturbed.label_mechanism.channel
        mean = self.set_size / self.num_classes
        deviation = self.report_shares - mean
        chance = float((self.report_shares * (1 - self.report_shares)).sum()) / self.num_reports
        kept = max(0.0, 1 - chance / max(float(deviation.square().sum()), 1e-12))
        estimate = project_to_simplex(estimate_frequencies(mean + kept * deviation, channel))
        noise = max(self.other * (1 - self.other), 0.01)
        size = self.num_reports * float(channel.gain) ** 2 / noise
        return (size * estimate + _PSEUDO_REPORTS / self.num_classes) / (size + _PSEUDO_REPORTS)
