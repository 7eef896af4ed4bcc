r"""Unbiased frequency estimates from randomized reports, and how far to trust them.

A report of value j has probability :math:`\lambda_j = other + \pi_j (keep - other)`, so

.. math:: \tilde\pi_j = \frac{\lambda'_j - other}{keep - other}

is unbiased for the share :math:`\pi_j` of people who hold j. With GRR's channel this is the paper's
:math:`P^{-1}\lambda'` (`eq:poly_rr_pi`), with GRR-FS's diluted channel it is `eq:grr_fs_estimate`:
undo the uniform padding and undo GRR, in one affine map.

Two variances, for two questions. People drawn from a population: a report is binomial, the variance is
:math:`\lambda(1-\lambda) / (n\,gain^2)`. These very people, only the randomizer drawn anew: holders and others
are two binomials, the variance is smaller. The paper uses the first (and drops a factor 1/gamma in lambda).

Where only some people are asked about a feature, n counts those who are, and `asking_variance` adds what comes of
who they happen to be.

Weighted neighbourhoods: for weights w that sum to 1, n becomes the effective sample size :math:`1 / \sum_u w_u^2`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from veilgraph.privacy.mechanisms import MultiBit, SymmetricChannel


@dataclass(frozen=True, kw_only=True, eq=False)
class ChannelRows:
    """The channels of reports that went through different ones: numbers that broadcast against shares.

    Attributes:
        gain: of each.
        other: of each.
    """

    gain: Tensor
    other: Tensor

    @classmethod
    def of(cls, channels: Sequence[SymmetricChannel], device: torch.device, *, dims: int) -> ChannelRows:
        """One after another along the first of so many dimensions.

        >>> from veilgraph.privacy.mechanisms import GRR
        >>> ChannelRows.of([GRR(2, 1.0).channel] * 3, torch.device("cpu"), dims=2).gain.shape
        torch.Size([3, 1])
        """
        numbers = torch.tensor([[float(each.gain), float(each.other)] for each in channels])
        gain, other = numbers.to(device).view(-1, 2, *[1] * (dims - 1)).unbind(1)
        return cls(gain=gain, other=other)

    def at(self, rows: Tensor) -> ChannelRows:
        """Of some rows, in the order given."""
        return ChannelRows(gain=self.gain[rows], other=self.other[rows])


Channel = SymmetricChannel | ChannelRows


def estimate_frequencies(observed: Tensor, channel: Channel, *, in_place: bool = False) -> Tensor:
    """Unbiased shares from observed shares, which must each be of reports that sum to 1.

    Args:
        observed: shares of reports.
        channel: that the reports went through.
        in_place: write the result over what was observed.

    >>> from veilgraph.privacy.mechanisms import GRR
    >>> channel = GRR(2, 1.0).channel
    >>> all_hold_it = torch.tensor([float(channel.keep)], dtype=torch.float64)
    >>> round(float(estimate_frequencies(all_hold_it, channel)), 9)
    1.0
    """
    found = observed if in_place else observed.clone()
    return found.sub_(_number(channel.other)).div_(_number(channel.gain))


def expected_observation(frequencies: Tensor, channel: Channel) -> Tensor:
    """lambda: the share of reports that shares of people lead to."""
    return _number(channel.other) + frequencies * _number(channel.gain)


def population_variance(frequencies: Tensor, channel: Channel, sample_size: Tensor | float) -> Tensor:
    """Variance of an estimate over the randomizer *and* who was drawn: n people from a population.

    Frequencies outside 0..1 (estimates can be) count as the nearest possible one, so that a variance is never
    negative and a single report is never called certain.

    >>> from veilgraph.privacy.mechanisms import GRR
    >>> round(float(population_variance(torch.tensor(0.5), GRR(2, 1.0).channel, 100)), 5)  # 1 / (4 n tanh(1/2)^2)
    0.01171
    """
    observed = expected_observation(frequencies.clamp(0, 1), channel)
    return observed * (1 - observed) / (sample_size * _number(channel.gain) ** 2)


def asking_variance(
    frequencies: Tensor,
    channel: Channel,
    sample_size: Tensor | float,
    *,
    anchor: Tensor | float,
    rate: float,
) -> Tensor:
    r"""What it adds to a variance that each person is asked with probability `rate`, and counts as `anchor` if not.

    .. math:: (1 - r) \frac{(\lambda - c)^2}{n\,gain^2}

    for n answers. It vanishes where the anchor c is the share that would have been reported anyway.

    >>> from veilgraph.privacy.mechanisms import GRR
    >>> float(asking_variance(torch.tensor(0.5), GRR(2, 1.0).channel, 100, anchor=0.5, rate=0.1))
    0.0
    """
    observed = expected_observation(frequencies.clamp(0, 1), channel)
    return (1 - rate) * (observed - anchor) ** 2 / (sample_size * _number(channel.gain) ** 2)


def fixed_people_variance(frequencies: Tensor, channel: SymmetricChannel, sample_size: Tensor | float) -> Tensor:
    """Variance of an estimate over the randomizer alone: these n people, whose true shares are `frequencies`."""
    keep, other = float(channel.keep), float(channel.other)
    holders, others = keep * (1 - keep), other * (1 - other)
    held = frequencies.clamp(0, 1)
    return (held * holders + (1 - held) * others) / (sample_size * _number(channel.gain) ** 2)


def estimated_variance(observed: Tensor, channel: Channel, sample_size: Tensor | float) -> Tensor:
    """An unbiased estimate of `population_variance` from a plain sample of n >= 2 reports (`eq:grr_fs_variance`)."""
    return observed * (1 - observed) / ((sample_size - 1) * _number(channel.gain) ** 2)


def multi_bit_values(reports: Tensor, mechanism: MultiBit) -> Tensor:
    r"""Unbiased values from multi-bit reports, entry by entry.

    .. math:: \tilde x = \frac{d}{m} \cdot \frac{upper - lower}{2\,(2p - 1)}\, x' + \frac{lower + upper}{2}
    """
    lower, upper = (reports.new_tensor(ends, dtype=torch.float32) for ends in (mechanism.lower, mechanism.upper))
    (true, _, other), _ = mechanism.channel()
    return reports * (upper - lower) / (2 * float(true - other)) + (lower + upper) / 2


def project_to_simplex(estimates: Tensor) -> Tensor:
    """The nearest distribution in Euclidean distance, for each row (Held, Wolfe and Crowder 1974).

    >>> project_to_simplex(torch.tensor([[1.2, -0.1, -0.1], [0.2, 0.3, 0.5]]))
    tensor([[1.0000, 0.0000, 0.0000],
            [0.2000, 0.3000, 0.5000]])
    """
    # Adding a number to a whole row does not move its projection; near 0 the differences are exact.
    estimates = estimates - estimates.amax(dim=-1, keepdim=True)
    ordered = estimates.sort(dim=-1, descending=True).values
    ranks = torch.arange(1, estimates.shape[-1] + 1, device=estimates.device, dtype=estimates.dtype)
    excess = (ordered.cumsum(-1) - 1) / ranks
    support = (ordered > excess).sum(-1, keepdim=True)
    return (estimates - excess.gather(-1, support - 1)).clamp(min=0)


def _number(share: Fraction | Tensor) -> float | Tensor:
    return share if isinstance(share, Tensor) else float(share)
