"""Where a GPU's work goes while it is still busy with the work before."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache, partial

import torch

from veilgraph.learn.repetition import new_stream
from veilgraph.reconstruct.operators import GraphOperators
from veilgraph.reconstruct.peers import ALONE

Lane = Callable[[], AbstractContextManager[object]]
"""Within it, work is in order, and waits for nothing that is outside it."""

_LANES = 2
"""One trains while the other is got ready. Memory that was freed in a lane is used again in that lane only."""


def next_lane(operators: GraphOperators) -> Lane:
    """The lanes of a GPU in turn; a processor has but one, and so has a GPU that talks to others.

    What comes from the processor's memory is there for all lanes: copying it is waited for.

    >>> from veilgraph.graph import Graph
    >>> with next_lane(GraphOperators(Graph.from_edges([[0], [1]], num_nodes=2)))():
    ...     pass
    """
    if operators.device.type != "cuda" or operators.peers is not ALONE:
        return nullcontext
    return next(_lanes(operators.device))


@lru_cache
def _lanes(device: torch.device) -> Iterator[Lane]:
    streams = [new_stream(device, urgent=True) for _ in range(_LANES)]
    return itertools.cycle([partial(torch.cuda.stream, stream) for stream in streams])
