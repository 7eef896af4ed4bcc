"""Randomized labels in several versions, each without the reports of some nodes: what was not used can judge."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.graph import PerturbedGraph
from veilgraph.privacy.frequency import estimate_frequencies
from veilgraph.reconstruct.simplex import project_to_simplex

_FOLDS, _FOLDS_OF_LARGE_GRAPHS = 5, 3
_LARGE = 2**22
_PSEUDO_REPORTS = 100.0


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldOutLabels:
    """The label reports of a graph, whole and with one fold after the other left out.

    Version v < F has no report of fold v; the last version has all. Whatever is computed from version v about the
    nodes of fold v is out of fold: their own reports had no part in it.

    Attributes:
        perturbed: the graph and its reports.
        folds: for each node the fold of its label report, -1 where there is none.
    """

    perturbed: PerturbedGraph
    folds: Tensor

    @classmethod
    def of(cls, perturbed: PerturbedGraph, *, seed: int, device: torch.device | str = "cpu") -> HeldOutLabels:
        """Random folds of equal size: five, or three where the graph is large."""
        folds = torch.from_numpy(_draw_folds(perturbed.has_label, cls.most_folds(perturbed), seed))
        return cls(perturbed=perturbed, folds=folds.to(device))

    @staticmethod
    def most_folds(perturbed: PerturbedGraph) -> int:
        """How many there are where enough nodes report."""
        entries = 2 * perturbed.graph.num_edges * perturbed.schema.num_classes * (_FOLDS + 1)
        return _FOLDS if entries <= _LARGE else _FOLDS_OF_LARGE_GRAPHS

    @property
    def device(self) -> torch.device:
        """Where everything is computed."""
        return self.folds.device

    @cached_property
    def num_folds(self) -> int:
        """The number of folds, F."""
        return int(self.folds.max()) + 1

    @cached_property
    def nodes(self) -> Tensor:
        """The nodes that reported a label."""
        return (self.folds >= 0).nonzero().squeeze(1)

    @cached_property
    def reports(self) -> Tensor:
        """y' of `nodes`."""
        return torch.from_numpy(self.perturbed.labels).to(self.device)[self.nodes]

    @cached_property
    def versions(self) -> Tensor:
        """One-hot reports [n, F + 1, c], zero where a version leaves a report out."""
        kept = self.folds.unsqueeze(1) != torch.arange(self.num_folds + 1, device=self.device)
        kept &= (self.folds >= 0).unsqueeze(1)
        classes = torch.arange(self.num_classes, device=self.device)
        one_hot = torch.from_numpy(self.perturbed.labels).to(self.device).unsqueeze(1) == classes
        return (one_hot.unsqueeze(1) & kept.unsqueeze(2)).to(torch.float32)

    @property
    def num_classes(self) -> int:
        """The number of classes, c."""
        return self.perturbed.schema.num_classes

    @property
    def keep(self) -> float:
        """The probability p that a report is the true class."""
        return float(self.perturbed.label_mechanism.channel.keep)

    @property
    def other(self) -> float:
        """The probability q of each other class."""
        return float(self.perturbed.label_mechanism.channel.other)

    @cached_property
    def shares(self) -> Tensor:
        """How often each class was reported."""
        return torch.bincount(self.reports, minlength=self.num_classes) / len(self.nodes)

    @cached_property
    def prior(self) -> Tensor:
        r"""Class shares, debiased, and drawn towards equal ones by what the noise leaves of the sample.

        .. math:: \pi \propto n_e \tilde\pi + 100 / c, \qquad n_e = |L| (p - q)^2 / (q (1 - q))

        n_e is how many clean labels would tell the shares apart equally well.
        """
        channel = self.perturbed.label_mechanism.channel
        deviation = self.shares - 1 / self.num_classes
        chance = float((self.shares * (1 - self.shares)).sum()) / len(self.nodes)
        kept = max(0.0, 1 - chance / max(float(deviation.square().sum()), 1e-12))
        estimate = project_to_simplex(estimate_frequencies(1 / self.num_classes + kept * deviation, channel))
        noise = max(self.other * (1 - self.other), 0.01)
        size = len(self.nodes) * float(channel.gain) ** 2 / noise
        return (size * estimate + _PSEUDO_REPORTS / self.num_classes) / (size + _PSEUDO_REPORTS)

    @cached_property
    def evidence(self) -> Tensor:
        """What a node's own report says of its class: ln P(y' | class) in every version, 0 where it is left out."""
        return self.versions * _log_ratio(self.keep, self.other)

    def thinned(self, most: int) -> HeldOutLabels:
        """At most so many reporting nodes, evenly spread; for judging, not for computing versions."""
        thin = HeldOutLabels(perturbed=self.perturbed, folds=self.folds)
        thin.__dict__["nodes"] = self.nodes[:: -(-len(self.nodes) // most)]
        return thin

    def out_of_fold(self, values: Tensor) -> Tensor:
        """Of values [n, F + 1, ...], what each reporting node gets from the version without its report."""
        return values[self.nodes, self.folds[self.nodes]]

    def log_likelihood(self, log_probabilities: Tensor) -> Tensor:
        """Ln [p P]_{y'} of each reporting node, for class distributions [..., |L|, c]."""
        index = self.reports.unsqueeze(1).expand(*log_probabilities.shape[:-1], 1)
        return torch.log(self.other + (self.keep - self.other) * log_probabilities.gather(-1, index).squeeze(-1).exp())


def _log_ratio(keep: float, other: float) -> float:
    """Ln(p / q), bounded where reports are not randomized: a float holds no infinite evidence."""
    return min(math.log(keep) - math.log(max(other, 1e-30)), 30.0)


def _draw_folds(has_label: NDArray[np.bool_], count: int, seed: int) -> NDArray[np.int64]:
    nodes = np.random.default_rng(seed).permutation(np.flatnonzero(has_label))
    folds = np.full(len(has_label), -1, dtype=np.int64)
    folds[nodes] = np.arange(len(nodes)) % count
    return folds
