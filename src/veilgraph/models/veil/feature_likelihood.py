"""What feature reports say of classes: report rates of each class, learned from soft labels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from veilgraph.graph import PerturbedGraph

_BLOCK = 64
_RAREST = 1e-4


def report_evidence(perturbed: PerturbedGraph, soft_labels: Tensor) -> Tensor:
    r"""Log-likelihood of each node's feature report under each class, for every version of soft labels [n, V, c].

    .. math:: e_v(x) = \sum_j \ln \theta_{j x'_{vj} x}

    theta is how often people of class x report a value of feature j, by soft counts. Nothing is assumed of the
    mechanism: its noise is part of the rates. A rate is drawn towards that of all people by how much of the
    differences between classes noise would explain, so a feature that says nothing adds nothing.
    """
    nodes, versions, classes = soft_labels.shape
    device = soft_labels.device
    reporting = torch.from_numpy(perturbed.has_features).to(device)
    weights = (soft_labels * reporting.view(-1, 1, 1)).reshape(nodes, -1)
    totals, squares = weights.sum(0), weights.square().sum(0)
    evidence = torch.zeros_like(weights)
    for columns, feature in _indicators(perturbed, device):
        rates = columns.T @ weights / totals.clamp(min=1)
        overall = columns[reporting].mean(0).unsqueeze(1)
        noise = (overall * (1 - overall)).clamp(min=_RAREST) * (squares / totals.clamp(min=1).square())
        shrunk = overall + _shrinkage(rates - overall, noise, feature, (versions, classes)) * (rates - overall)
        evidence += columns @ shrunk.clamp(min=_RAREST).log()
    evidence = (evidence * reporting.unsqueeze(1)).reshape(nodes, versions, classes)
    return evidence - evidence.mean(dim=2, keepdim=True)


def _shrinkage(differences: Tensor, noise: Tensor, feature: Tensor, shape: tuple[int, int]) -> Tensor:
    """1 - (degrees of freedom) / chi-squared, at least 0: the James-Stein factor of each feature and version."""
    versions, classes = shape
    chi = (differences.square() / noise).reshape(-1, versions, classes).sum(2)
    count = int(feature.max()) + 1
    total = chi.new_zeros(count, versions).index_add_(0, feature, chi)
    freedom = torch.bincount(feature, minlength=count).sub(1).clamp(min=1) * (classes - 1)
    # Columns of one feature sum to 1, so chi-squared counts each deviation about twice over for two values.
    scale = torch.bincount(feature, minlength=count) / torch.bincount(feature, minlength=count).sub(1).clamp(min=1)
    factor = (1 - (freedom * scale).unsqueeze(1) / total.clamp(min=_RAREST)).clamp(min=0)
    return factor[feature].repeat_interleave(classes, dim=1)


def _indicators(perturbed: PerturbedGraph, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
    """One column for each reported value of each feature, and the number of its feature within the block."""
    reports = np.where(
        perturbed.has_features[:, None], perturbed.features, perturbed.features[perturbed.has_features][:1]
    )
    for start in range(0, reports.shape[1], _BLOCK):
        block = reports[:, start : start + _BLOCK].astype(np.int64)
        values = [np.arange(low, high + 1) for low, high in zip(block.min(0), block.max(0), strict=True)]
        columns = np.concatenate([block[:, i : i + 1] == v for i, v in enumerate(values)], axis=1)
        columns &= perturbed.has_features[:, None]
        feature = np.repeat(np.arange(len(values)), [len(v) for v in values])
        yield torch.from_numpy(columns).to(device).float(), torch.from_numpy(feature).to(device)
