"""Weights that several processes train together, by torch's DistributedDataParallel."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor, distributed, nn
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from veilgraph.distributed.communicator import Communicator
from veilgraph.distributed.process_group import communication


class SharedWeights:
    """Weights whose gradient, once backward() is through, is the same in every process: the sum of theirs.

    DistributedDataParallel averages the gradients of as many objectives as there are processes. Here all processes
    compute one objective, and each has the gradient of its own nodes' share in it, so its communication is told to
    add. There is one parameter, whose gradient is complete when all else of a backward pass is: exchanges at
    boundaries never come in between, and all processes talk in the same order. Alone there is nothing to share.

    Args:
        weights: one tensor, which the optimizer changes in place; the first process's are given to all.
        communicator: collective operations over the processes that train them.

    >>> weights = nn.Parameter(Tensor([1.0, 2.0]))
    >>> SharedWeights(weights, LOCAL)() is weights
    True
    """

    def __init__(self, weights: nn.Parameter, communicator: Communicator) -> None:
        self._weights, self._parallel = weights, None
        if not communicator.is_local:
            with communication():
                self._parallel = DistributedDataParallel(_Weights(weights))
                # A lambda, since torch takes offence at annotations other than its own.
                self._parallel.register_comm_hook(None, lambda state, bucket: _summed(bucket))

    def __call__(self) -> Tensor:
        """The weights, for the pass whose gradient is to be shared."""
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
    """What torch calls the gradients that it hands to a hook."""

    def buffer(self) -> Tensor:
        """All of them, in one tensor."""
        ...


def _summed(bucket: _Bucket) -> Future[Tensor]:
    """Add a gradient up over processes. Nothing is left to compute meanwhile, so a process that is lost is met here."""
    with communication():
        work = distributed.all_reduce(bucket.buffer(), async_op=True)
        work.wait()
    total: Future[Tensor] = work.get_future().then(lambda done: done.value()[0])
    return total
