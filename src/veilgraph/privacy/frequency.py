r"""Unbiased frequency estimates from randomized reports, with their variances.

A report of value j has probability :math:`\lambda_j = other + \pi_j (keep - other)`, so

.. math:: \tilde\pi_j = \frac{\lambda'_j - other}{keep - other}

is unbiased for the share :math:`\pi_j` of people who hold j. With the channel of GRR this is the paper's
:math:`P^{-1}\lambda'` (`eq:poly_rr_pi`). With the diluted channel of GRR-FS it is `eq:grr_fs_estimate`:
undo the uniform padding and undo GRR, in one affine map. A report of subset selection names several classes:
:math:`\lambda'_j` is the share of reports that name class j, and the same estimate and variances hold for each class.

There are two variances, for two questions:

- `population_variance`: people are drawn from a population. A report is binomial and the variance is
  :math:`\lambda(1-\lambda) / (n\,gain^2)`. The paper uses this one, and drops a factor 1/gamma in lambda.
- `fixed_people_variance`: the people are fixed and only the randomizer is random. Holders and non-holders are two
  binomials, and the variance is smaller.

Where only some people are asked about a feature, n counts their answers, and `asking_variance` adds the variance of
who is asked.

Weighted neighbourhoods: for weights w that sum to 1, n becomes the effective sample size :math:`1 / \sum_u w_u^2`.

Estimates and variances take numpy arrays or torch tensors and return the same kind, so that none of them needs torch.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from veilgraph.privacy.mechanisms.base import LabelMechanism
from veilgraph.privacy.mechanisms.channel import SymmetricChannel

# 1 MB for each dense array of `count_named`, [reports of a block, classes].
_BLOCK_ENTRIES = 2**20


class Array(Protocol):
    """The operations that the estimators need: numpy arrays and torch tensors have them."""

    def __radd__(self, other: Any, /) -> Any: ...
    def __sub__(self, other: Any, /) -> Any: ...
    def __rsub__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...
    def __rmul__(self, other: Any, /) -> Any: ...
    def __truediv__(self, other: Any, /) -> Any: ...
    def __pow__(self, other: Any, /) -> Any: ...
    def clip(self, low: Any, high: Any, /) -> Any:
        """Return the entries, limited to low..high."""


AnyArray = TypeVar("AnyArray", bound=Array)
AnyArray_co = TypeVar("AnyArray_co", bound=Array, covariant=True)


class Channel(Protocol[AnyArray_co]):
    """A symmetric channel, or one channel per row: arrays that broadcast against the shares."""

    @property
    def gain(self) -> Fraction | AnyArray_co:
        """keep - other."""

    @property
    def other(self) -> Fraction | AnyArray_co:
        """Probability of reporting each value that is not the true one."""


def estimate_frequencies(observed: AnyArray, channel: Channel[AnyArray], *, in_place: bool = False) -> AnyArray:
    """Estimate the shares of people from the shares of reports.

    Args:
        observed: share of reports of each value. The shares of all values of a feature sum to 1.
        channel: the channel that the reports went through.
        in_place: overwrite `observed` with the result.

    >>> import numpy as np
    >>> from veilgraph.privacy.mechanisms import GRR
    >>> channel = GRR(2, 1.0).channel
    >>> everyone_holds_it = np.array([float(channel.keep)])
    >>> round(float(estimate_frequencies(everyone_holds_it, channel)[0]), 9)
    1.0
    """
    other, gain = _number(channel.other), _number(channel.gain)
    estimates: Any = observed
    if in_place:
        estimates -= other
    else:
        estimates = observed - other
    estimates /= gain
    result: AnyArray = estimates
    return result


def count_named(reports: NDArray[Any], mechanism: LabelMechanism) -> NDArray[np.int64]:
    """Return the number of label reports that name each class, [classes]; divided by n, it is `observed`.

    >>> from veilgraph.privacy.mechanisms import GRR, SubsetSelection
    >>> count_named(np.array([2, 0, 2]), GRR(3, 1.0)).tolist()
    [1, 0, 2]
    >>> sets = SubsetSelection(4, 0.5)
    >>> count_named(sets.encode([(0, 1), (0, 3)]), sets).tolist()
    [2, 1, 0, 1]
    """
    counts = np.zeros(mechanism.domain_size, dtype=np.int64)
    rows = max(1, _BLOCK_ENTRIES // mechanism.domain_size)
    for start in range(0, len(reports), rows):
        counts += np.count_nonzero(mechanism.named(reports[start : start + rows]), axis=0)
    return counts


def reports_needed(channel: SymmetricChannel, half_width: float, *, quantile: float) -> int:
    r"""Return the number of reports with which an interval has a given half-width at most, whatever the true share is.

    .. math:: n = \left\lceil \frac{z^2\,\max_\lambda \lambda(1-\lambda)}{h^2\,gain^2} \right\rceil,
        \qquad other \le \lambda \le keep

    Args:
        channel: the channel that the reports go through.
        half_width: h, half the width of the interval.
        quantile: z, the number of standard errors on each side of the estimate.

    An interval of 5 points on each side, at 95 %, with 18 classes and epsilon 1: label sets need fewer reports.

    >>> from veilgraph.privacy.mechanisms import GRR, SubsetSelection
    >>> [reports_needed(m.channel, 0.05, quantile=1.96) for m in (GRR(18, 1.0), SubsetSelection(18, 1.0))]
    [24051, 5814]
    """
    widest = min(max(Fraction(1, 2), channel.other), channel.keep)
    variance = widest * (1 - widest) / channel.gain**2
    return math.ceil(quantile**2 * float(variance) / half_width**2)


def expected_observation(frequencies: AnyArray, channel: Channel[AnyArray]) -> AnyArray:
    """Return lambda, the expected share of reports for given shares of people."""
    observed: AnyArray = _number(channel.other) + frequencies * _number(channel.gain)
    return observed


def population_variance(frequencies: AnyArray, channel: Channel[AnyArray], sample_size: AnyArray | float) -> AnyArray:
    """Return the variance of an estimate when n people are drawn from a population and randomize.

    Estimates can lie outside 0..1. They are clipped first, so that a variance is never negative and a single report
    never has variance 0.

    >>> import numpy as np
    >>> from veilgraph.privacy.mechanisms import GRR
    >>> round(float(population_variance(np.array(0.5), GRR(2, 1.0).channel, 100)), 5)  # 1 / (4 n tanh(1/2)^2)
    0.01171
    """
    observed = expected_observation(frequencies.clip(0, 1), channel)
    variance: AnyArray = observed * (1 - observed) / (sample_size * _number(channel.gain) ** 2)
    return variance


def asking_variance(
    frequencies: AnyArray,
    channel: Channel[AnyArray],
    sample_size: AnyArray | float,
    *,
    anchor: AnyArray | float,
    rate: float,
) -> AnyArray:
    r"""Return the variance that is added when each person is asked with probability `rate`.

    A person who is not asked counts as `anchor`. For n answers, the added variance is

    .. math:: (1 - r) \frac{(\lambda - c)^2}{n\,gain^2}

    It is 0 where the anchor c equals the expected share of reports.

    >>> import numpy as np
    >>> from veilgraph.privacy.mechanisms import GRR
    >>> float(asking_variance(np.array(0.5), GRR(2, 1.0).channel, 100, anchor=0.5, rate=0.1))
    0.0
    """
    observed = expected_observation(frequencies.clip(0, 1), channel)
    variance: AnyArray = (1 - rate) * (observed - anchor) ** 2 / (sample_size * _number(channel.gain) ** 2)
    return variance


def fixed_people_variance(frequencies: AnyArray, channel: SymmetricChannel, sample_size: AnyArray | float) -> AnyArray:
    """Return the variance of an estimate over the randomizer alone, for n people with these true shares."""
    keep, other = float(channel.keep), float(channel.other)
    holders, others = keep * (1 - keep), other * (1 - other)
    held = frequencies.clip(0, 1)
    variance: AnyArray = (held * holders + (1 - held) * others) / (sample_size * float(channel.gain) ** 2)
    return variance


def estimated_variance(observed: AnyArray, channel: Channel[AnyArray], sample_size: AnyArray | float) -> AnyArray:
    """Estimate `population_variance` without bias from a plain sample of n >= 2 reports (`eq:grr_fs_variance`)."""
    variance: AnyArray = observed * (1 - observed) / ((sample_size - 1) * _number(channel.gain) ** 2)
    return variance


def _number(share: Fraction | AnyArray) -> float | AnyArray:
    return float(share) if isinstance(share, Fraction) else share
