"""Does a mechanism keep its promise? Exactly on small domains, statistically on real ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from veilgraph.budget import NOT_PRIVATE
from veilgraph.errors import BudgetError
from veilgraph.mechanisms import Mechanism
from veilgraph.mechanisms.integer_table import log_ratio
from veilgraph.mechanisms.mechanism import Record

_CHUNK = 50_000
_PILOT_SHARE = 0.25
_THRESHOLDS = 200


def worst_case_epsilon(mechanism: Mechanism) -> float:
    r"""max over reports o and records x, x' of ln P(o | x) / P(o | x'), by enumeration in rational arithmetic.

    User level: x and x' are any two records. The cost is the number of records times the number of reports.

    >>> from veilgraph.mechanisms import GRRFS
    >>> round(worst_case_epsilon(GRRFS(domain_sizes=(2,) * 4, sampled=2, epsilon=1.0)), 9)
    2.0
    """
    return max(_largest_log_ratio(mechanism, report, list(mechanism.records())) for report in mechanism.reports())


def worst_case_attribute_epsilon(mechanism: Mechanism, feature: int) -> float:
    """As `worst_case_epsilon`, for records that differ in one feature only.

    >>> from veilgraph.mechanisms import GRRFS
    >>> round(worst_case_attribute_epsilon(GRRFS(domain_sizes=(2, 3, 4), sampled=1, epsilon=1.0), 2), 4)
    0.4957
    """
    families: dict[Record, list[Record]] = {}
    for record in mechanism.records():
        families.setdefault(record[:feature] + record[feature + 1 :], []).append(record)
    return max(
        _largest_log_ratio(mechanism, report, family) for report in mechanism.reports() for family in families.values()
    )


def _largest_log_ratio(mechanism: Mechanism, report: tuple[int, ...], records: list[Record]) -> float:
    probabilities = [mechanism.probability(report, record) for record in records]
    most, least = max(probabilities), min(probabilities)
    if most == 0:  # a report that none of these records can give
        return 0.0
    if least == 0:
        return NOT_PRIVATE
    ratio: Fraction = most / least
    return log_ratio(Decimal(ratio.numerator), Decimal(ratio.denominator))


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """What a statistical audit found.

    Attributes:
        claim: the user-level epsilon that was put to the test.
        lower_bound: the mechanism's user-level epsilon is at least this, with the stated confidence.
        confidence: of the lower bound.
        refuted: the bound lies above the claim.
        trials: reports drawn, the pilot's included.
    """

    claim: float
    lower_bound: float
    confidence: float
    refuted: bool
    trials: int


def statistical_audit(
    mechanism: Mechanism,
    *,
    trials: int,
    rng: np.random.Generator,
    claim: float | None = None,
    confidence: float = 0.99,
    progress: Callable[[int], None] = lambda drawn: None,
) -> AuditResult:
    r"""A lower bound on the user-level epsilon, from the joint output on two records.

    By the definition of LDP, P(E | x) <= e^epsilon P(E | x') for every event E. Half of the reports are drawn from
    one extreme record and half from the other; E is "the log-likelihood ratio, computed from the channel, is at
    least t". A quarter of the reports are a pilot that chooses t; the rest, independent of it, give

    .. math:: \ln \frac{\text{lower}(P(E | x))}{\text{upper}(P(E | x'))}

    by Clopper-Pearson intervals that hold together with the stated confidence.

    Args:
        mechanism: what to audit.
        trials: reports to draw in all.
        rng: where they come from.
        claim: the epsilon put to the test; the mechanism's own where it is left out.
        confidence: of the lower bound.
        progress: called with the number of reports drawn since the last call.

    >>> from veilgraph.mechanisms import GRR
    >>> statistical_audit(GRR(2, 1.0), trials=20_000, rng=np.random.default_rng(0), claim=0.5).refuted
    True
    """
    if trials < 1000:
        raise BudgetError(f"trials is {trials}: an audit needs at least 1000 to say anything")
    claim = mechanism.claim.user_level if claim is None else claim
    if not claim >= 0:
        raise BudgetError(f"claim is {claim}: it must be a number of at least 0")
    if not 0 < confidence < 1:
        raise BudgetError(f"confidence is {confidence}: it must lie between 0 and 1")
    pilot_size = int(trials * _PILOT_SHARE) // 2
    main_size = trials // 2 - pilot_size
    scores = [_ratio_scores(mechanism, record, trials // 2, rng, progress) for record in mechanism.extreme_records()]
    pilot = [score[:pilot_size] for score in scores]
    main = [score[pilot_size:] for score in scores]
    threshold = _choose_threshold(pilot, confidence)
    hits = [np.array(float((score >= threshold).sum())) for score in main]
    bound = max(0.0, float(_log_ratio_bound(hits[0], hits[1], main_size, confidence)))
    return AuditResult(
        claim=claim, lower_bound=bound, confidence=confidence, refuted=bound > claim, trials=2 * (trials // 2)
    )


def _ratio_scores(
    mechanism: Mechanism, record: Record, size: int, rng: np.random.Generator, progress: Callable[[int], None]
) -> NDArray[np.float64]:
    """ln P(o | x) - ln P(o | x') of `size` reports o of `record`, in chunks that fit the processor's cache."""
    x, other = mechanism.extreme_records()
    scores = np.empty(size)
    dtype = np.float64 if any(isinstance(value, float) for value in record) else np.uint16
    rows = np.tile(np.array(record, dtype=dtype), (min(size, _CHUNK), 1))
    for start in range(0, size, _CHUNK):
        chunk = slice(start, min(start + _CHUNK, size))
        reports = mechanism.randomize(rows[: chunk.stop - chunk.start], rng=rng)
        with np.errstate(invalid="ignore"):  # a report impossible for both cannot occur
            scores[chunk] = mechanism.log_likelihood(reports, x) - mechanism.log_likelihood(reports, other)
        progress(chunk.stop - chunk.start)
    return scores


def _choose_threshold(pilot: list[NDArray[np.float64]], confidence: float) -> float:
    """The threshold with the highest bound on the pilot's own evidence; scaling it up would reward luck."""
    size = len(pilot[0])
    # The best event is usually rare, so candidates are dense in the upper tail.
    tail = np.geomspace(10 / size, 1, _THRESHOLDS)
    # Scores that occurred, not values between them: scores can be infinite.
    candidates = np.unique(np.quantile(np.concatenate(pilot), 1 - tail, method="inverted_cdf"))
    hits = [(score[:, None] >= candidates).sum(axis=0).astype(np.float64) for score in pilot]
    bounds = _log_ratio_bound(hits[0], hits[1], size, confidence)
    return float(candidates[int(np.argmax(bounds))])


def _log_ratio_bound(
    hits: NDArray[np.float64], hits_other: NDArray[np.float64], size: int, confidence: float
) -> NDArray[np.float64]:
    """ln(lower / upper) of two Clopper-Pearson bounds, each at half the risk, so that both hold together."""
    risk = (1 - confidence) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        lower = np.where(hits > 0, beta.ppf(risk, hits, size - hits + 1), 0.0)
        upper = np.where(hits_other < size, beta.ppf(1 - risk, hits_other + 1, size - hits_other), 1.0)
        return np.asarray(np.log(lower / upper))
