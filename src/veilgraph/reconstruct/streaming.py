"""Bags of graphs that METIS has no room for: a partition in a few passes over the nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from veilgraph.graph import Adjacency
from veilgraph.progress import tracked

_PASSES = 10
_SLACK = 1.03  # as METIS
_BLOCK_NODES = 4096
_BLOCKS_PER_PART = 4
_TIE = 1e-6  # of a neighbour


def stream_partition(adjacency: Adjacency, num_parts: int, *, seed: int = 0) -> NDArray[np.int64]:
    r"""Restreamed linear deterministic greedy partitioning (Stanton and Kliot 2012, Nishimura and Ugander 2013).

    Nodes come one block after another, and each joins the part

    .. math:: \arg\max_i |N(v) \cap P_i| \left(1 - \frac{|P_i|}{c}\right), \qquad c = 1.03\, n / C

    that holds most of its neighbours and still has room; ten passes, each starting from the last one's parts. No part
    exceeds c. Time is linear in edges, and memory is a byte for each node beside the adjacency. It cuts more edges
    than METIS does, which the bags can bear: they are to be local, not to be optimal.

    Args:
        adjacency: of the graph.
        num_parts: C.
        seed: of the choice between parts that are equally good.
    """
    nodes = len(adjacency.starts) - 1
    capacity = int(np.ceil(_SLACK * nodes / num_parts))
    rng = np.random.default_rng(seed)
    parts = np.full(nodes, num_parts, dtype=np.min_scalar_type(num_parts))  # C stands for "nowhere yet"
    sizes = np.zeros(num_parts, dtype=np.int64)
    # Nodes of one block do not see each other's choice, so a block is small beside a part.
    width = max(1, min(_BLOCK_NODES, nodes // (_BLOCKS_PER_PART * num_parts)))
    blocks = [slice(start, min(start + width, nodes)) for start in range(0, nodes, width)]
    for block in tracked(blocks * _PASSES, f"bags, {_PASSES} passes over blocks of nodes"):
        sizes -= np.bincount(parts[block], minlength=num_parts + 1)[:num_parts]
        inside = _neighbours_in_parts(adjacency, block, parts, num_parts)
        ties = _TIE * rng.random(inside.shape, dtype=np.float32)
        scores = (inside + ties) * (1 - sizes / capacity)
        parts[block] = _best_with_room(scores, capacity - sizes)
        sizes += np.bincount(parts[block], minlength=num_parts)
    return parts.astype(np.int64)


def _neighbours_in_parts(
    adjacency: Adjacency, block: slice, parts: NDArray[np.unsignedinteger], num_parts: int
) -> NDArray[np.int64]:
    """[nodes of the block, parts]: how many neighbours a node has in each part."""
    starts = adjacency.starts[block.start : block.stop + 1]
    rows = np.repeat(np.arange(len(starts) - 1) * (num_parts + 1), np.diff(starts))
    cells = rows + parts[adjacency.neighbours[starts[0] : starts[-1]]]
    counts = np.bincount(cells, minlength=(len(starts) - 1) * (num_parts + 1))
    return counts.reshape(-1, num_parts + 1)[:, :num_parts]


def _best_with_room(scores: NDArray[np.float64], room: NDArray[np.int64]) -> NDArray[np.int64]:
    """The best part of each row; where more rows want a part than it has room for, those that want it most get it.

    >>> _best_with_room(np.array([[3.0, 1.0], [5.0, 1.0], [1.0, 2.0]]), np.array([1, 2])).tolist()
    [1, 0, 1]
    """
    choice: NDArray[np.int64] = scores.argmax(axis=1)
    while (full := np.bincount(choice, minlength=len(room)) > room).any():
        part = int(full.argmax())
        wanting = np.flatnonzero(choice == part)
        leaving = wanting[np.argsort(-scores[wanting, part], kind="stable")][room[part] :]
        scores[leaving, part] = -np.inf
        choice[leaving] = scores[leaving].argmax(axis=1)
    return choice
