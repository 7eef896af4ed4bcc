"""Audit of a mechanism's epsilon: exact on small domains, statistical on real ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import BudgetError
from veilgraph.privacy.epsilon import NOT_PRIVATE, ListLoss, ListRelation, NeighbourRelation, Relation
from veilgraph.privacy.mechanisms import Mechanism, NeighbourMechanism
from veilgraph.privacy.mechanisms.base import Record
from veilgraph.privacy.mechanisms.integer_table import log_ratio

_CHUNK = 50_000
# Columns of sums that are drawn from at once.
_LIST_CHUNK = 2_000_000
_PILOT_SHARE = 0.25
_THRESHOLDS = 200


def worst_case_epsilon(mechanism: Mechanism, relation: NeighbourRelation = NeighbourRelation.USER_LEVEL) -> float:
    r"""Return the exact epsilon of a mechanism by enumeration, in rational arithmetic.

    .. math:: \max_{o,\; x \sim x'} \ln \frac{P(o \mid x)}{P(o \mid x')}

    over all reports o and all neighbouring records x, x'. The cost is the number of records times the number of
    reports, so the domain must be small.

    Args:
        mechanism: the mechanism to audit.
        relation: which records are neighbours.

    >>> from veilgraph.privacy.mechanisms import GRRFS
    >>> round(worst_case_epsilon(GRRFS(domain_sizes=(2,) * 4, sampled=2, epsilon=1.0)), 9)
    2.0
    """
    if relation is NeighbourRelation.ATTRIBUTE_LEVEL:
        return max(worst_case_attribute_epsilon(mechanism, feature) for feature in range(mechanism.num_features))
    return max(_largest_log_ratio(mechanism, report, list(mechanism.records())) for report in mechanism.reports())


def worst_case_attribute_epsilon(mechanism: Mechanism, feature: int) -> float:
    """Return the exact epsilon for records that differ in one given feature only, by enumeration.

    A record of several rounds has all features of the first round, then those of the second, and so on. There the
    feature may differ in all rounds.

    >>> from veilgraph.privacy.mechanisms import GRRFS
    >>> round(worst_case_attribute_epsilon(GRRFS(domain_sizes=(2, 3, 4), sampled=1, epsilon=1.0), 2), 4)
    0.4957
    """
    families: dict[Record, list[Record]] = {}
    for record in mechanism.records():
        rest = (value for i, value in enumerate(record) if i % mechanism.num_features != feature)
        families.setdefault(tuple(rest), []).append(record)
    return max(
        _largest_log_ratio(mechanism, report, family) for report in mechanism.reports() for family in families.values()
    )


def _largest_log_ratio(mechanism: Mechanism, report: tuple[int, ...], records: list[Record]) -> float:
    probabilities = [mechanism.probability(report, record) for record in records]
    most, least = max(probabilities), min(probabilities)
    if most == 0:  # none of these records can give this report
        return 0.0
    if least == 0:
        return NOT_PRIVATE
    ratio: Fraction = most / least
    return log_ratio(Decimal(ratio.numerator), Decimal(ratio.denominator))


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """Result of a statistical audit.

    Attributes:
        claim: the epsilon that was tested.
        lower_bound: lower bound on the mechanism's epsilon, at the stated confidence.
        confidence: confidence of the lower bound.
        refuted: whether the lower bound lies above the claim.
        trials: number of reports drawn, including the pilot.
        relation: neighbour relation of the claim and of the bound.
    """

    claim: float
    lower_bound: float
    confidence: float
    refuted: bool
    trials: int
    relation: Relation = NeighbourRelation.USER_LEVEL


def statistical_audit(
    mechanism: Mechanism,
    *,
    trials: int,
    rng: np.random.Generator,
    claim: float | None = None,
    confidence: float = 0.99,
    progress: Callable[[int], None] = lambda drawn: None,
) -> AuditResult:
    r"""Bound the user-level epsilon from below, from reports on two records.

    Each trial flips a coin between two extreme records x and x' and draws one report. Its score is the log-likelihood
    ratio of the drawn record against the other, computed from the channel. By the definition of LDP, a score of at
    least t is at most e^epsilon times as likely as a score of at most -t. Among the trials with either outcome, the
    share R of the first is therefore at most e^epsilon / (1 + e^epsilon), and

    .. math:: \epsilon \ge \ln \frac{R}{1 - R}

    with R replaced by its Clopper-Pearson lower bound. A quarter of the trials are a pilot that chooses t. The bound
    comes from the other trials, which are independent of the pilot.

    Args:
        mechanism: the mechanism to audit.
        trials: number of reports to draw.
        rng: random generator of the reports.
        claim: the epsilon to test. Default: the mechanism's exact user-level epsilon.
        confidence: confidence of the lower bound.
        progress: called with the number of reports drawn since the last call.

    >>> from veilgraph.privacy.mechanisms import GRR
    >>> statistical_audit(GRR(2, 1.0), trials=20_000, rng=np.random.default_rng(0), claim=0.5).refuted
    True
    """
    claim = mechanism.privacy_loss.under(NeighbourRelation.USER_LEVEL) if claim is None else claim
    _check_audit(trials, claim, confidence)
    return _judge(_scores(mechanism, trials, rng, progress), claim, confidence, NeighbourRelation.USER_LEVEL)


def statistical_list_audit(
    waves: Sequence[NeighbourMechanism],
    relation: ListRelation,
    *,
    trials: int,
    rng: np.random.Generator,
    claim: float | None = None,
    confidence: float = 0.99,
    progress: Callable[[int], None] = lambda drawn: None,
) -> AuditResult:
    """Bound the epsilon of all waves of answers about a list from below, as `statistical_audit` does.

    Each trial draws the answers of all waves, of one of two lists that differ most under the relation. For a
    relationship that both ends report, two people answer.

    Args:
        waves: mechanism of each wave.
        relation: relation between lists.
        trials: number of people to draw the answers of.
        rng: random generator of the answers.
        claim: the epsilon to test. Default: the exact one of all waves together.
        confidence: confidence of the lower bound.
        progress: called with the number of trials since the last call.
    """
    claim = ListLoss.sum_of(each.list_loss for each in waves).under(relation) if claim is None else claim
    _check_audit(trials, claim, confidence)
    both = relation is ListRelation.ONE_RELATIONSHIP
    single = ListRelation.ONE_ENTRY if both else relation
    scores = np.empty(trials)
    step = max(1, _LIST_CHUNK // max(each.num_columns for each in waves))
    for start in range(0, trials, step):
        chunk = scores[start : start + step]
        coins = rng.integers(0, 2, size=len(chunk))
        ratio = np.zeros(len(chunk))
        for mechanism in tuple(waves) * (2 if both else 1):
            first, second = mechanism.extreme_sums(single)
            answers = mechanism.randomize(np.array([first, second])[coins], rng=rng)
            ratio += mechanism.log_likelihood(answers, first) - mechanism.log_likelihood(answers, second)
        chunk[:] = np.where(coins == 0, ratio, -ratio)
        progress(len(chunk))
    return _judge(scores, claim, confidence, relation)


def statistical_turns_audit(
    waves: Sequence[NeighbourMechanism],
    relation: ListRelation,
    *,
    trials: int,
    rng: np.random.Generator,
    claim: float | None = None,
    confidence: float = 0.99,
    progress: Callable[[int], None] = lambda drawn: None,
) -> dict[tuple[int, ...], AuditResult]:
    """Bound the epsilon of waves in turns from below, as `statistical_list_audit` does: each person answers one wave.

    Whose turn it is does not depend on lists, so the waves cost what the dearest of them costs. Each one is drawn
    alone, against this claim. For a relationship that both ends report, both answer this wave. Ends that answer two
    different waves reveal at most twice what the dearer one reveals.

    Args:
        waves: mechanism of each wave. Waves that ask alike are drawn once.
        relation: relation between lists.
        trials: number of people to draw an answer of, for each wave.
        rng: random generator of the answers.
        claim: the epsilon to test. Default: the exact one of the dearest wave.
        confidence: confidence of each lower bound.
        progress: called with the number of trials since the last call.

    Returns:
        The result of each wave, by its number from 1; waves that ask alike share one.

    >>> from veilgraph.privacy.mechanisms import NeighbourhoodClass
    >>> waves = [NeighbourhoodClass(3, 1.0), NeighbourhoodClass(3, 4.0), NeighbourhoodClass(3, 1.0)]
    >>> found = statistical_turns_audit(waves, ListRelation.ANY_LISTS, trials=1000, rng=np.random.default_rng(0))
    >>> {numbers: round(each.claim, 6) for numbers, each in found.items()}
    {(1, 3): 4.0, (2,): 4.0}
    """
    claim = ListLoss.largest_of(each.list_loss for each in waves).under(relation) if claim is None else claim
    alike: dict[NeighbourMechanism, list[int]] = {}
    for number, mechanism in enumerate(waves, start=1):
        alike.setdefault(mechanism, []).append(number)
    return {
        tuple(numbers): statistical_list_audit(
            (mechanism,), relation, trials=trials, rng=rng, claim=claim, confidence=confidence, progress=progress
        )
        for mechanism, numbers in alike.items()
    }


def _check_audit(trials: int, claim: float, confidence: float) -> None:
    if trials < 1000:
        raise BudgetError(f"trials is {trials}: an audit needs at least 1000 to say anything")
    if not claim >= 0:
        raise BudgetError(f"claim is {claim}: it must be a number of at least 0")
    if not 0 < confidence < 1:
        raise BudgetError(f"confidence is {confidence}: it must lie between 0 and 1")


def _judge(scores: NDArray[np.float64], claim: float, confidence: float, relation: Relation) -> AuditResult:
    """Return the bound of the main trials, with the threshold that the pilot chooses."""
    trials = len(scores)
    pilot, main = np.split(scores, [int(trials * _PILOT_SHARE)])
    threshold = _choose_threshold(pilot, confidence)
    right, wrong = int((main >= threshold).sum()), int((main <= -threshold).sum())
    bound = max(0.0, float(_epsilon_bound(np.array(right), np.array(wrong), confidence)))
    return AuditResult(
        claim=claim,
        lower_bound=bound,
        confidence=confidence,
        refuted=bound > claim,
        trials=trials,
        relation=relation,
    )


def _scores(
    mechanism: Mechanism, trials: int, rng: np.random.Generator, progress: Callable[[int], None]
) -> NDArray[np.float64]:
    """Score each report by the log-likelihood ratio of its own record, in chunks that fit the processor's cache."""
    records = mechanism.extreme_records()
    dtype = np.float64 if any(isinstance(value, float) for value in records[1]) else np.uint16
    table = np.array(records, dtype=dtype)
    scores = np.empty(trials)
    for start in range(0, trials, _CHUNK):
        chunk = scores[start : start + _CHUNK]
        coins = rng.integers(0, 2, size=len(chunk))
        reports = mechanism.randomize(table[coins], rng=rng)
        ratio = mechanism.log_likelihood(reports, records[0]) - mechanism.log_likelihood(reports, records[1])
        chunk[:] = np.where(coins == 0, ratio, -ratio)
        progress(len(chunk))
    return scores


def _choose_threshold(pilot: NDArray[np.float64], confidence: float) -> float:
    """Return the threshold with the highest bound on the pilot, which does not prefer a few lucky reports."""
    ordered = np.sort(pilot)
    # The best event is usually rare, so candidates are dense among the strongest scores.
    tail = np.geomspace(1 / len(pilot), 1, _THRESHOLDS)
    candidates = np.unique(np.quantile(np.abs(pilot), 1 - tail, method="higher"))
    right = len(pilot) - np.searchsorted(ordered, candidates, side="left")
    wrong = np.searchsorted(ordered, -candidates, side="right")
    bounds = _epsilon_bound(right, wrong, confidence)
    return float(candidates[int(np.argmax(bounds))])


def _epsilon_bound(right: NDArray[np.integer], wrong: NDArray[np.integer], confidence: float) -> NDArray[np.float64]:
    """Return ln(R / (1 - R)) for the Clopper-Pearson lower bound R on right / (right + wrong)."""
    from scipy.special import betaincinv  # slow to import, and scipy.stats slower

    share = np.where(right > 0, betaincinv(np.maximum(right, 1e-9), wrong + 1, 1 - confidence), 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(share) - np.log1p(-share))
