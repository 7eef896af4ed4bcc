"""CUDA graphs and CUDA streams for training: an epoch is captured once and replayed; two batches use two streams."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache, partial

import torch

from veilgraph.progress import tracked
from veilgraph.reconstruct.operators import GraphOperators

StreamContext = Callable[[], AbstractContextManager[object]]
"""Makes a context that runs work on a dedicated CUDA stream; on a CPU, a context without effect."""

_WARM_UP_EPOCHS = 1
_STREAMS = 2
"""One stream trains while work on the other one is prepared. Memory that a stream frees is reused by that stream."""


def run_epochs(
    epoch: Callable[[], None],
    count: int,
    *,
    device: torch.device,
    generators: Sequence[torch.Generator] | None = None,
    after_epoch: Callable[[int], None] | None = None,
) -> object:
    """Run an epoch `count` times; on a GPU, capture it as a CUDA graph and replay it.

    Launching the kernels of an epoch takes longer than the kernels themselves; a replay launches all at once. On a GPU
    the replays may still be running after the return. Keep the returned CUDA graph until they are finished.

    Args:
        epoch: reads and changes tensors in place, and reads nothing back from the device.
        count: number of epochs.
        device: device of the tensors.
        generators: all generators that `epoch` uses; None if it may do different work each time. Then, and on a CPU,
            nothing is captured.
        after_epoch: called with the number of finished epochs; it may read from the device. It is not called for the
            warm-up epoch before a capture.

    Returns:
        The CUDA graph, or None if nothing was captured.

    >>> counter = torch.zeros(1)
    >>> _ = run_epochs(lambda: counter.add_(1) and None, 5, device=torch.device("cpu"))
    >>> int(counter)
    5
    """
    if device.type != "cuda" or generators is None or count <= _WARM_UP_EPOCHS:
        for done in tracked(range(count), "training, epochs"):
            epoch()
            if after_epoch is not None:
                after_epoch(done + 1)
        return None
    present = torch.cuda.current_stream(device)
    stream = _capture_stream(present)
    stream.wait_stream(present)
    with torch.cuda.stream(stream):
        # Libraries allocate workspaces at their first call, which cannot be captured.
        for _ in range(_WARM_UP_EPOCHS):
            epoch()
        graph = torch.cuda.CUDAGraph()
        for generator in generators:
            graph.register_generator_state(generator)
        with _no_garbage_collection():
            graph.capture_begin(capture_error_mode="thread_local")
            epoch()
            graph.capture_end()
        for done in range(_WARM_UP_EPOCHS, count):
            graph.replay()
            if after_epoch is not None:
                after_epoch(done + 1)
    present.wait_stream(stream)
    return graph


def next_stream(operators: GraphOperators) -> StreamContext:
    """Return the streams of a GPU in turn; a CPU and a GPU that communicates with others use the default stream.

    Copies from CPU memory are synchronous, so that they are visible to all streams.

    >>> from veilgraph.graph import Graph
    >>> with next_stream(GraphOperators(Graph.from_edges([[0], [1]], num_nodes=2)))():
    ...     pass
    """
    if operators.device.type != "cuda" or not operators.communicator.is_local:
        return nullcontext
    return next(_stream_cycle(operators.device))


@lru_cache
def _stream_cycle(device: torch.device) -> Iterator[StreamContext]:
    streams = [_new_stream(device, urgent=True) for _ in range(_STREAMS)]
    return itertools.cycle([partial(torch.cuda.stream, stream) for stream in streams])


@lru_cache(maxsize=8)
def _capture_stream(stream: torch.cuda.Stream) -> torch.cuda.Stream:
    """Return the stream that captures and replays work of a given stream. The default stream cannot capture."""
    return _new_stream(stream.device, urgent=False)


def _new_stream(device: torch.device, *, urgent: bool) -> torch.cuda.Stream:
    """Make a stream; the GPU runs work of urgent streams first.

    Preparation is urgent, because the CPU waits for each of its steps. Replays run for long, and nothing waits.
    """
    return torch.cuda.Stream(device, priority=-1 if urgent else 0)  # type: ignore[no-untyped-call]


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Suspend garbage collection: GPU memory must not be freed during a capture.

    `torch.cuda.graph` would collect all garbage before a capture, which takes longer than most captures.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
