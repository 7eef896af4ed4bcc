"""Small networks that treat all classes alike, one for each fold of the reports."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

HIDDEN = 16
_EPOCHS, _CHECK = 120, 5
_RATE, _LAST_RATE = 0.03, 1e-4
_RIDGE, _AFFINITY_RIDGE = 1e-3, 1e-2
_TINY = 1e-9


class Weights(NamedTuple):
    """Weights of K networks; the first dimension of each is K."""

    hidden: Tensor
    hidden_bias: Tensor
    output: Tensor
    linear: Tensor
    affinity: Tensor
    bias: Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class Inputs:
    """Inputs of the networks.

    Attributes:
        columns: columns of each class, [nodes, classes, columns].
        shares: shares of all classes in each wave, [nodes, shares].
    """

    columns: Tensor
    shares: Tensor

    def of(self, nodes: Tensor) -> Inputs:
        """Return the inputs of some nodes."""
        return Inputs(columns=self.columns[nodes], shares=self.shares[nodes])


def logits(weights: Weights, inputs: Inputs) -> Tensor:
    r"""Return class logits of every network, [K, nodes, classes].

    .. math:: z_x = g(\text{columns}_x) + (A\, \text{shares})_x + b_x

    One small network g reads the columns of every class, so that it learns from all classes at once what an answer is
    worth. The affinity A says which classes the neighbours of a class have, where it is not their own.
    """
    nodes, classes, width = inputs.columns.shape
    rows = inputs.columns.reshape(1, nodes * classes, width)
    hidden = torch.nn.functional.silu(rows @ weights.hidden + weights.hidden_bias)
    own = (hidden @ weights.output + rows @ weights.linear).view(-1, nodes, classes)
    return own + inputs.shares @ weights.affinity + weights.bias


def train(
    inputs: Inputs, likelihood: Tensor, folds: Tensor, prior: Tensor, *, num_folds: int, seed: int
) -> tuple[Weights, Tensor]:
    """Train network k on all reports but those of fold k, and stop all of them where out-of-fold reports fit best.

    The loss is the negative log-likelihood of the randomized reports (forward correction), with a ridge penalty.

    Args:
        inputs: inputs of the reporting nodes.
        likelihood: probability of each report given each class, up to a factor, [reports, classes].
        folds: fold of each report, [reports].
        prior: shares of the classes, [classes]; logits start there.
        num_folds: K.
        seed: seed of the initial weights.

    Returns:
        The weights, and the logits of the reports from the network of their own fold, [reports, classes].
    """
    generator = torch.Generator().manual_seed(seed)
    width, shares, classes = inputs.columns.shape[2], inputs.shares.shape[1], len(prior)
    weights = Weights(
        hidden=torch.randn(num_folds, width, HIDDEN, generator=generator) / math.sqrt(width),
        hidden_bias=torch.zeros(num_folds, 1, HIDDEN),
        output=torch.zeros(num_folds, HIDDEN, 1),
        linear=torch.zeros(num_folds, width, 1),
        affinity=torch.zeros(num_folds, shares, classes),
        bias=prior.log().expand(num_folds, 1, classes).clone(),
    )
    for each in weights:
        each.requires_grad_()
    optimizer = torch.optim.Adam(list(weights), lr=_RATE)
    held_out = folds == torch.arange(num_folds).unsqueeze(1)
    least, best, found = math.inf, weights, torch.zeros_like(likelihood)
    for epoch in range(1, _EPOCHS + 1):
        optimizer.param_groups[0]["lr"] = _RATE * 0.5 * (1 + math.cos(math.pi * epoch / _EPOCHS)) + _LAST_RATE
        scores = logits(weights, inputs)
        losses = -((scores.softmax(dim=2) * likelihood).sum(dim=2) + _TINY).log()
        if epoch % _CHECK == 0 and (loss := float(losses.detach()[held_out].mean())) < least:
            least, best = loss, Weights(*(each.detach().clone() for each in weights))
            own = scores.detach().masked_select(held_out.unsqueeze(2)).view(-1, classes)
            found = _in_order(own, held_out)
        ridge = sum(each.square().sum() for each in (weights.hidden, weights.output, weights.linear))
        penalty = _RIDGE * ridge + _AFFINITY_RIDGE * weights.affinity.square().sum()
        kept = ~held_out
        total = ((losses * kept).sum(dim=1) / kept.sum(dim=1)).sum() + penalty
        for each, gradient in zip(weights, torch.autograd.grad(total, list(weights)), strict=True):
            each.grad = gradient
        optimizer.step()
    return best, found


def _in_order(own: Tensor, held_out: Tensor) -> Tensor:
    """Return rows that are sorted by fold in the order of the reports."""
    order = held_out.nonzero()[:, 1]
    result = torch.empty_like(own)
    result[order] = own
    return result


def standardise(
    columns: NDArray[np.float32], nodes: NDArray[np.bool_], axes: tuple[int, ...]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the mean and the standard deviation of columns over some nodes and the other leading axes."""
    chosen = columns[nodes]
    return chosen.mean(axis=axes), chosen.std(axis=axes) + np.float32(1e-6)
