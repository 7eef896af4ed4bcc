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
EPOCHS, CHECK = 120, 5
_RATE, _LAST_RATE = 0.03, 1e-4
_RIDGE, _AFFINITY_RIDGE = 1e-3, 1e-2
_TINY = 1e-9
BLOCK = 8_192
"""Vectors in one product: its hidden units stay in the cache of a core."""


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
    """Inputs of the networks. Nodes are the last dimension, so that products and sums over classes are fast.

    A vector has the columns of one node and one class. Answers that name classes have few different vectors, and a
    network reads each of them once.

    Attributes:
        vectors: different vectors, [columns, vectors].
        places: vector of each class and node, [classes, nodes].
        shares: shares of all classes in each wave, [shares, nodes].
    """

    vectors: Tensor
    places: Tensor
    shares: Tensor

    @classmethod
    def of_columns(cls, columns: NDArray[np.float32], shares: NDArray[np.float32]) -> Inputs:
        """Return the inputs of nodes with columns [nodes, classes, columns] and shares [nodes, shares]."""
        nodes, classes, width = columns.shape
        of_bytes = np.ascontiguousarray(columns).view(np.dtype((np.void, columns.itemsize * width)))
        different, places = np.unique(of_bytes.ravel(), return_inverse=True)  # ten times as fast as with an axis
        return cls(
            vectors=torch.from_numpy(different.view(columns.dtype).reshape(-1, width)).T.contiguous(),
            places=torch.from_numpy(places.reshape(nodes, classes)).T.contiguous(),
            shares=torch.from_numpy(shares).T.contiguous(),
        )

    def of(self, nodes: Tensor) -> Inputs:
        """Return the inputs of some nodes."""
        used, places = torch.unique(self.places[:, nodes], return_inverse=True)
        return Inputs(vectors=self.vectors[:, used], places=places, shares=self.shares[:, nodes])


def logits(weights: Weights, inputs: Inputs) -> Tensor:
    r"""Return class logits of every network, [K, classes, nodes].

    .. math:: z_x = g(\text{columns}_x) + (A\, \text{shares})_x + b_x

    One small network g reads the columns of every class, so that it learns from all classes at once what an answer is
    worth. The affinity A says which classes the neighbours of a class have, where it is not their own. One product
    makes the hidden units of all networks.
    """
    of_vectors = torch.cat([_of_vectors(weights, block) for block in torch.split(inputs.vectors, BLOCK, dim=1)], dim=1)
    own = of_vectors.index_select(1, inputs.places.view(-1)).view(-1, *inputs.places.shape)
    return own + weights.affinity.mT @ inputs.shares + weights.bias.mT


def _of_vectors(weights: Weights, vectors: Tensor) -> Tensor:
    """Return g of vectors [columns, vectors] for every network, [K, vectors]."""
    hidden = torch.addmm(weights.hidden_bias.view(-1, 1), weights.hidden.mT.flatten(0, 1), vectors)
    activated = torch.nn.functional.silu(hidden).view(len(weights.hidden), HIDDEN, -1)
    return (weights.output.mT @ activated).squeeze(1) + weights.linear.squeeze(2) @ vectors


def train(
    inputs: Inputs, likelihood: Tensor, folds: Tensor, prior: Tensor, *, num_folds: int, seed: int
) -> tuple[Weights, Tensor]:
    """Train network k without the reports of fold k, and stop all networks where out-of-fold reports fit best.

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
    width, shares, classes = len(inputs.vectors), len(inputs.shares), len(prior)
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
    kept, chance = ~held_out, likelihood.T.contiguous()
    least, best, found = math.inf, weights, torch.zeros_like(likelihood)
    for epoch in range(1, EPOCHS + 1):
        optimizer.param_groups[0]["lr"] = _RATE * 0.5 * (1 + math.cos(math.pi * epoch / EPOCHS)) + _LAST_RATE
        scores = logits(weights, inputs)
        losses = -((scores.softmax(dim=1) * chance).sum(dim=1) + _TINY).log()
        if epoch % CHECK == 0 and (loss := float(losses.detach()[held_out].mean())) < least:
            least, best = loss, Weights(*(each.detach().clone() for each in weights))
            found = scores.detach()[folds, :, torch.arange(len(folds))]
        ridge = sum(each.square().sum() for each in (weights.hidden, weights.output, weights.linear))
        penalty = _RIDGE * ridge + _AFFINITY_RIDGE * weights.affinity.square().sum()
        total = ((losses * kept).sum(dim=1) / kept.sum(dim=1)).sum() + penalty
        for each, gradient in zip(weights, torch.autograd.grad(total, list(weights)), strict=True):
            each.grad = gradient
        optimizer.step()
    return best, found


def standardise(
    columns: NDArray[np.float32], nodes: NDArray[np.bool_], axes: tuple[int, ...]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the mean and the standard deviation of columns over some nodes and the other leading axes."""
    chosen = columns[nodes]
    return chosen.mean(axis=axes), chosen.std(axis=axes) + np.float32(1e-6)
