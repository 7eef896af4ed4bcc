r"""Confidence intervals of a share of people, from the number of randomized reports that name a class.

A report names a class with probability p if its person has the class, and with probability q otherwise. Let
:math:`\theta` be the share among all people, and :math:`\mu = \theta - \delta` the expected share among those who
reported. The number S of n reports that name the class has

.. math:: E\,S = n\,(q + g\,\mu), \qquad
    \mathrm{Var}\,S = n \left[ \mu\,p(1-p) + (1-\mu)\,q(1-q) + g^2\,u\,\theta(1-\theta) \right], \qquad g = p - q

The last term is the chance of who reports. The factor u is 0 if everybody of a group did, 1 for a sample of a large
population, :math:`(N-n)/(N-1)` for n of N people, and less if a model knows something of the others.
S is taken as binomial with these two moments. That is exact for a large population and close to exact otherwise. It is
right for small counts too, where a normal interval is not.

An interval holds every share that a test does not reject. The test orders counts by their likelihood ratio against
the best possible share (Feldman and Cousins 1998): an interval is never empty, and its level is right for shares
of 0 and 1 too, where cutting off a normal interval would make it hold too often. Counts as unlikely as the observed
one are half in the tail (mid-p, Lancaster 1961), because whole tails of a discrete count hold too often.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.privacy.frequency import estimate_frequencies
from veilgraph.privacy.mechanisms.channel import SymmetricChannel

_SHARES, _COUNTS = 121, 300
"""Number of shares that are tested, and of counts that a test looks at, at most."""

_SPAN = 2.5
"""Standard errors that are searched beyond the ends of a normal interval."""

_TAIL = 6.0
"""Standard deviations of a count beyond which it is left out."""

_TIES = 1e-9
"""Difference of logarithms up to which two counts are equally likely."""


def share_intervals(
    named: float,
    reports: float,
    channel: SymmetricChannel,
    *,
    unseen: float,
    quantiles: Sequence[float],
    shift: float = 0.0,
) -> list[tuple[float, float]]:
    """Return the intervals of the share of people who have a class, one for each quantile.

    Args:
        named: number of reports that name the class, S.
        reports: number of reports, n; of weighted reports, the effective number.
        channel: the channel that the reports went through.
        unseen: u, from 0 (everybody reported) to 1 (a sample of a large population).
        quantiles: z of each interval: its level is that of z standard errors on each side of a normal estimate.
        shift: delta, the share among all people less the expected share among those who reported.

    Half of 40 answers name a class that everybody was asked about, and nothing was randomized: there is no doubt.
    With randomization at epsilon 1 there is.

    >>> from veilgraph.privacy.mechanisms import GRR
    >>> share_intervals(20, 40, GRR(2, math.inf).channel, unseen=0, quantiles=[1.645])
    [(0.5, 0.5)]
    >>> ((low, high),) = share_intervals(20, 40, GRR(2, 1.0).channel, unseen=0, quantiles=[1.645])
    >>> round(low, 2), round(high, 2)
    (0.25, 0.75)

    Nobody has the class that nobody named: the interval reaches 0, and ends where 0 reports become unlikely.

    >>> ((low, high),) = share_intervals(0, 40, GRR(2, math.inf).channel, unseen=1, quantiles=[1.645])
    >>> low, round(high, 2)
    (0.0, 0.05)
    """
    counts = _Counts(reports, float(channel.keep), float(channel.other), unseen, shift)
    estimate = float(estimate_frequencies(np.float64(named / reports), channel)) + shift
    best = min(max(estimate, 0.0), 1.0)
    if channel.keep == 1 and channel.other == 0 and unseen == 0:
        return [(best, best)] * len(quantiles)
    # The widest standard error near the estimate: at a share of 0, a count has less spread than at the far end.
    reach = _SPAN + max(quantiles)
    error = max(counts.error(np.array([best]))[0], counts.error(np.array([0.5]))[0] / 4, 1 / reports)
    shares = np.linspace(max(0.0, best - reach * error), min(1.0, best + reach * error), _SHARES)
    tails = counts.tails(named, shares)
    return [_hull(shares, tails, best, math.erfc(z / math.sqrt(2))) for z in quantiles]


def _hull(shares: NDArray[np.float64], tails: NDArray[np.float64], best: float, level: float) -> tuple[float, float]:
    """Return the least and the greatest share that is not rejected, between the shares that were tested."""
    kept = np.flatnonzero(tails >= level)
    if not len(kept):
        return best, best
    first, last = int(kept[0]), int(kept[-1])
    low = shares[first] if first == 0 else np.interp(level, tails[first - 1 : first + 1], shares[first - 1 : first + 1])
    high = shares[last]
    if last < len(shares) - 1:
        high = np.interp(level, tails[last : last + 2][::-1], shares[last : last + 2][::-1])
    return min(float(low), best), max(float(high), best)


@dataclass(frozen=True)
class _Counts:
    """The distribution of the number of reports that name a class, for each share of people who have it."""

    reports: float
    keep: float
    other: float
    unseen: float
    shift: float

    def moments(self, shares: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean and variance of the count for each share."""
        keep, other = self.keep, self.other
        reporting = (shares - self.shift).clip(0, 1)
        between = np.maximum(shares * (1 - shares), reporting * (1 - reporting))
        each = reporting * keep * (1 - keep) + (1 - reporting) * other * (1 - other)
        variance = self.reports * (each + (keep - other) ** 2 * self.unseen * between)
        return self.reports * (other + (keep - other) * reporting), variance

    def error(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the standard error of the estimate for each share."""
        return np.asarray(np.sqrt(self.moments(shares)[1]) / (self.reports * (self.keep - self.other)))

    def best(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the share with which a count agrees best."""
        observed = (counts / self.reports - self.other) / (self.keep - self.other)
        return np.asarray((observed + self.shift).clip(0, 1))

    def tails(self, named: float, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability of counts as unlikely as the observed one, for each share (mid-p)."""
        counts = self._counts_around(named, shares)
        logs = self.log_probabilities(counts[None, :], shares[:, None])
        best = np.maximum(self.log_probabilities(counts, self.best(counts)), logs.max(axis=0))
        ratios = logs - best
        observed = ratios[:, np.searchsorted(counts, named), None]
        probabilities = np.exp(logs)
        less, tied = ratios < observed - _TIES, np.abs(ratios - observed) <= _TIES
        weights = less + tied / 2
        return np.asarray((probabilities * weights).sum(axis=1) / probabilities.sum(axis=1))

    def _counts_around(self, named: float, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the counts that are possible for the shares; of very many, equally spaced ones."""
        means, variances = self.moments(shares[[0, -1]])
        far = _TAIL * np.sqrt(variances) + _TAIL
        low, high = min(named, max(0.0, means[0] - far[0])), max(named, min(self.reports, means[1] + far[1]))
        step = max(1, math.ceil((high - low) / _COUNTS))
        before, after = int((named - low) // step), int((high - named) // step)
        return np.asarray(named + step * np.arange(-before, after + 1, dtype=np.float64))

    def log_probabilities(self, counts: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the logarithm of the probability of each count: binomial, with the mean and variance of the share.

        The binomial starts from the nearer end, from which counts are few.
        """
        from scipy.special import gammaln, xlog1py, xlogy  # slow to import

        mean, variance = self.moments(shares)
        turned = mean > self.reports / 2
        mean = np.where(turned, self.reports - mean, mean).clip(1e-9)
        count = np.where(turned, self.reports - counts, counts)
        chance = (1 - variance / mean).clip(1e-9, 1 - 1e-9)
        size = mean / chance
        rest: Any = np.maximum(size - count, -0.5)
        logs = gammaln(size + 1) - gammaln(count + 1) - gammaln(rest + 1)
        logs = logs + xlogy(count, chance) + xlog1py(rest, -chance)
        return np.asarray(np.where(count > size + 0.5, -1e9 - count, logs))
