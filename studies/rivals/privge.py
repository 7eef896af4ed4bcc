"""PrivGE: personalised PageRank of randomized features before a classifier."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from studies.rivals.graph_filter import truncated_pagerank
from studies.rivals.propagated_features import PropagatedFeatures
from veilgraph.models.engine.backbones import BackboneFactory


@dataclass(kw_only=True)
class PrivGE(PropagatedFeatures):
    r"""Li et al., "Privacy-Preserving Graph Embedding based on Local Differential Privacy", CIKM 2024.

    Features are propagated before anything is learned:

    .. math:: Z \leftarrow (1 - a)\, S Z + a\, \tilde x, \qquad K \text{ times, from } Z = \tilde x

    Its mechanism HDS is the square wave mechanism on m sampled numbers. Features here are 0 or 1, and whatever is
    private about one bit can be simulated from one randomized bit at the same epsilon (Kairouz, Oh and Viswanath 2014).
    So reports are those of multi-bit. Its authors keep labels in the clear; here randomized labels are used by forward
    correction.

    Args:
        feature_hops: K.
        restart: a; 0 is plain propagation over K hops.

    >>> PrivGE(feature_hops=2, restart=0.5).filter_weights()
    [0.5, 0.25, 0.25]
    """

    name: ClassVar[str] = "privge"

    backbone: str | BackboneFactory = "gcn"
    weight_decay: float = 0.001
    epochs: int = 200
    feature_hops: int = 16
    restart: float = 0.0

    def filter_weights(self) -> Sequence[float]:
        """Return those of K steps of personalised PageRank."""
        return truncated_pagerank(self.feature_hops, self.restart)

    def input_settings(self) -> Hashable:
        """Return K and the restart probability."""
        return self.feature_hops, self.restart
