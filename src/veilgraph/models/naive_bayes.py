"""Naive Bayes of feature reports: their log-likelihood under each class, with rates from reports alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.distributed.communicator import LOCAL, Communicator
from veilgraph.graph import PerturbedGraph
from veilgraph.privacy.mechanisms import FeatureMechanism
from veilgraph.reconstruct.sparse import SparseProduct, csr_from_entries, sparse_product

MAX_PASSES = 20
"""Passes of expectation maximisation between class posteriors and rates."""

_BLOCK = 64
_FAR = 2**62
"""A code beyond all others, where there are no reports."""

_MIN_RATE = 1e-3
_SETTLED = 1e-3
"""Mean change of class probabilities below which expectation maximisation ends."""


def feature_log_likelihood(
    perturbed: PerturbedGraph,
    soft_labels: Tensor,
    *,
    max_passes: int = MAX_PASSES,
    communicator: Communicator = LOCAL,
) -> Tensor:
    r"""Return the log-likelihood of each feature report under each class [nodes, K + 1, classes], with mean 0.

    Features are independent given the class (naive Bayes). Joint GRR keeps all answers S of a report, or replaces
    them by other values that are equally likely. So with a rate :math:`\phi_{jkx}` of value k of feature j in class x

    .. math:: P(x'_v | x) = q + (p - q) \prod_{j \in S} \phi_{j x'_{vj} x}

    Other mechanisms randomize features separately: p = 1 and q = 0, and the rates are the rates of the reports.

    The rates are fitted by expectation maximisation. A report counts for a class with the probability that the person
    has it, given the labels, the graph and the features, and that its answers were kept. Rates are drawn towards the
    overall rates by James-Stein shrinkage: a feature that does not differ between classes contributes nothing.

    Processes that share a graph add up the counts of all reports.

    Args:
        perturbed: The feature reports.
        soft_labels: Class probabilities without features, [nodes, K + 1, classes].
        max_passes: Most passes of expectation maximisation; with 1, rates come from `soft_labels`.
        communicator: Collective operations over the processes that share the graph.
    """
    posterior, kept = soft_labels, torch.ones_like(soft_labels)
    for _ in range(max_passes):
        evidence = torch.zeros_like(soft_labels)
        for answers in Answers.blocks(perturbed, soft_labels.device, communicator):
            found, kept = answers.log_likelihood(answers.shrunk_rates(posterior * kept))
            evidence += found
        before, posterior = posterior, (soft_labels.log() + evidence).softmax(dim=2)
        if _mean((posterior - before).abs(), communicator) < _SETTLED:
            break
    return evidence


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """Answers in the feature reports: the values of the features are columns of one matrix.

    Attributes:
        indicator: 1 where a report has a value, [nodes, values]; sparse if reports leave most features out.
        transposed: The transpose of the indicator.
        feature: Feature of each value, [values].
        reporting: Nodes with a feature report, [nodes].
        log_kept: ln(p - q) of joint GRR [nodes, 1, 1]; 0 for other mechanisms.
        log_other: ln q of joint GRR [nodes, 1, 1]; minus infinity for other mechanisms.
        communicator: Collective operations over the processes that share the graph.
    """

    indicator: Tensor
    transposed: Tensor
    feature: Tensor
    reporting: Tensor
    log_kept: Tensor
    log_other: Tensor
    communicator: Communicator = LOCAL

    @classmethod
    def blocks(
        cls, perturbed: PerturbedGraph, device: torch.device | str = "cpu", communicator: Communicator = LOCAL
    ) -> Iterator[Answers]:
        """Yield the answers about blocks of features; where each report has few answers, there is one block."""
        if (mechanism := _showing_sampled(perturbed)) is not None:
            yield cls._sparse(perturbed, mechanism, torch.device(device), communicator)
            return
        for start in range(0, perturbed.features.shape[1], _BLOCK):
            yield cls._dense(perturbed, slice(start, start + _BLOCK), torch.device(device), communicator)

    @classmethod
    def _sparse(
        cls, perturbed: PerturbedGraph, mechanism: FeatureMechanism, device: torch.device, communicator: Communicator
    ) -> Answers:
        reports = perturbed.features
        nodes, features = np.nonzero(_answered(perturbed, mechanism))
        codes = reports[nodes, features].astype(np.int64)
        lowest, sizes = _value_ranges(codes, features, reports.shape[1], device, communicator)
        column = torch.from_numpy((np.cumsum(sizes) - sizes - lowest)[features] + codes).to(device)
        shape = len(reports), int(sizes.sum())
        entries = csr_from_entries(torch.from_numpy(nodes).to(device), column, torch.ones(len(nodes)).to(device), shape)
        product = SparseProduct.of(entries)
        gain, other = mechanism.response_channels(nodes, features, len(reports))
        with np.errstate(divide="ignore"):  # ln 0 is minus infinity
            log_kept, log_other = (
                torch.from_numpy(np.log(each)).to(device, torch.float32).view(-1, 1, 1) for each in (gain, other)
            )
        return cls(
            indicator=product.matrix,
            transposed=product.transposed,
            feature=torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes)).to(device),
            reporting=torch.from_numpy(perturbed.has_features).to(device),
            log_kept=log_kept,
            log_other=log_other,
            communicator=communicator,
        )

    @classmethod
    def _dense(
        cls, perturbed: PerturbedGraph, part: slice, device: torch.device, communicator: Communicator
    ) -> Answers:
        reports, has_features = perturbed.features[:, part].astype(np.int64), perturbed.has_features
        lowest, sizes = _ranges_of_extremes(
            reports.min(axis=0, initial=_FAR, where=has_features[:, None]),
            reports.max(axis=0, initial=-_FAR, where=has_features[:, None]),
            device,
            communicator,
        )
        feature = np.repeat(np.arange(reports.shape[1]), sizes)
        value = np.concatenate([np.arange(low, low + size) for low, size in zip(lowest, sizes, strict=True)])
        indicator = torch.from_numpy((reports[:, feature] == value) & has_features[:, None]).to(device).float()
        return cls(
            indicator=indicator,
            transposed=indicator.T,
            feature=torch.from_numpy(feature).to(device),
            reporting=torch.from_numpy(has_features).to(device),
            log_kept=torch.zeros(1, device=device),
            log_other=torch.full((1,), -math.inf, device=device),
            communicator=communicator,
        )

    def shrunk_rates(self, weights: Tensor) -> Tensor:
        r"""Return the rates of all values in each class, [values, K + 1, classes].

        A feature's rates have a distance from its overall rates that noise explains in part. James-Stein shrinkage
        keeps the share :math:`\max(0, 1 - f / \chi^2)` of it, with f the degrees of freedom. The chi-squared of each
        feature is averaged with the mean over the features of the block: few features differ alone.

        Args:
            weights: Weights of the reports in each training set and class, [nodes, K + 1, classes].
        """
        shape = (-1, *weights.shape[1:])
        counts, squares = (
            self.communicator.all_reduce_sum(_product(self.transposed, each.flatten(1))).view(shape)
            for each in (weights, weights.square())
        )
        totals, total_squares = (self._sum_values(each)[self.feature] for each in (counts, squares))
        rates = counts / totals.clamp(min=1e-9)
        overall = counts.sum(2, keepdim=True) / totals.sum(2, keepdim=True).clamp(min=1e-9)
        noise = (overall * (1 - overall)).clamp(min=_MIN_RATE) * total_squares / totals.clamp(min=1e-9).square()
        distance = rates - overall
        chi = self._sum_values((distance.square() / noise.clamp(min=1e-12)).sum(2))
        values = torch.bincount(self.feature)
        # Values of one feature sum to 1, so with two values chi-squared counts each deviation about twice.
        freedom = (values * (weights.shape[2] - 1)).unsqueeze(1)
        chi = (chi + freedom * chi.sum(0) / freedom.sum()) / 2
        factor = (1 - freedom / chi.clamp(min=1e-9)).clamp(min=0)[self.feature]
        return (overall + factor.unsqueeze(2) * distance).clamp(min=_MIN_RATE)

    def log_likelihood(self, rates: Tensor) -> tuple[Tensor, Tensor]:
        """Return log-likelihoods with mean 0, and the probability that answers were kept, [nodes, K + 1, classes]."""
        kept = _product(self.indicator, rates.log().flatten(1)).view(-1, *rates.shape[1:]) + self.log_kept
        evidence = torch.logaddexp(kept, self.log_other)
        share = (kept - evidence).exp()
        evidence = evidence * self.reporting.view(-1, 1, 1)
        return evidence - evidence.mean(dim=2, keepdim=True), share

    def _sum_values(self, columns: Tensor) -> Tensor:
        """Sum columns [values, ...] over the values of each feature, [features, ...]."""
        features = int(self.feature[-1]) + 1
        return columns.new_zeros(features, *columns.shape[1:]).index_add_(0, self.feature, columns)


def num_sparse_answers(perturbed: PerturbedGraph) -> int:
    """Return the number of answers that are kept in memory at once: all, where reports leave most features out."""
    mechanism = _showing_sampled(perturbed)
    return 0 if mechanism is None else int(np.count_nonzero(_answered(perturbed, mechanism)))


def _showing_sampled(perturbed: PerturbedGraph) -> FeatureMechanism | None:
    """Return the mechanism of the features if its reports show which features they answer."""
    mechanism = perturbed.feature_mechanism
    return mechanism if mechanism is not None and mechanism.shows_sampled else None


def _answered(perturbed: PerturbedGraph, mechanism: FeatureMechanism) -> NDArray[np.bool_]:
    """Return which features each report has an answer about, [nodes, features]."""
    return mechanism.answered(perturbed.features) & perturbed.has_features[:, None]


def _product(matrix: Tensor, columns: Tensor) -> Tensor:
    return sparse_product(matrix, columns) if matrix.layout == torch.sparse_csr else matrix @ columns


def _mean(numbers: Tensor, communicator: Communicator) -> float:
    """Return the mean of all numbers of all processes."""
    if communicator.is_local:
        return float(numbers.mean())
    count = torch.tensor(float(numbers.numel()), dtype=torch.float64, device=numbers.device)
    total, count = communicator.all_reduce_sum(torch.stack([numbers.sum(dtype=torch.float64), count]))
    return float(total / count)


def _value_ranges(
    codes: NDArray[np.int64],
    features: NDArray[np.int64],
    num_features: int,
    device: torch.device,
    communicator: Communicator,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the lowest reported code of each feature, and the number of codes up to the highest; at least one."""
    lowest, highest = np.full(num_features, _FAR), np.full(num_features, -_FAR)
    np.minimum.at(lowest, features, codes)
    np.maximum.at(highest, features, codes)
    return _ranges_of_extremes(lowest, highest, device, communicator)


def _ranges_of_extremes(
    lowest: NDArray[np.int64], highest: NDArray[np.int64], device: torch.device, communicator: Communicator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the lowest code of each feature in all processes, and the number of codes up to the highest."""
    extremes = communicator.maximum(torch.from_numpy(np.stack([-lowest, highest])).to(device)).cpu().numpy()
    lowest, highest = -extremes[0], extremes[1]
    known = lowest <= highest
    return np.where(known, lowest, 0), np.where(known, highest - lowest, 0) + 1
