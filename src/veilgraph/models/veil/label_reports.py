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
from veilgraph.reconstruct.operators import GraphOperators, operators_of

_PSEUDO_PEOPLE, _STEPS, _TINY = 10.0, 500, 1e-300

_UNEQUAL = 2.0
"""Ratio of the largest class to the smallest, as expected, from which on sizes tell classes apart."""


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
        shares = self.communicator.all_reduce_sum(counts) / max(1, self.num_reports)
        return shares if self.contamination is None else self.contamination.honest_shares(shares)

    @cached_property
    def prior(self) -> Tensor:
        r"""Class prior [classes]: the most likely shares, nearer to equal ones where noise explains the difference.

        .. math:: \pi = \frac1c + \sqrt{k} \left( \hat\pi - \frac1c \right), \qquad
            k = 1 - \frac{\text{variance of noise}}{\text{variance of the shares of reports}}
        """
        return self._towards_equal(self._kept_variance**0.5)

    @property
    def sizes_are_alike(self) -> bool:
        """Whether no class seems twice as large as another, beyond what noise explains."""
        expected = self._towards_equal(self._kept_variance)
        return float(expected.max()) < _UNEQUAL * float(expected.min())

    def _towards_equal(self, kept: float) -> Tensor:
        return torch.lerp(torch.full_like(self.likely_shares, 1 / self.num_classes), self.likely_shares, kept)

    @cached_property
    def _kept_variance(self) -> float:
        """Share k of the variance of report shares that noise does not explain (James and Stein 1961)."""
        variance = float((self.report_shares - self.set_size / self.num_classes).square().sum())
        noise = float((self.report_shares * (1 - self.report_shares)).sum()) / max(1, self.num_reports)
        return max(0.0, 1 - noise / max(variance, 1e-12))

    @cached_property
    def likely_shares(self) -> Tensor:
        r"""The most likely class shares [classes], after ten people are added who are spread evenly.

        .. math:: \max_\pi \sum_x \lambda |L| f'_x \ln (q + (p - q) \pi_x) + \frac{10}{c} \ln \pi_x,
            \qquad \lambda = \frac{c - 1}{c - w}

        f' are the shares of reports that name each class. With one class in a report this is its likelihood; with w it
        has as much information about shares that are nearly equal. Estimates without bias are often below 0 where
        reports are weak. The most likely shares are not, and are nearer to the true ones.
        """
        classes = self.num_classes
        weighted = self.report_shares.double() * (self.num_reports * (classes - 1) / (classes - self.set_size))
        table = torch.eye(classes).to(weighted) * (self.keep - self.other) + self.other
        shares = torch.full_like(weighted, 1 / classes)
        for _ in range(_STEPS):
            found = shares * (table @ (weighted / (table @ shares).clamp(min=_TINY)))
            shares = (found + _PSEUDO_PEOPLE / classes) / (found.sum() + _PSEUDO_PEOPLE)
        return shares.float()
