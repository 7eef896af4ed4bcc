"""The same work many times: on a GPU it is recorded once and replayed, since launching costs more than computing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from veilgraph.progress import tracked

_BEFORE_RECORDING = 3


def repeat(
    work: Callable[[], None],
    times: int,
    *,
    device: torch.device,
    generators: Sequence[torch.Generator] | None = None,
) -> None:
    """Do `work` so many times, each on the state that the one before left.

    Args:
        work: reads and changes tensors in place, and reads nothing back from the device.
        times: how often.
        device: where the tensors are.
        generators: all that `work` draws from; None if it is not known to be the same work every time. Then, and on a
            processor, nothing is recorded.

    >>> counter = torch.zeros(1)
    >>> repeat(lambda: counter.add_(1) and None, 5, device=torch.device("cpu"))
    >>> int(counter)
    5
    """
    if device.type != "cuda" or generators is None or times <= _BEFORE_RECORDING:
        for _ in tracked(range(times), "training, epochs"):
            work()
        return
    # Libraries make their workspaces when they are first used, which cannot be recorded; and recording needs a
    # stream of its own.
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        for _ in range(_BEFORE_RECORDING):
            work()
    torch.cuda.current_stream(device).wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    for generator in generators:
        graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        work()
    for _ in range(times - _BEFORE_RECORDING):
        graph.replay()
