"""The same work many times: on a GPU it is recorded once and replayed, since launching costs more than computing."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache, partial

import torch

from veilgraph.progress import tracked
from veilgraph.reconstruct.operators import GraphOperators

_BEFORE_RECORDING = 1


def repeat(
    work: Callable[[], None],
    times: int,
    *,
    device: torch.device,
    generators: Sequence[torch.Generator] | None = None,
    after: Callable[[int], None] | None = None,
) -> object:
    """Do `work` so many times, each on the state that the one before left.

    On a GPU it may still be under way; until it is done, what is handed back, the recording, must be kept.

    Args:
        work: reads and changes tensors in place, and reads nothing back from the device.
        times: how often.
        device: where the tensors are.
        generators: all that `work` draws from; None if it is not known to be the same work every time. Then, and on a
            processor, nothing is recorded.
        after: told how often the work was done; it may read from the device. While a GPU gets ready to record, it is
            not told.

    >>> counter = torch.zeros(1)
    >>> _ = repeat(lambda: counter.add_(1) and None, 5, device=torch.device("cpu"))
    >>> int(counter)
    5
    """
    if device.type != "cuda" or generators is None or times <= _BEFORE_RECORDING:
        for done in tracked(range(times), "training, epochs"):
            work()
            if after is not None:
                after(done + 1)
        return None
    present = torch.cuda.current_stream(device)
    stream = _beside(present)
    stream.wait_stream(present)
    with torch.cuda.stream(stream):
        # Libraries make their workspaces when they are first used, which cannot be recorded.
        for _ in range(_BEFORE_RECORDING):
            work()
        graph = torch.cuda.CUDAGraph()
        for generator in generators:
            graph.register_generator_state(generator)
        with _no_garbage_collection():
            graph.capture_begin(capture_error_mode="thread_local")
            work()
            graph.capture_end()
        for done in range(_BEFORE_RECORDING, times):
            graph.replay()
            if after is not None:
                after(done + 1)
    present.wait_stream(stream)
    return graph


@lru_cache(maxsize=8)
def _beside(stream: torch.cuda.Stream) -> torch.cuda.Stream:
    """Where work that was got ready in a stream is repeated. The default stream cannot record."""
    return new_stream(stream.device, urgent=False)


def new_stream(device: torch.device, *, urgent: bool) -> torch.cuda.Stream:
    """A stream of a GPU, which takes the work of urgent ones first.

    Whoever gets work ready waits for every step of it; what is repeated goes on for long, and nobody waits for it.
    """
    return torch.cuda.Stream(device, priority=-1 if urgent else 0)  # type: ignore[no-untyped-call]


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """No memory of a GPU may be freed while it records.

    torch.cuda.graph collects all garbage beforehand, which takes longer than most recordings.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


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
    if operators.device.type != "cuda" or not operators.communicator.is_local:
        return nullcontext
    return next(_lanes(operators.device))


@lru_cache
def _lanes(device: torch.device) -> Iterator[Lane]:
    streams = [new_stream(device, urgent=True) for _ in range(_LANES)]
    return itertools.cycle([partial(torch.cuda.stream, stream) for stream in streams])
