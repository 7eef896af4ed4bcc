"""The split of nodes into training, validation and test nodes."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import GraphError
from veilgraph.graph.counters import counter_words

_SPLIT = 1
"""Stream of the draws of a split."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """A split of the nodes into training, validation and test nodes.

    Training and validation nodes report a randomized label; test nodes report none.

    Attributes:
        train: `[nodes]`, nodes whose reports train a method.
        validation: `[nodes]`, nodes whose reports select among fits.
        test: `[nodes]`, nodes that are only predicted.

    >>> split = Split.random(100, seed=0)
    >>> split
    Split(50 train, 25 validation, 25 test)
    """

    train: NDArray[np.bool_]
    validation: NDArray[np.bool_]
    test: NDArray[np.bool_]

    def __post_init__(self) -> None:
        if not self.train.shape == self.validation.shape == self.test.shape:
            raise GraphError(
                f"split masks differ in shape: {self.train.shape}, {self.validation.shape}, {self.test.shape}"
            )
        if (self.train.astype(int) + self.validation + self.test > 1).any():
            raise GraphError("a node is in two parts of the split")

    @classmethod
    def random(
        cls,
        num_nodes: int,
        *,
        seed: int,
        train: float = 0.5,
        validation: float = 0.25,
        eligible: NDArray[np.bool_] | None = None,
    ) -> Split:
        """Draw a split at random; the default shares are the paper's.

        Args:
            num_nodes: number of nodes.
            seed: seed of the permutation.
            train: share of the training nodes.
            validation: share of the validation nodes.
            eligible: `[nodes]`, nodes that take part; the others are in no part of the split.
        """
        _check_draw(seed, train, validation)
        if eligible is not None and eligible.shape != (num_nodes,):
            raise GraphError(f"eligible has shape {eligible.shape}: {num_nodes} nodes need ({num_nodes},)")
        candidates = np.arange(num_nodes) if eligible is None else np.flatnonzero(eligible)
        order = np.random.default_rng(seed).permutation(candidates)
        ends = np.rint(np.array([train, train + validation]) * len(order)).astype(int)
        parts = (_mask(part, num_nodes) for part in np.split(order, ends))
        return cls(**dict(zip(("train", "validation", "test"), parts, strict=True)))

    @classmethod
    def counted(
        cls,
        numbers: NDArray[np.int64],
        *,
        seed: int,
        train: float = 0.5,
        validation: float = 0.25,
        eligible: NDArray[np.bool_] | None = None,
    ) -> Split:
        """Draw the part of each node from its number alone, so that processes agree on nodes that they do not hold.

        The sizes of the parts are binomial; those of `random` are exact.

        Args:
            numbers: numbers of the nodes in the whole graph, `[nodes]`.
            seed: seed of the draws.
            train: probability of a training node.
            validation: probability of a validation node.
            eligible: `[nodes]`, nodes that take part; the others are in no part of the split.

        >>> whole = Split.counted(np.arange(100), seed=0)
        >>> part = Split.counted(np.arange(50, 100), seed=0)
        >>> bool((whole.train[50:] == part.train).all())
        True
        """
        _check_draw(seed, train, validation)
        drawn = counter_words(numbers, seed=seed, stream=_SPLIT) / 2.0**64
        chosen = np.ones(len(numbers), dtype=np.bool_) if eligible is None else eligible
        return cls(
            train=chosen & (drawn < train),
            validation=chosen & (drawn >= train) & (drawn < train + validation),
            test=chosen & (drawn >= train + validation),
        )

    @classmethod
    def from_data(cls, data: Any, *, seed: int = 0) -> Split:
        """Return the masks of a `torch_geometric.data.Data`, one split of them; without masks, a split at random."""
        names = ("train_mask", "val_mask", "test_mask")
        if not all(name in data for name in names):
            return cls.random(int(data.num_nodes), seed=seed)
        train, validation, test = (data[name].cpu().numpy().astype(np.bool_) for name in names)
        if train.ndim != 1:
            raise GraphError(f"the masks have shape {train.shape}: choose one split, data.train_mask[:, 0] and so on")
        return cls(train=train, validation=validation, test=test)

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """V^L: nodes that report a label, `[nodes]`."""
        return self.train | self.validation

    def __repr__(self) -> str:
        counts = [int(mask.sum()) for mask in (self.train, self.validation, self.test)]
        return "Split({} train, {} validation, {} test)".format(*counts)


def _check_draw(seed: object, train: float, validation: float) -> None:
    if not isinstance(seed, Integral) or seed < 0:
        raise GraphError(f"seed is {seed!r}: give a whole number of at least 0")
    numbers = isinstance(train, Real) and isinstance(validation, Real)
    if not (numbers and train > 0 and validation > 0 and train + validation <= 1):
        raise GraphError(f"shares are {train!r} and {validation!r}: both above 0, together at most 1")


def _mask(nodes: NDArray[np.int64], num_nodes: int) -> NDArray[np.bool_]:
    mask = np.zeros(num_nodes, dtype=np.bool_)
    mask[nodes] = True
    return mask
