"""What training minimises, and the score that selection may see, for all replicas at once.

Logits, probabilities and targets are [replicas, classes, nodes]; a loss is one number for each replica.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.graph import PerturbedGraph
from veilgraph.reconstruct.peers import ALONE, Alone
from veilgraph.reconstruct.propagation import SparseProduct, sparse_csr
from veilgraph.reconstruct.proportions import Bags

_FLOOR = 1e-6


def weighted_targets(labels: Tensor, nodes: Tensor, num_classes: int, peers: Alone = ALONE) -> Tensor:
    """[classes, nodes] with 1/|nodes| at the label of each marked node: a product with it is a mean over them.

    >>> weighted_targets(torch.tensor([1, 0, 1]), torch.tensor([True, False, True]), 2)
    tensor([[0.0000, 0.0000, 0.0000],
            [0.5000, 0.0000, 0.5000]])
    """
    hits = labels.unsqueeze(0) == torch.arange(num_classes, device=labels.device).unsqueeze(1)
    return (hits & nodes) / peers.total(nodes.sum())


def cross_entropy(log_probabilities: Tensor, targets: Tensor) -> Tensor:
    r"""Mean :math:`-\ln \hat y_{v, \tilde y_v}` over training nodes, weighted as `weighted_targets` says."""
    return -(log_probabilities * targets).sum(dim=(1, 2))


class ProportionLoss:
    r"""Algorithm 3, line 12: the mean over bags of :math:`D_{KL}(\hat b_r \| \tilde b_r)`.

    The predicted proportion is the mean prediction over the labelled members of a bag. Estimated proportions can be
    zero, where the divergence would be infinite, so both are floored at 1e-6 before the logarithm. The bags of all
    replicas are one sparse product.

    Args:
        bags: of each replica.
        peers: who holds the bags' other members.
    """

    def __init__(self, bags: Sequence[Bags], peers: Alone = ALONE) -> None:
        self._peers = peers
        self._membership = SparseProduct.of(_block_diagonal([each.membership for each in bags]))
        self._target = torch.cat([each.proportions for each in bags]).clamp(min=_FLOOR)
        counts = torch.tensor([len(each.sizes) for each in bags])
        replica_of = torch.repeat_interleave(torch.arange(len(bags)), counts)
        bag = torch.arange(len(replica_of))
        mean = sparse_csr(replica_of, bag, 1.0 / counts[replica_of], (len(bags), len(bag)))
        self._mean = SparseProduct.of(mean.to(self._target.device))

    def __call__(self, probabilities: Tensor) -> Tensor:
        """The loss of each replica."""
        rows = probabilities.mT.reshape(-1, probabilities.shape[1])
        predicted = self._peers.total(self._membership(rows)).clamp(min=_FLOOR)
        divergence = (predicted * (predicted / self._target).log()).sum(dim=1, keepdim=True)
        return self._mean(divergence).squeeze(1)


def noisy_log_likelihood(
    reports: Sequence[PerturbedGraph],
    nodes: Sequence[NDArray[np.bool_]],
    device: torch.device,
    peers: Alone = ALONE,
) -> Callable[[Tensor], Tensor]:
    r"""Mean :math:`\ln [\hat y P]_{y'}` over some nodes of each replica, as a function of logits.

    How well predictions explain randomized labels. No clean label enters.

    Args:
        reports: of each replica; P is its label channel.
        nodes: whose labels count, for each replica.
        device: where logits will be.
        peers: who holds the rest of the graph.
    """
    size = max(int(each.sum()) for each in nodes)
    chosen = torch.zeros(len(nodes), size, dtype=torch.int64)
    labels, weights = torch.zeros_like(chosen), torch.zeros(len(nodes), size)
    for row, (each, mask) in enumerate(zip(reports, nodes, strict=True)):
        count = int(mask.sum())
        chosen[row, :count] = torch.from_numpy(np.flatnonzero(mask))
        labels[row, :count] = torch.from_numpy(each.labels[mask])
        weights[row, :count] = 1 / peers.total(torch.tensor(count))
    channels = [each.label_mechanism.channel for each in reports]
    gain, other = (
        torch.tensor([float(value) for value in values], device=device).unsqueeze(1)
        for values in ([channel.gain for channel in channels], [channel.other for channel in channels])
    )
    chosen, labels, weights = chosen.to(device), labels.to(device), weights.to(device)

    def score(logits: Tensor) -> Tensor:
        at_nodes = logits.gather(2, chosen.unsqueeze(1).expand(-1, logits.shape[1], -1))
        chance = at_nodes.softmax(dim=1).gather(1, labels.unsqueeze(1)).squeeze(1) * gain + other
        return peers.total((chance.clamp(min=_FLOOR).log() * weights).sum(dim=1))

    return score


def _block_diagonal(blocks: Sequence[Tensor]) -> Tensor:
    """The sparse matrices along the diagonal of one."""
    entries: list[tuple[Tensor, Tensor, Tensor]] = []
    top = left = 0
    for block in blocks:
        counts = block.crow_indices().cpu().long().diff()
        rows = torch.repeat_interleave(torch.arange(block.shape[0]), counts)
        entries.append((rows + top, block.col_indices().cpu().long() + left, block.values().cpu()))
        top, left = top + block.shape[0], left + block.shape[1]
    rows, columns, values = (torch.cat(parts) for parts in zip(*entries, strict=True))
    return sparse_csr(rows, columns, values, (top, left)).to(blocks[0].device)
