"""Weights that several processes train together, with torch's DistributedDataParallel."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor, distributed, nn
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from veilgraph.distributed.communicator import Communicator
from veilgraph.distributed.process_group import communication


class SharedWeights:
    """Weights whose gradient after backward() is the sum over all processes.

    DistributedDataParallel averages gradients, because it expects one objective for each process. Here all processes
    share one objective, and each has the gradient of its own nodes' terms, so that a communication hook adds them up.
    There is one parameter, whose gradient is complete at the end of a backward pass: halo exchanges never come in
    between, and all processes communicate in the same order. A single process has nothing to share.

    Args:
        weights: one tensor, which the optimizer changes in place; all processes start with those of the first.
        communicator: collective operations over the processes that train them.

    >>> from veilgraph.distributed.communicator import LOCAL
    >>> weights = nn.Parameter(Tensor([1.0, 2.0]))
    >>> SharedWeights(weights, LOCAL)() is weights
    True
    """

    def __init__(self, weights: nn.Parameter, communicator: Communicator) -> None:
        self._weights, self._parallel = weights, None
        if not communicator.is_local:
            with communication():
                self._parallel = DistributedDataParallel(_Weights(weights))
                # A lambda, because torch rejects hooks with other annotations than its own.
                self._parallel.register_comm_hook(None, lambda state, bucket: _summed(bucket))

    def __call__(self) -> Tensor:
        """Return the weights for a pass whose gradient is to be summed."""
        if self._parallel is None:
            return self._weights
        with communication():
            weights: Tensor = self._parallel()
        return weights


class _Weights(nn.Module):
    def __init__(self, weights: nn.Parameter) -> None:
        super().__init__()
        self.weights = weights

    def forward(self) -> Tensor:
        return self.weights


class _Bucket(Protocol):
    """The gradients that torch passes to a communication hook."""

    def buffer(self) -> Tensor:
        """Return all gradients, in one tensor."""
        ...


def _summed(bucket: _Bucket) -> Future[Tensor]:
    """Sum a gradient over processes. It waits for the result, so that a lost process raises its error here."""
    with communication():
        work = distributed.all_reduce(bucket.buffer(), async_op=True)
        work.wait()
    total: Future[Tensor] = work.get_future().then(lambda done: done.value()[0])
    return total
