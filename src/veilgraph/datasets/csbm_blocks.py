"""The contextual stochastic block model in blocks of nodes, for graphs that are too large to draw at once.

Each block is drawn by itself, from the seed and its own number. So processes can draw blocks in any order, and the
graph does not depend on how many processes there are.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.datasets.csbm import check_count, check_share, checked_num_edges, csbm_schema
from veilgraph.errors import GraphError
from veilgraph.graph.counters import counter_words, unmix
from veilgraph.privacy.schema import FeatureSchema

_LABELS, _COUNTS, _EDGES, _PREFERRED, _FEATURES = range(5)
_MAX_NODES = 2**31
_CHUNK = 2**19
_MAX_DENSITY = 0.25
"""Largest share of the pairs of a block that are edges: above it, drawing distinct edges takes too long."""


@dataclass(frozen=True, kw_only=True)
class CsbmBlocks:
    """A contextual stochastic block model with classes of equal probability, drawn by blocks of nodes.

    Nodes, features and homophily are as in `csbm`. Edges differ in one way: how many edges of a kind have their
    lower end in a block is multinomial, in proportion to all pairs of nodes. In `csbm` it is in proportion to the
    pairs of that kind, which differs by the sampling error of the class sizes.

    Attributes:
        num_nodes: n, at most 2^31.
        num_classes: number of classes, 2 or more.
        mean_degree: D, above 0.
        homophily: h, the probability that an edge is within a class.
        num_features: d; 0 for a graph with labels alone.
        feature_signal: s, 0..1.
        domain_size: gamma of every feature.
        blocks: number of blocks; another number is another graph.
        seed: seed of all random draws.

    >>> made = CsbmBlocks(num_nodes=1000, blocks=4)
    >>> sum(made.edges(block).shape[1] for block in range(4))
    5000
    """

    num_nodes: int
    num_classes: int = 4
    mean_degree: float = 10.0
    homophily: float = 0.8
    num_features: int = 32
    feature_signal: float = 0.5
    domain_size: int = 2
    blocks: int = 64
    seed: int = 0
    num_edges: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_count("num_classes", self.num_classes, least=2, most=_MAX_NODES)
        check_count("num_nodes", self.num_nodes, least=2 * self.num_classes, most=_MAX_NODES)
        check_count("num_features", self.num_features, least=0)
        check_count("domain_size", self.domain_size, least=2, most=2**16)
        check_count("blocks", self.blocks, least=1, most=self.num_nodes // 2)
        check_count("seed", self.seed, least=0)
        check_share("homophily", self.homophily)
        check_share("feature_signal", self.feature_signal)
        object.__setattr__(self, "num_edges", checked_num_edges(self.num_nodes, self.mean_degree))

    @cached_property
    def schema(self) -> FeatureSchema:
        """Features and classes."""
        return csbm_schema((self.domain_size,) * self.num_features, self.num_classes)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Number of the first node of each block, and of all nodes, [blocks + 1]."""
        step = self._key_step

        def block_of(number: int) -> int:
            return (((number * step + step // 2) >> 32) * self.blocks) >> 32

        firsts = [bisect_left(range(self.num_nodes), block, key=block_of) for block in range(self.blocks)]
        return (*firsts, self.num_nodes)

    def numbers(self, block: int) -> NDArray[np.int64]:
        """Return the numbers of the nodes of a block, [nodes]."""
        return np.arange(self.starts[block], self.starts[block + 1])

    def ids(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ids of nodes: whole numbers whose keys in shards are in the order of the numbers."""
        keys = numbers.astype(np.uint64) * np.uint64(self._key_step) + np.uint64(self._key_step // 2)
        return unmix(keys).view(np.int64)

    def labels(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the true classes of any nodes, [nodes]."""
        words = counter_words(numbers, seed=self.seed, stream=_LABELS)
        return ((words >> np.uint64(32)) * np.uint64(self.num_classes) >> np.uint64(32)).astype(np.int64)

    def features(self, block: int) -> NDArray[Any]:
        """Return the true feature codes of the nodes of a block, [nodes, features]."""
        labels, rng = self.labels(self.numbers(block)), self._rng(_FEATURES, block)
        shape, dtype = (len(labels), self.num_features), self.schema.code_dtype
        preferred = self._rng(_PREFERRED).integers(
            self.domain_size, size=(self.num_features, self.num_classes), dtype=dtype
        )
        codes = rng.integers(self.domain_size, size=shape, dtype=dtype)
        return np.where(rng.random(shape, dtype=np.float32) < self.feature_signal, preferred.T[labels], codes)

    def edges(self, block: int) -> NDArray[np.int64]:
        """Return the edges whose end with the lower number is in a block, [2, edges], sorted.

        Pairs are drawn uniformly and kept if their classes are equal, or different, until there are enough.
        """
        rng = self._rng(_EDGES, block)
        within, between = (int(counts[block]) for counts in self._edge_counts)
        keys = np.concatenate([self._pairs(block, within, True, rng), self._pairs(block, between, False, rng)])
        keys.sort()
        return np.stack([keys // self.num_nodes, keys % self.num_nodes])

    @property
    def _key_step(self) -> int:
        return 2**64 // self.num_nodes

    @cached_property
    def _edge_counts(self) -> NDArray[np.int64]:
        """Number of edges within and between classes of each block, [2, blocks]."""
        rng = self._rng(_COUNTS)
        pairs = np.array([float(self._num_pairs(block)) for block in range(self.blocks)])
        within = int(rng.binomial(self.num_edges, self.homophily))
        return np.stack([rng.multinomial(each, pairs / pairs.sum()) for each in (within, self.num_edges - within)])

    def _num_pairs(self, block: int) -> int:
        """Return the number of pairs whose lower end is in a block: the sum of n - 1 - i."""
        first, last = self.starts[block], self.starts[block + 1]
        return (last - first) * (2 * self.num_nodes - 1 - first - last) // 2

    def _pairs(self, block: int, count: int, equal: bool, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw different pairs of one kind, as keys i n + j with i < j."""
        share = 1 / self.num_classes if equal else 1 - 1 / self.num_classes
        if count > _MAX_DENSITY * share * self._num_pairs(block):
            raise GraphError(
                f"mean_degree is {self.mean_degree}: a block of {self.blocks} would have too many of its pairs as "
                "edges; lower mean_degree, add nodes or take fewer blocks"
            )
        found = np.empty(0, dtype=np.int64)
        while len(found) < count:
            # Pairs are kept in the order of their draws: choosing among sorted ones would prefer low numbers.
            drawn, lacking = [found], count - len(found)
            while lacking > 0:
                proposals = min(_CHUNK, int(lacking / share * 1.1) + 16)
                drawn.append(self._proposals(block, proposals, equal, rng)[:lacking])
                lacking -= len(drawn[-1])
            found = _distinct(np.concatenate(drawn))
        return found

    def _proposals(self, block: int, count: int, equal: bool, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw pairs i < j uniformly with i in the block, and keep the pairs of one kind.

        The lower end has a probability in proportion to n - 1 - i: the integral of n - 1/2 - x from i to i + 1.
        """
        centre, first, last = self.num_nodes - 0.5, self.starts[block], self.starts[block + 1]
        high, low = (centre - first) ** 2, max(centre - last, 0.5) ** 2
        lower = (centre - np.sqrt(high - rng.random(count) * (high - low))).astype(np.int64)
        lower = lower.clip(first, min(last, self.num_nodes - 1) - 1)
        upper = lower + 1 + (rng.random(count) * (self.num_nodes - 1 - lower)).astype(np.int64)
        kept = (self.labels(lower) == self.labels(upper)) == equal
        return np.asarray(lower[kept] * self.num_nodes + upper[kept])

    def _rng(self, stream: int, block: int = 0) -> np.random.Generator:
        return np.random.default_rng([self.seed, stream, block])


def _distinct(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return different keys, sorted. Sorting takes a quarter of the time of numpy's `unique`, which hashes them."""
    keys.sort()
    return keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys
