"""ReplicaAdam equals torch's Adam on each row."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from veilgraph.models.engine.replica_weights import ReplicaAdam

RATES = [0.001, 0.01, 0.03, 0.1]
DECAYS = [0.0, 0.1, 0.0, 0.01]
STEPS = 200


def pull(weights: Tensor, targets: Tensor) -> Tensor:
    """Return a smooth objective, separate for each row."""
    return ((weights - targets).square() * torch.tensor([1.0, 10.0, 0.1])).sum() + weights.sin().sum()


@pytest.mark.parametrize("decays", [DECAYS, [0.0] * 4], ids=["decay", "no decay"])
def test_every_replica_moves_as_with_torchs_adam(decays: list[float]) -> None:
    generator = torch.Generator().manual_seed(0)
    start, targets = torch.randn(4, 3, generator=generator), torch.randn(4, 3, generator=generator)
    together = start.clone().requires_grad_()
    ours = ReplicaAdam(together, learning_rates=RATES, weight_decays=decays)
    alone = [row.clone().requires_grad_() for row in start]
    theirs = [
        torch.optim.Adam([row], lr=rate, weight_decay=decay)
        for row, rate, decay in zip(alone, RATES, decays, strict=True)
    ]
    for _ in range(STEPS):
        pull(together, targets).backward()  # type: ignore[no-untyped-call]
        ours.step()
        for row, target, optimizer in zip(alone, targets, theirs, strict=True):
            optimizer.zero_grad()
            pull(row, target).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    # A step is at most about one learning rate long and is rounded a few times. The objective has a minimum, so that
    # rounding errors do not grow: allow ten of each step's, of numbers of the order of 1.
    tolerance = 10 * STEPS * torch.finfo(torch.float32).eps * max(RATES)
    assert torch.allclose(together, torch.stack(alone), rtol=0, atol=tolerance)
    assert (together - start).abs().min() > 100 * tolerance  # they did move


def test_a_gradient_is_used_once() -> None:
    weights = torch.ones(2, 1, requires_grad=True)
    optimizer = ReplicaAdam(weights, learning_rates=[0.1, 0.1], weight_decays=[0.0, 0.0])
    weights.sum().backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    assert weights.grad is None
    with pytest.raises(RuntimeError, match="there is no gradient"):
        optimizer.step()


def test_a_replica_that_diverges_does_not_change_the_others() -> None:
    start = torch.randn(2, 3, generator=torch.Generator().manual_seed(1))
    spoilt, sound = start.clone(), start.clone()
    for weights, gradient in ((spoilt, torch.tensor([[float("nan")], [1.0]])), (sound, torch.ones(2, 1))):
        optimizer = ReplicaAdam(weights, learning_rates=[0.1, 0.2], weight_decays=[0.5, 0.0])
        for _ in range(3):
            weights.grad = gradient.expand(2, 3).clone()
            optimizer.step()
    assert spoilt[0].isnan().all()
    assert torch.equal(spoilt[1], sound[1])
