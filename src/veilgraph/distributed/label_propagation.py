"""Balanced partitions of a graph whose rows are spread over processes, by label propagation.

Three steps, in the manner of XtraPuLP (Slota et al. 2017) and of ParHIP (Meyerhenke, Sanders and Schulz 2017). Regions
grow from random seeds; METIS joins the small graph of regions into parts; label propagation moves nodes to the part of
most neighbours as long as it has room. Every decision follows from whole numbers and from counters of nodes. So the
result does not depend on the number of processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from veilgraph.distributed.graph_rows import GraphRows, Halo
from veilgraph.errors import ReconstructionError
from veilgraph.graph.counters import counter_words
from veilgraph.graph.metis import weighted_partition

REVISION = 3
"""Number of this algorithm's version; partitions of an earlier one are not reused."""

SLACK = 1.05
"""Largest weight of a part, in units of the mean."""

_REGION_SLACK = 1.5
_REGIONS_PER_PART, _MIN_REGIONS, _MAX_REGIONS = 16, 64, 256
_GROWTH, _REGION_ROUNDS, _ROUNDS = 40, 6, 16
_LEVELS = 64
_BLOCK_ENTRIES = 2**18
_UNKNOWN = -1
_ODD = 40503  # spreads labels, so that ties between them are decided in another order for each node


@dataclass(frozen=True, kw_only=True)
class CutQuality:
    """How good a partition is.

    Attributes:
        cut: share of the edges between different parts.
        balance: weight of the largest part, in units of the mean; a node weighs as its degree plus the mean degree.
    """

    cut: float
    balance: float

    def __str__(self) -> str:
        return f"{self.cut:.1%} of the edges between parts, the largest part {self.balance:.3f} times the mean"


def partition_rows(rows: GraphRows, halo: Halo, parts: int, *, seed: int = 0) -> NDArray[np.int64]:
    """Return the part of each own node, `[own]`: parts of about equal weight with few edges between them.

    A node weighs as its degree plus the mean degree, so that parts are equal in nodes and in edges.

    Args:
        rows: neighbours of the own nodes.
        halo: exchange with the processes that hold the other rows.
        parts: number of parts.
        seed: seed of the regions.
    """
    if parts == 1:
        return np.zeros(len(rows.numbers), dtype=np.int64)
    if parts > rows.num_global_nodes:
        raise ReconstructionError(f"{rows.num_global_nodes} nodes in {parts} parts: ask for fewer parts")
    labelling = _Labelling(rows=rows, halo=halo, seed=seed)
    regions = min(_MAX_REGIONS, max(_MIN_REGIONS, _REGIONS_PER_PART * parts), rows.num_global_nodes // 4)
    if regions > parts:
        labels = labelling.refine(labelling.grow(regions), regions, _REGION_SLACK, _REGION_ROUNDS)
        joined = weighted_partition(labelling.edges_between(labels, regions), labelling.sizes(labels, regions), parts)
        labels = joined[labels]
    else:
        labels = labelling.grow(parts)
    return labelling.refine(labels, parts, SLACK, _ROUNDS)


def grow_regions(rows: GraphRows, halo: Halo, count: int, *, seed: int) -> NDArray[np.int64]:
    """Return the region of each own node, `[own]`: connected for the most part, and of about equally many nodes.

    There may be thousands of regions. If there are at least as many as nodes, every node is a region of its own.

    Args:
        rows: neighbours of the own nodes.
        halo: exchange with the processes that hold the other rows.
        count: number of regions.
        seed: seed of the regions.
    """
    if count >= rows.num_global_nodes:
        return rows.numbers
    labelling = _Labelling(rows=rows, halo=halo, seed=seed, equal_nodes=True)
    return labelling.refine(labelling.grow(count), count, _REGION_SLACK, _REGION_ROUNDS)


def edges_between(rows: GraphRows, halo: Halo, labels: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the number of directed edges between labels, `[labels, labels]`."""
    return _Labelling(rows=rows, halo=halo, seed=0).edges_between(labels, count)


def measure_cut(rows: GraphRows, halo: Halo, labels: NDArray[np.int64], parts: int) -> CutQuality:
    """Return the share of edges between parts, and the balance."""
    labelling = _Labelling(rows=rows, halo=halo, seed=0)
    sizes, between = labelling.sizes(labels, parts), labelling.edges_between(labels, parts)
    return CutQuality(
        cut=float(1 - np.trace(between) / max(between.sum(), 1)), balance=float(sizes.max() / sizes.mean())
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Labelling:
    """Labels of nodes that are spread over processes.

    Attributes:
        rows: neighbours of the own nodes.
        halo: exchange with the processes that hold the other rows.
        seed: seed of the counters.
        equal_nodes: whether all nodes weigh the same; otherwise a node weighs as its degree plus the mean degree.
        positions: `[directed edges]`, positions of the neighbours among own nodes and halo.
        weights: `[own]`, weights of the own nodes.
    """

    rows: GraphRows
    halo: Halo
    seed: int
    equal_nodes: bool = False
    positions: NDArray[np.int32] = field(init=False, repr=False)
    weights: NDArray[np.int64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        degrees = self.rows.degrees
        edges = int(self.halo.exchange.sum(np.array([degrees.sum()]))[0])
        weights = degrees + max(1, round(edges / self.rows.num_global_nodes))
        object.__setattr__(self, "weights", np.ones_like(weights) if self.equal_nodes else weights)
        found = np.searchsorted(self.halo.extended, self.rows.neighbours)
        object.__setattr__(self, "positions", found.astype(np.int32))

    def sizes(self, labels: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """Return the weight of each label in the whole graph, `[labels]`; nodes without a label do not count."""
        known = labels >= 0
        here = np.bincount(labels[known], weights=self.weights[known], minlength=count)
        return self.halo.exchange.sum(here.astype(np.int64))

    def edges_between(self, labels: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """Return the number of directed edges between labels, `[labels, labels]`."""
        extended, total = self.halo.extend(labels), np.zeros((count, count), dtype=np.int64)
        table = _one_hot(extended, count)
        for nodes in self._blocks():
            votes = self._votes(nodes, table)
            pairs = np.repeat(labels[nodes] * count, np.diff(votes.indptr)) + votes.indices
            total += np.bincount(pairs, weights=votes.data, minlength=count**2).reshape(count, count).astype(np.int64)
        return self.halo.exchange.sum(total)

    def grow(self, count: int) -> NDArray[np.int64]:
        """Grow regions from random seeds: a node without a label takes the one of most neighbours, if it has room."""
        exchange, numbers = self.halo.exchange, self.rows.numbers
        words = self._words(0)
        nearest = np.argsort(words, kind="stable")[:count]
        gathered = exchange.gather(np.stack([words[nearest], numbers[nearest].view(np.uint64)], axis=1))
        seeds = gathered[np.lexsort((gathered[:, 1], gathered[:, 0]))][:count, 1].view(np.int64)
        labels = np.full(len(numbers), _UNKNOWN)
        places = np.searchsorted(numbers, seeds)
        own = numbers[np.minimum(places, len(numbers) - 1)] == seeds if len(numbers) else np.zeros(count, dtype=bool)
        labels[places[own]] = np.flatnonzero(own)
        capacity = self._capacity(count, _REGION_SLACK)
        for step in range(1, _GROWTH + 1):
            missing = labels == _UNKNOWN
            wanted, gains = self._wanted(labels, count, capacity, step, missing)
            accepted = self._accepted(wanted, gains, self.sizes(labels, count), capacity, count, step)
            labels[accepted] = wanted[accepted]
            if not exchange.sum(np.array([accepted.sum()]))[0]:
                break
        # What no region reached goes where there is room, in proportion to it.
        missing, room = labels == _UNKNOWN, np.maximum(capacity - self.sizes(labels, count), 1)
        share = self._words(_GROWTH + 1)[missing] / 2.0**64
        labels[missing] = np.searchsorted(np.cumsum(room) / room.sum(), share, side="right").clip(max=count - 1)
        return labels

    def refine(self, labels: NDArray[np.int64], count: int, slack: float, rounds: int) -> NDArray[np.int64]:
        """Move nodes to the label of most neighbours where it has room; labels that are too heavy lose nodes first."""
        capacity = self._capacity(count, slack)
        labels = labels.copy()
        for step in range(100, 100 + rounds):
            sizes = self.sizes(labels, count)
            wanted, gains = self._wanted(labels, count, capacity, step)
            words = self._words(step + 1000)
            heavy = (sizes > capacity)[labels]
            excess = np.maximum(sizes - capacity, 0) / np.maximum(sizes, 1)
            leaving = heavy & (words / 2.0**64 < 2 * excess[labels])
            moving = (wanted != labels) & ((gains > 0) & (words & np.uint64(1) == 0) | leaving)
            levels = np.where(moving, np.maximum(gains, 0), _UNKNOWN)
            accepted = self._accepted(wanted, levels, sizes, capacity, count, step)
            labels[accepted] = wanted[accepted]
        return labels

    def _wanted(
        self,
        labels: NDArray[np.int64],
        count: int,
        capacity: int,
        step: int,
        only: NDArray[np.bool_] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the label of most neighbours among those with room, and how many more neighbours it has.

        Ties are decided by a hash of node and label. A node that has a label, and no neighbour with room in another
        one, wants any label with room, by the same hash. The gain is -1 for a node without labelled neighbours, and
        for one that is not among `only`.
        """
        extended, room = self.halo.extend(labels), self.sizes(labels, count) < capacity
        words = (self._words(step) % np.uint64(count)).astype(np.int64)
        table = _one_hot(extended, count)
        wanted, gains = labels.copy(), np.full(len(labels), _UNKNOWN)
        for nodes in self._blocks(only):
            votes, current = self._votes(nodes, table), labels[nodes]
            row = np.repeat(np.arange(len(nodes)), np.diff(votes.indptr))
            found, times = votes.indices.astype(np.int64), votes.data.astype(np.int64)
            here, staying = np.zeros(len(nodes), dtype=np.int64), found == current[row]
            here[row[staying]] = times[staying]
            scores = (times * count + _tie(found, words[nodes][row], count)) * count + found
            scores[~room[found]] = _UNKNOWN
            heard = np.diff(votes.indptr) > 0
            best = np.full(len(nodes), _UNKNOWN)
            if heard.any():
                best[heard] = np.maximum.reduceat(scores, votes.indptr[:-1][heard])
            usable = best >= 0
            wanted[nodes[usable]] = best[usable] % count
            gains[nodes[usable]] = best[usable] // count**2 - here[usable]
            stuck = ~usable & (current >= 0) & room.any()
            wanted[nodes[stuck]] = _any_with_room(room, words[nodes[stuck]])
            gains[nodes[stuck]] = -here[stuck]
        return wanted, gains

    def _votes(self, nodes: NDArray[np.int64], table: csr_array) -> csr_array:
        """Return how many neighbours with each label nodes have, `[nodes, labels]`: a product of sparse matrices.

        It needs as much memory as the nodes' edges, whatever the number of labels is.
        """
        degrees, first = self.rows.degrees[nodes], self.rows.starts[nodes]
        starts = np.append(0, np.cumsum(degrees))
        if len(nodes) and nodes[-1] - nodes[0] + 1 == len(nodes):
            neighbours = self.positions[first[0] : first[0] + starts[-1]]
        else:
            neighbours = self.positions[np.arange(starts[-1]) + np.repeat(first - starts[:-1], degrees)]
        entries = np.ones(len(neighbours), dtype=np.int32), neighbours, starts.astype(np.int32)
        votes: csr_array = csr_array(entries, shape=(len(nodes), table.shape[0])) @ table
        return votes

    def _accepted(
        self,
        wanted: NDArray[np.int64],
        gains: NDArray[np.int64],
        sizes: NDArray[np.int64],
        capacity: int,
        count: int,
        step: int,
    ) -> NDArray[np.bool_]:
        """Return which moves fit into the room of their labels; moves with the largest gain come first."""
        moving = gains >= 0
        levels = np.minimum(gains, _LEVELS - 1)
        asked = np.bincount(
            wanted[moving] * _LEVELS + levels[moving], weights=self.weights[moving], minlength=count * _LEVELS
        )
        total = self.halo.exchange.sum(asked.astype(np.int64)).reshape(count, _LEVELS)
        above = np.cumsum(total[:, ::-1], axis=1)[:, ::-1] - total  # weight of the moves with a larger gain
        room = np.maximum(capacity - sizes, 0)[:, None]
        share = np.clip((room - above) / np.maximum(total, 1), 0.0, 1.0)
        accepted = np.zeros(len(wanted), dtype=np.bool_)
        drawn = self._words(step + 2000)[moving] / 2.0**64
        accepted[moving] = drawn < share[wanted[moving], levels[moving]]
        return accepted

    def _capacity(self, count: int, slack: float) -> int:
        total = int(self.halo.exchange.sum(np.array([self.weights.sum()]))[0])
        return int(np.ceil(slack * total / count))

    def _words(self, stream: int) -> NDArray[np.uint64]:
        return counter_words(self.rows.numbers, seed=self.seed, stream=stream)

    def _blocks(self, only: NDArray[np.bool_] | None = None) -> Iterator[NDArray[np.int64]]:
        """Yield own nodes, or those among `only`, whose neighbours fit into a block."""
        nodes = np.arange(len(self.rows.numbers)) if only is None else np.flatnonzero(only)
        ends, first = np.cumsum(self.rows.degrees[nodes]), 0
        while first < len(nodes):
            before = ends[first - 1] if first else 0
            last = max(int(np.searchsorted(ends, before + _BLOCK_ENTRIES, side="right")), first + 1)
            yield nodes[first:last]
            first = last


def _one_hot(labels: NDArray[np.int64], count: int) -> csr_array:
    """Return a sparse matrix `[nodes, labels]` with a 1 for the label of each node; a row without label is empty."""
    known = labels >= 0
    starts = np.append(0, np.cumsum(known)).astype(np.int32)
    entries = np.ones(int(starts[-1]), dtype=np.int32), labels[known].astype(np.int32), starts
    return csr_array(entries, shape=(len(labels), count))


def _tie(labels: NDArray[np.int64], words: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return a number below `count` that decides between labels with equally many neighbours."""
    return np.asarray((labels * _ODD + words) % count)


def _any_with_room(room: NDArray[np.bool_], words: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the label with room that wins all ties for each word, `[words]`; words are below the number of labels."""
    labels, count = np.flatnonzero(room), len(room)
    if not len(words):
        return words
    distinct, places = np.unique(words, return_inverse=True)
    best = [labels[_tie(labels, word, count).argmax()] for word in distinct]
    return np.asarray(best)[places]
