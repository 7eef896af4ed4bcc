"""What training minimises, and the score that selection may see."""

from __future__ import annotations

from torch import Tensor

from veilgraph.mechanisms import SymmetricChannel
from veilgraph.reconstruct.proportions import Bags

_FLOOR = 1e-6


def proportion_loss(probabilities: Tensor, bags: Bags) -> Tensor:
    r"""Algorithm 3, line 12: the mean over bags of :math:`D_{KL}(\hat b_r \| \tilde b_r)`.

    The predicted proportion is the mean prediction over the labelled members of a bag. Estimated proportions can be
    zero, where the divergence would be infinite, so both are floored at 1e-6 before the logarithm.
    """
    predicted = (bags.membership @ probabilities).clamp(min=_FLOOR)
    target = bags.proportions.clamp(min=_FLOOR)
    return (predicted * (predicted / target).log()).sum(dim=1).mean()


def noisy_log_likelihood(probabilities: Tensor, labels: Tensor, channel: SymmetricChannel) -> Tensor:
    r"""Mean :math:`\ln [\hat y P]_{y'}`: how well predictions explain randomized labels. No clean label enters.

    >>> import torch
    >>> from veilgraph.mechanisms import GRR
    >>> sure = torch.tensor([[1.0, 0.0]])
    >>> round(float(noisy_log_likelihood(sure, torch.tensor([0]), GRR(2, 1.0).channel)), 4)  # ln p
    -0.3133
    """
    chance = probabilities.gather(1, labels.unsqueeze(1)) * float(channel.gain) + float(channel.other)
    return chance.clamp(min=_FLOOR).log().mean()
