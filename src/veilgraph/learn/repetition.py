"""The same work many times: on a GPU it is recorded once and replayed, since launching costs more than computing."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

from veilgraph.progress import tracked

_BEFORE_RECORDING = 1


def repeat(
    work: Callable[[], None],
    times: int,
    *,
    device: torch.device,
    generators: Sequence[torch.Generator] | None = None,
    after: Callable[[int], None] | None = None,
) -> None:
    """Do `work` so many times, each on the state that the one before left.

    Args:
        work: reads and changes tensors in place, and reads nothing back from the device.
        times: how often.
        device: where the tensors are.
        generators: all that `work` draws from; None if it is not known to be the same work every time. Then, and on a
            processor, nothing is recorded.
        after: told how often the work was done; it may read from the device. While a GPU gets ready to record, it is
            not told.

    >>> counter = torch.zeros(1)
    >>> repeat(lambda: counter.add_(1) and None, 5, device=torch.device("cpu"))
    >>> int(counter)
    5
    """
    if device.type != "cuda" or generators is None or times <= _BEFORE_RECORDING:
        for done in tracked(range(times), "training, epochs"):
            work()
            if after is not None:
                after(done + 1)
        return
    # Libraries make their workspaces when they are first used, which cannot be recorded.
    stream = _recordable_stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        for _ in range(_BEFORE_RECORDING):
            work()
    graph = torch.cuda.CUDAGraph()
    for generator in generators:
        graph.register_generator_state(generator)
    with torch.cuda.stream(stream), _no_garbage_collection():
        graph.capture_begin(capture_error_mode="thread_local")
        work()
        graph.capture_end()
    torch.cuda.current_stream(device).wait_stream(stream)
    for done in range(_BEFORE_RECORDING, times):
        graph.replay()
        if after is not None:
            after(done + 1)


def _recordable_stream(device: torch.device) -> torch.cuda.Stream:
    """The present one, unless that is the default, which cannot record."""
    present = torch.cuda.current_stream(device)
    if present != torch.cuda.default_stream(device):
        return present
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


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
