"""Estimates of accuracy from label reports that the predictions did not use: no true label is needed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.models.conformal import possible_reports
from veilgraph.privacy.estimate import QUANTILE, Estimate
from veilgraph.privacy.frequency import reports_needed
from veilgraph.privacy.mechanisms import LabelMechanism

BIN_HALF_WIDTH = 0.1
"""Half-width that the interval of a calibration bin has at most; it decides how many bins there are."""

_MAX_BINS = 10


@dataclass(frozen=True, kw_only=True)
class CalibrationBin:
    """Predictions of similar probability.

    Attributes:
        lowest: lowest probability of the predicted class in the bin.
        stated: mean probability of the predicted class: what the model says of itself.
        found: share of right predictions.
    """

    lowest: float
    stated: float
    found: Estimate


@dataclass(frozen=True, kw_only=True)
class ClassEstimates:
    """Estimates for one class.

    Attributes:
        predicted: share of the people for whom the class is predicted.
        precision: share of those with this prediction who have the class.
        recall: share of those who have the class for whom it is predicted.
    """

    predicted: float
    precision: Estimate
    recall: Estimate


@dataclass(frozen=True, kw_only=True, eq=False)
class UnusedReports:
    r"""Predictions, and label reports of the same people that the predictions did not use.

    A report names class x with probability c_x if the person has another class, and with c_x + g if they have it:
    g = p - q is the gain of the channel. So

    .. math:: d_v(x) = \frac{1[x \in y'_v] - c_x}{g}, \qquad E[d_v(x) \mid y_v] = 1[x = y_v]

    and the mean of :math:`d_v(\hat y_v)` is an unbiased estimate of the share of right predictions :math:`\hat y`.
    Intervals are for the people that the reporting ones are a random sample of, for fixed predictions. Those of shares
    are Wilson's score intervals of the reports, mapped by the same line; those of ratios are Fieller's.

    Attributes:
        nodes: numbers of the people, [reports].
        probabilities: class probabilities that were computed without the person's report, [reports, classes].
        named: whether a report names a class, [reports, classes].
        mechanism: mechanism that randomized the labels.
        lies: share of reports like this one that were not randomized, [reports]; default: 0 for all.
        lies_name: share of those that name each class, [classes].
        unrandomized: likelihood of possible reports [reports] that were not randomized, added to the likelihood of the
            mechanism.

    >>> from veilgraph.privacy.mechanisms import GRR
    >>> truth = np.arange(400) % 2
    >>> judged = UnusedReports(nodes=np.arange(400), probabilities=np.tile([0.9, 0.1], (400, 1)),
    ...     named=np.eye(2, dtype=bool)[truth], mechanism=GRR(2, float("inf")))
    >>> judged.accuracy()
    Estimate(value=0.5, low=0.4512..., high=0.5487..., reports=400)
    """

    nodes: NDArray[np.int64] = field(repr=False)
    probabilities: NDArray[np.float64] = field(repr=False)
    named: NDArray[np.bool_] = field(repr=False)
    mechanism: LabelMechanism
    lies: NDArray[np.float64] | None = field(default=None, repr=False)
    lies_name: tuple[float, ...] = ()
    unrandomized: Callable[[NDArray[np.bool_]], NDArray[np.float64]] | None = field(default=None, repr=False)

    @property
    def predicted(self) -> NDArray[np.int64]:
        """Predicted class of each person, [reports]."""
        return np.asarray(self.probabilities.argmax(axis=1))

    @property
    def gains(self) -> NDArray[np.float64]:
        """Increase of the probability that a report names a class if it is the true one, [reports]."""
        gain = float(self.mechanism.channel.gain)
        return np.full(len(self.named), gain) if self.lies is None else (1 - self.lies) * gain

    def debiased(self, classes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the unbiased estimate d of whether each person has the class that is given for them, [reports]."""
        return np.asarray((self._named(classes) - self._chance(classes)) / self.gains)

    def _named(self, classes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether each report names the class that is given for it, [reports]."""
        return np.asarray(self.named[np.arange(len(classes)), classes])

    def _chance(self, classes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the probability that each report names the given class, if it is not the true one, [reports]."""
        other = float(self.mechanism.channel.other)
        if self.lies is None:
            return np.full(len(classes), other)
        return np.asarray((1 - self.lies) * other + self.lies * np.array(self.lies_name)[classes])

    def of(self, people: NDArray[np.bool_]) -> UnusedReports:
        """Return the reports of some of the people only, by a mask [reports]."""
        return replace(
            self,
            nodes=self.nodes[people],
            probabilities=self.probabilities[people],
            named=self.named[people],
            lies=None if self.lies is None else self.lies[people],
        )

    def with_predictions(self, probabilities: NDArray[Any]) -> UnusedReports:
        """Return the same reports for other predictions that did not use them, [reports, classes]."""
        return replace(self, probabilities=np.asarray(probabilities, dtype=np.float64))

    def accuracy(self) -> Estimate:
        """Estimate the share of people whose true class is predicted."""
        classes = self.predicted
        if not (count := len(classes)):
            return Estimate.none()
        observed = float(self._named(classes).mean())
        chance, gain = float(self._chance(classes).mean()), float(self.gains.mean())
        value, low, high = ((end - chance) / gain for end in (observed, *wilson_interval(observed, count)))
        return Estimate.of(value, low, high, reports=count)

    def stated_accuracy(self) -> float:
        """Return the accuracy that the probabilities state: their mean for the predicted class."""
        return float(self.probabilities.max(axis=1).mean()) if len(self.nodes) else math.nan

    def accuracy_with_own_report(self, seed: int = 0) -> Estimate:
        r"""Estimate the accuracy for people whose own report is used as well.

        The prediction is then the class with the greatest :math:`p_v(x) P(y'_v | x)`. Whether it is right for a person
        of class x is averaged over the reports that they might have sent, so that the report still judges without bias:

        .. math:: \frac{1}{n} \sum_v \sum_x d_v(x)\, a_v(x), \qquad
            a_v(x) = \sum_{y'} P(y' | x)\, 1[\arg\max_z p_v(z) P(y' | z) = x]

        The interval is for the predictions of these people. Whether each is right is a draw with probability a, which
        adds the mean of a (1 - a) to the variance.
        """
        if not len(self.nodes):
            return Estimate.none()
        right = np.zeros(self.named.shape)
        possible = possible_reports(self.mechanism, np.random.default_rng(seed))
        likelihood = np.where(possible, float(self.mechanism.likelihood.keep), float(self.mechanism.likelihood.other))
        rates = likelihood / likelihood.sum(axis=0)
        if self.unrandomized is not None:
            likelihood = likelihood + self.unrandomized(possible)[:, None]
        people = np.arange(len(self.nodes))
        for like, rate in zip(likelihood, rates, strict=True):
            best = (self.probabilities * like).argmax(axis=1)
            right[people, best] += rate[best]
        every = [np.full(len(people), code) for code in range(self.mechanism.domain_size)]
        terms = sum(self.debiased(code) * chance for code, chance in zip(every, right.T, strict=True))
        drawn = sum(float((self.debiased(code) * a * (1 - a)).mean()) for code, a in zip(every, right.T, strict=True))
        return _mean_estimate(np.asarray(terms), added_variance=max(drawn, 0.0))

    def difference(self, other: UnusedReports) -> Estimate:
        """Estimate by how much these predictions are more accurate than others, judged by the same reports.

        People for whom both predict the same add nothing, so this interval is narrower than that of one accuracy.
        """
        first, second = self.accuracy(), other.accuracy()
        if not first.reports:
            return Estimate.difference(first, second, first)
        paired = _mean_estimate(self.debiased(self.predicted) - self.debiased(other.predicted), lowest=-1)
        return Estimate.difference(first, second, paired)

    def calibration(self) -> list[CalibrationBin]:
        """Compare stated probabilities with estimated shares of right predictions, in bins of equally many people.

        There are as many bins, ten at most, as leave each the reports that an interval of ±10 points needs.
        """
        stated = self.probabilities.max(axis=1)
        needed = reports_needed(self.mechanism.channel, BIN_HALF_WIDTH, quantile=QUANTILE)
        count = max(1, min(_MAX_BINS, len(stated) // needed))
        order = np.argsort(stated, kind="stable")
        bins = []
        for part in np.array_split(order, count):
            if len(part):
                people = np.isin(np.arange(len(stated)), part)
                bins.append(
                    CalibrationBin(
                        lowest=float(stated[part].min()),
                        stated=float(stated[part].mean()),
                        found=self.of(people).accuracy(),
                    )
                )
        return bins

    def certain(self, threshold: float) -> tuple[float, Estimate]:
        """Return the share of people whose predicted class has this probability or more, and the accuracy for them."""
        people = self.probabilities.max(axis=1) >= threshold
        return float(people.mean()) if len(people) else math.nan, self.of(people).accuracy()

    def by_class(self) -> list[ClassEstimates]:
        """Estimate precision and recall of each class."""
        predicted, rows = self.predicted, []
        for code in range(self.mechanism.domain_size):
            chosen, everyone = predicted == code, np.full(len(predicted), code)
            debiased = self.debiased(everyone)
            rows.append(
                ClassEstimates(
                    predicted=float(chosen.mean()) if len(chosen) else math.nan,
                    precision=self.of(chosen).accuracy(),
                    recall=_ratio_estimate(debiased * chosen, debiased),
                )
            )
        return rows


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    r"""Return Wilson's score interval of a share of `count` independent observations.

    It holds the shares s with :math:`(\hat s - s)^2 \le z^2 s (1 - s) / n`, and has a width even if all agree.

    >>> [round(end, 3) for end in wilson_interval(1.0, 10)]
    [0.722, 1.0]
    """
    z2 = QUANTILE**2
    centre, scale = (share + z2 / (2 * count)), 1 + z2 / count
    half = QUANTILE * math.sqrt(share * (1 - share) / count + z2 / (4 * count**2))
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


def _mean_estimate(terms: NDArray[np.float64], *, lowest: float = 0.0, added_variance: float = 0.0) -> Estimate:
    """Return the mean of independent terms with a normal interval, within `lowest` to 1."""
    variance = float(terms.var(ddof=1)) + added_variance if len(terms) > 1 else math.inf
    error = math.sqrt(variance / len(terms))
    return Estimate.normal(float(terms.mean()), error, reports=len(terms), lowest=lowest)


def _ratio_estimate(numerators: NDArray[np.float64], denominators: NDArray[np.float64]) -> Estimate:
    r"""Return the ratio of two means with Fieller's interval, within 0..1.

    It holds the ratios r for which the mean of :math:`a_v - r\, b_v` is within z standard errors of 0. Where the
    denominator itself may be 0, that is everything.
    """
    count = len(numerators)
    if count < 2:
        return replace(Estimate.none(), reports=count)
    mean_a, mean_b = float(numerators.mean()), float(denominators.mean())
    (var_a, cov), (_, var_b) = np.cov(numerators, denominators) / count
    z2 = QUANTILE**2
    square, linear, constant = mean_b**2 - z2 * var_b, mean_a * mean_b - z2 * cov, mean_a**2 - z2 * var_a
    if mean_b <= 0:
        return replace(Estimate.none(), reports=count)
    inside = linear**2 - square * constant
    if square <= 0 or inside < 0:
        return Estimate.of(mean_a / mean_b, -math.inf, math.inf, reports=count)
    half = math.sqrt(inside)
    return Estimate.of(mean_a / mean_b, (linear - half) / square, (linear + half) / square, reports=count)
