"""Conformal prediction from randomized labels: sets of classes that hold the true one with a stated probability."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from veilgraph.distributed.communicator import LOCAL, Communicator
from veilgraph.errors import FitError
from veilgraph.models.saved_state import FittedState
from veilgraph.privacy.frequency import estimate_frequencies
from veilgraph.privacy.mechanisms import LabelMechanism

MODEL_ERROR = 0.1
"""Standard deviation of the error of model-based coverage, tau."""

_LARGEST_LOGIT, _STEP = 16.0, 1 / 64
_THRESHOLDS = round(2 * _LARGEST_LOGIT / _STEP) + 1
_VARIANCE, _REPORTING, _COVERAGE = "conformal.variance", "conformal.reporting", "conformal.coverage"
_REPORTS = "conformal.reports"
SAVED_TYPES: dict[str, Any] = {
    _VARIANCE: float,
    _REPORTS: int,
    _REPORTING: NDArray[np.bool_],
    _COVERAGE: NDArray[np.float64],
}
"""Names and types of what `ConformalSets.fitted_state` saves."""
_MAX_SETS, _MAX_ENTRIES = 64, 2**22


@dataclass(frozen=True, kw_only=True, eq=False)
class ConformalSets:
    r"""Sets of classes whose probability is at least a threshold, with the coverage of each threshold.

    A set holds the classes x with :math:`p_v(x) \ge \theta` (least ambiguous sets, Sadinle, Lei and Wasserman 2019).
    There are two thresholds: for nodes without a label report, and for nodes with one, which enters their p_v.
    For a requested coverage c, the threshold is the largest with

    .. math:: \hat C(\theta) \ge c\, (n + 1) / n

    Attributes:
        coverage: C^, the share of nodes whose set holds the true class [2, thresholds], for nodes without and with a
            report. Thresholds fall and coverage rises, up to 1 at the threshold 0.
        reporting: nodes of this process whose reports C^ was estimated from, [nodes].
        variance: variance of C^ that is due to randomization.
        reports_elsewhere: number of reports that are not in `reporting`, because other processes hold them.
    """

    coverage: NDArray[np.float64]
    reporting: NDArray[np.bool_]
    variance: float
    reports_elsewhere: int = 0

    def __post_init__(self) -> None:
        rising = self.coverage.shape == (2, _THRESHOLDS + 1) and bool((np.diff(self.coverage) >= 0).all())
        if not rising or self.reports < 1 or self.variance < 0:
            raise FitError("its coverage of sets is not one rising row for each kind of node")

    @property
    def reports(self) -> int:
        """Number of reports that the coverage was estimated from, n."""
        return int(self.reporting.sum()) + self.reports_elsewhere

    def without_nodes(self) -> ConformalSets:
        """Return the coverage without the names of the nodes that it was estimated from."""
        return replace(self, reporting=np.empty(0, dtype=np.bool_), reports_elsewhere=self.reports)

    def threshold(self, coverage: float) -> tuple[float, float]:
        """Return the least probability of a class in the set, for nodes without and with a report."""
        if not 0 < coverage < 1:
            raise FitError(f"coverage is {coverage}: it must be above 0 and below 1, for example 0.9")
        level = coverage * (self.reports + 1) / self.reports
        thresholds = np.append(thresholds_of_grid(), 0.0)
        silent, reporting = (thresholds[min(int(np.searchsorted(each, level)), _THRESHOLDS)] for each in self.coverage)
        return float(silent), float(reporting)

    def standard_error(self, coverage: float) -> float:
        """Return the standard error of the coverage, over the reports that it was estimated from."""
        return math.sqrt(coverage * (1 - coverage) / self.reports + self.variance)

    def sets(
        self,
        probabilities: NDArray[np.float32],
        reporting: NDArray[np.bool_],
        coverage: float,
        *,
        allow_empty: bool = False,
    ) -> NDArray[np.bool_]:
        """Return which classes are in the set of each node, [nodes, classes].

        Args:
            probabilities: class probabilities, [nodes, classes].
            reporting: nodes whose own label report entered the probabilities, [nodes].
            coverage: probability with which a set holds the true class.
            allow_empty: leave sets empty where no class reaches the threshold. Otherwise they get all classes: nothing
                is ruled out, and a set with one class is always one that reached the threshold.
        """
        silent, reported = self.threshold(coverage)
        chosen = np.asarray(probabilities >= np.where(reporting, reported, silent)[:, None])
        return chosen if allow_empty else chosen | ~chosen.any(axis=1, keepdims=True)

    def fitted_state(self) -> FittedState:
        """Return the state that a method saves; `from_state` takes it back."""
        return FittedState(
            values={_VARIANCE: self.variance, _REPORTS: self.reports_elsewhere},
            arrays={_REPORTING: self.reporting, _COVERAGE: self.coverage},
        )

    @classmethod
    def from_state(cls, state: FittedState) -> ConformalSets:
        """Return the sets of a saved state that has the names and types of `SAVED_TYPES`."""
        return cls(
            coverage=state.arrays[_COVERAGE],
            reporting=state.arrays[_REPORTING],
            variance=state.values[_VARIANCE],
            reports_elsewhere=state.values[_REPORTS],
        )


def thresholds_of_grid() -> NDArray[np.float64]:
    """Return the thresholds of `ConformalSets`, falling; equally spaced log-odds, so that they fit any model."""
    return 1 / (1 + np.exp(-np.linspace(_LARGEST_LOGIT, -_LARGEST_LOGIT, _THRESHOLDS)))


def calibrate_sets(
    probabilities: NDArray[np.float64],
    named: NDArray[np.bool_] | NDArray[np.float64],
    mechanism: LabelMechanism,
    *,
    unrandomized: Callable[[NDArray[np.bool_]], NDArray[np.float64]] | None = None,
    reporting: NDArray[np.bool_] | None = None,
    model_error: float = MODEL_ERROR,
    communicator: Communicator = LOCAL,
    every: Callable[[int], NDArray[np.int64]] | None = None,
) -> ConformalSets:
    r"""Estimate the coverage of every threshold from reports that the probabilities did not use.

    Whether a set holds the true class is not known. The report estimates its expectation given the true class without
    bias, by the inverse of the channel. With :math:`f_\theta(p_v, x)` the probability that the set of
    a person of class x holds x,

    .. math:: \hat C(\theta) = \frac{1}{n} \sum_v \sum_x
        \left[ (1 - \lambda)\, p_v(x) + \lambda\, \frac{1[x \in y'_v] - q}{p - q} \right] f_\theta(p_v, x)

    For nodes without a report f is 1 or 0. For nodes with one it is the mean over reports y' of class x: the set
    depends on y' through the posterior, in proportion to :math:`p_v(x) P(y' | x)`.

    The debiased part has variance :math:`s^2 = p (1 - p) / (n (p - q)^2)`, which is large if reports are few. The
    model-based part has none, and an unknown error of about :math:`\tau`. They are weighted as two measurements:
    :math:`\lambda = \tau^2 / (\tau^2 + s^2)`. Without randomization s is 0 and this is split conformal prediction.

    Args:
        probabilities: out-of-fold class probabilities p_v of reporting nodes, [reports, classes].
        named: classes that their reports name, [reports, classes]. If some reports were not randomized, numbers with
            the expectation that randomized reports would have.
        mechanism: that randomized the labels.
        unrandomized: likelihood of possible reports [reports] that were not randomized, added to the likelihood of the
            mechanism; default: all were.
        reporting: nodes of the graph that reported, [nodes]; default: a graph of reporting nodes alone.
        model_error: tau.
        communicator: collective operations over the processes that share the graph; each has its own reports.
        every: numbers of about every n-th report for a number n, the same in any number of processes; default: every
            n-th of this process.

    >>> from veilgraph.privacy.mechanisms import GRR
    >>> truth = np.arange(100) % 2
    >>> sure = np.where(np.eye(2)[truth] > 0, 0.8, 0.2)
    >>> sets = calibrate_sets(sure, np.eye(2, dtype=bool)[truth], GRR(2, float("inf")))
    >>> sets.sets(np.array([[0.8, 0.2], [0.5, 0.5]]), np.zeros(2, dtype=bool), 0.9).tolist()
    [[True, False], [True, True]]
    """
    total = partial(_total, communicator)
    count = int(total(np.array([len(named)], dtype=np.int64))[0])
    if count == 0:
        raise FitError("no label reports: coverage cannot be estimated; at least one node must report its label")
    keep, gain = float(mechanism.channel.keep), float(mechanism.channel.gain)
    noise = keep * (1 - keep) / (count * gain**2)
    trust = model_error**2 / (model_error**2 + noise)
    debiased = estimate_frequencies(named.astype(np.float64), mechanism.channel)
    weights = (probabilities + trust * (debiased - probabilities)) / count
    without = _coverage(probabilities, weights, total)
    possible = possible_reports(mechanism, np.random.default_rng(0))
    likelihood = np.where(possible, float(mechanism.likelihood.keep), float(mechanism.likelihood.other))
    if unrandomized is not None:
        likelihood += unrandomized(possible)[:, None]
    stride = max(1, -(-count * mechanism.domain_size * len(likelihood) // _MAX_ENTRIES))
    some = slice(None, None, stride) if every is None or stride == 1 else every(stride)
    with_reports = _coverage_with_reports(probabilities[some], weights[some] * count, likelihood, total)
    here = np.ones(count, dtype=np.bool_) if reporting is None else reporting
    return ConformalSets(
        coverage=np.stack([without, with_reports]),
        reporting=here,
        variance=trust * noise,
        reports_elsewhere=count - int(here.sum()),
    )


def _total(communicator: Communicator, numbers: NDArray[Any]) -> NDArray[Any]:
    """Add numbers up over processes."""
    return numbers if communicator.is_local else communicator.all_reduce_sum(torch.from_numpy(numbers)).numpy()


def _coverage(
    probabilities: NDArray[np.float64], weights: NDArray[np.float64], total: Callable[[NDArray[Any]], NDArray[Any]]
) -> NDArray[np.float64]:
    """Return the sum of the weights of probabilities that are at least a threshold, [thresholds + 1], made monotone.

    A coverage rises as the threshold falls. The estimate does so in expectation; noise makes it go down at places.
    """
    sums = np.bincount(_first_threshold(probabilities).ravel(), weights.ravel(), minlength=_THRESHOLDS + 1)
    return _monotone(total(sums).cumsum())


def _monotone(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of the least rising sequence above the values and the greatest below them, within 0..1.

    >>> _monotone(np.array([0.0, 0.6, 0.4, 1.1, 1.0]))
    array([0. , 0.5, 0.5, 1. , 1. ])
    """
    middle = (np.maximum.accumulate(values) + np.minimum.accumulate(values[::-1])[::-1]) / 2
    return np.asarray(middle.clip(0, 1))


def _first_threshold(probabilities: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the position of the largest threshold that is not above a probability; the threshold 0 comes last."""
    tiny = np.finfo(np.float64).tiny
    logits = np.log(np.maximum(probabilities, tiny) / np.maximum(1 - probabilities, tiny))
    return np.ceil((_LARGEST_LOGIT - logits) / _STEP).clip(0, _THRESHOLDS).astype(np.int64)


def _coverage_with_reports(
    probabilities: NDArray[np.float64],
    weights: NDArray[np.float64],
    likelihood: NDArray[np.float64],
    total: Callable[[NDArray[Any]], NDArray[Any]],
) -> NDArray[np.float64]:
    """Return the coverage of sets that use a node's own report, [thresholds + 1]: the mean over possible reports.

    Args:
        probabilities: class probabilities without the report, [reports, classes].
        weights: weight of each class of each node in the coverage, in units of one node, [reports, classes].
        likelihood: of each possible report given each class, up to a factor, [possible reports, classes].
        total: adds numbers up over processes.
    """
    weights = weights / int(total(np.array([len(probabilities)], dtype=np.int64))[0])
    rates = likelihood / likelihood.sum(axis=0)
    sums = np.zeros(_THRESHOLDS + 1)
    for like, rate in zip(likelihood, rates, strict=True):
        joint = probabilities * like
        posterior = joint / joint.sum(axis=1, keepdims=True)
        places = _first_threshold(posterior).ravel()
        sums += np.bincount(places, (weights * rate).ravel(), minlength=_THRESHOLDS + 1)
    return _monotone(total(sums).cumsum())


def possible_reports(mechanism: LabelMechanism, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return all possible reports as named classes [reports, classes], or a sample in which classes are balanced."""
    classes, size = mechanism.domain_size, mechanism.set_size
    if size == 1 or math.comb(classes, size) <= _MAX_SETS:
        chosen = np.array(list(itertools.combinations(range(classes), size)))
    else:
        # All cyclic shifts of a set name each class equally often.
        draws = [rng.permutation(classes)[:size] for _ in range(-(-_MAX_SETS // classes))]
        chosen = np.concatenate([(draw + shift) % classes for draw in draws for shift in range(classes)])
        chosen = chosen.reshape(-1, size)
    named = np.zeros((len(chosen), classes), dtype=np.bool_)
    named[np.arange(len(chosen))[:, None], chosen] = True
    return named
