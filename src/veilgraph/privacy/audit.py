"""Audit of a mechanism's epsilon: exact on small domains, statistical on real ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, NotRequired, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import BudgetError
from veilgraph.privacy.auditing.columns import Encoder, row_keys, with_precision
from veilgraph.privacy.auditing.fresh_process import repeats_p_value
from veilgraph.privacy.auditing.guesses import EXTREMES, Bet, Group, Learned, Sample, guesses, nominate, proven_epsilon
from veilgraph.privacy.auditing.sources import (
    MOST_RECORDS,
    CommandSource,
    FunctionSource,
    ListSource,
    MechanismSource,
    Source,
    chunks_of,
)
from veilgraph.privacy.auditing.stated import StatedCheck, values_p_value
from veilgraph.privacy.epsilon import NOT_PRIVATE, ListLoss, ListRelation, NeighbourRelation, Relation
from veilgraph.privacy.mechanisms import Mechanism, NeighbourMechanism
from veilgraph.privacy.mechanisms.base import Record
from veilgraph.privacy.mechanisms.integer_table import log_ratio

_LEARNING_SHARE = 0.25
_NOMINATING_SHARE = 0.25
_BETS = 4
_DRAWS_OF_A_RECORD = 500
_SEED_ERROR = 1e-6
"""Largest share of the error for fixed seeds: fresh processes draw with the randomness of the system, never again."""
_NEVER_REPEAT = 0.5
"""Share of different reports from which whole reports are said never to repeat."""


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
class Evidence:
    """Number of right and wrong bets that prove the highest epsilon.

    Attributes:
        right: bets that named the true record.
        wrong: bets that named another one.
        records: number of records that a bet is among.
        error: largest chance that the proven epsilon is too high.
    """

    right: int
    wrong: int
    records: int
    error: float

    @property
    def epsilon(self) -> float:
        """The epsilon that is proven."""
        return proven_epsilon(self.right, self.wrong, self.records, self.error)


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """Result of a statistical audit.

    Attributes:
        claim: the epsilon that was tested.
        lower_bound: lower bound on the randomizer's epsilon, at the stated confidence.
        confidence: confidence of all tests together: the chance that a true claim is refuted is at most the rest.
        refuted: whether any test refutes.
        reasons: the tests that refute, in words.
        trials: number of reports drawn, without those of fresh processes and of the check of many values.
        relation: neighbour relation of the claim and of the bound.
        evidence: the bets behind the lower bound.
        stated_p_value: chance that reports deviate so far from stated probabilities; None where none are stated.
        repeats_p_value: chance that two processes agree so often; None where this was not tested.
        notes: what was not compared, in words.
    """

    claim: float
    lower_bound: float
    confidence: float
    refuted: bool
    reasons: tuple[str, ...]
    trials: int
    relation: Relation = NeighbourRelation.USER_LEVEL
    evidence: Evidence
    stated_p_value: float | None
    repeats_p_value: float | None
    notes: tuple[str, ...] = ()


class AuditOptions(TypedDict):
    """Options of an audit, as `statistical_audit` describes them."""

    trials: int
    rng: np.random.Generator
    claim: NotRequired[float | None]
    confidence: NotRequired[float]
    fresh_processes: NotRequired[bool]
    progress: NotRequired[Callable[[int], None]]


def statistical_audit(
    mechanism: Mechanism,
    *,
    trials: int,
    rng: np.random.Generator,
    claim: float | None = None,
    confidence: float = 0.99,
    fresh_processes: bool = True,
    progress: Callable[[int], None] = lambda drawn: None,
) -> AuditResult:
    r"""Test the user-level epsilon of a mechanism, and its stated probabilities, with reports that it draws.

    The mechanism is not trusted: scores are learned from draws. The stated log-likelihoods of the two extreme records
    are one score more, and the bound holds whatever a score is. On a small domain all pairs of records are
    compared; on a large one those of a designed set (`designed_records`). Three tests share the error
    :math:`1 - \text{confidence}` equally, but the last takes 10^-6 of it at most:

    - **Epsilon.** A quarter of the draws learns how likely each report is for each record. Another quarter nominates
      the four bets that promise most. The other half of the draws is of their records, and bounds epsilon from below:
      Clopper-Pearson, each bet at a quarter of this test's error.
    - **Stated probabilities.** Sampled reports are compared with `log_likelihood` by exact binomial tests with
      Bonferroni's correction.
    - **Fixed seeds.** Two fresh processes draw reports of the same records with the system's randomness. Fisher's exact
      test finds reports that agree more often than two of one process. With a fixed seed all 1,024 agree, so a small
      share of the error is enough; and a false alarm could not be repeated.

    Args:
        mechanism: the mechanism to audit.
        trials: number of reports to draw.
        rng: random generator of the reports.
        claim: the epsilon to test. Default: the mechanism's exact user-level epsilon.
        confidence: confidence of the result.
        fresh_processes: whether to look for fixed seeds; it takes about a second.
        progress: called with the number of reports drawn since the last call.

    >>> from veilgraph.privacy.mechanisms import GRR
    >>> statistical_audit(GRR(2, 1.0), trials=20_000, rng=np.random.default_rng(0), claim=0.5).refuted
    True
    """
    claim = mechanism.privacy_loss.under(NeighbourRelation.USER_LEVEL) if claim is None else claim
    test = _Test(trials, rng, claim, confidence, fresh_processes, progress)
    return _audit(MechanismSource.of(mechanism, test.most_records, rng), test)


def audit_randomizer(
    randomizer: Callable[[Any], object],
    records: Sequence[object],
    *,
    claim: float,
    trials: int,
    rng: np.random.Generator | None = None,
    confidence: float = 0.99,
    fresh_processes: bool = True,
    progress: Callable[[int], None] = lambda drawn: None,
) -> AuditResult:
    """Test the epsilon of any function that makes one report of one record, for any two of some records.

    The function has its own randomness. What it returns may be a number, a text, or lists, sets and arrays of them.
    A report that holds random keys, such as the seed of a hash, says more when it is decoded first: what is computed
    from a report alone cannot raise its epsilon, so a claim must hold for it too.

    Fixed seeds are looked for where a fresh process can import the function by its name.

    Args:
        randomizer: the function to audit.
        records: records that it is tried on; the claim is about any two of them.
        claim: the epsilon to test.
        trials: number of reports to draw.
        rng: random generator of the order of records; default: a fresh one.
        confidence: confidence of the result.
        fresh_processes: whether to look for fixed seeds.
        progress: called with the number of reports drawn since the last call.

    >>> import random
    >>> lie = lambda bit: bit if random.random() < 0.8 else 1 - bit
    >>> audit_randomizer(lie, [0, 1], claim=1.0, trials=20_000).refuted  # the truth is ln 4 = 1.39
    True
    """
    test = _Test(trials, rng or np.random.default_rng(), claim, confidence, fresh_processes, progress)
    return _audit(FunctionSource(_two_or_more(records), randomizer), test)


def audit_command(
    command: str,
    records: Sequence[str],
    *,
    claim: float,
    trials: int,
    rng: np.random.Generator | None = None,
    confidence: float = 0.99,
    progress: Callable[[int], None] = lambda drawn: None,
) -> AuditResult:
    """Test the epsilon of a command that reads records as lines and writes a line for each, as `audit_randomizer` does.

    A report is JSON, or any other text.

    Args:
        command: the command with its arguments; it is run several times.
        records: lines that it is tried on; the claim is about any two of them.
        claim: the epsilon to test.
        trials: number of reports to draw.
        rng: random generator of the order of records; default: a fresh one.
        confidence: confidence of the result.
        progress: called with the number of reports drawn since the last call.
    """
    test = _Test(trials, rng or np.random.default_rng(), claim, confidence, progress=progress)
    return _audit(CommandSource(_two_or_more(records), command), test)


def statistical_list_audit(
    waves: Sequence[NeighbourMechanism],
    relation: ListRelation,
    **options: Unpack[AuditOptions],
) -> AuditResult:
    """Test the epsilon of all waves of answers about a list, as `statistical_audit` does for records.

    Each trial draws the answers of all waves about one of several lists. For a relationship that both ends report, two
    people answer.

    Args:
        waves: mechanism of each wave.
        relation: relation between lists.
        options: trials (people), generator and the rest, as of `statistical_audit`. The claim is by default the exact
            epsilon of all waves together.
    """
    test = _Test.of(ListLoss.sum_of(each.list_loss for each in waves).under(relation), relation, options)
    return _audit(ListSource.of(waves, relation, test.most_records), test)


def statistical_turns_audit(
    waves: Sequence[NeighbourMechanism],
    relation: ListRelation,
    **options: Unpack[AuditOptions],
) -> dict[tuple[int, ...], AuditResult]:
    """Test the epsilon of waves in turns, as `statistical_list_audit` does: each person answers one wave.

    Whose turn it is does not depend on lists, so the waves cost what the dearest of them costs. Each one is drawn
    alone, against this claim. For a relationship that both ends report, both answer this wave. Ends that answer two
    different waves reveal at most twice what the dearer one reveals.

    Args:
        waves: mechanism of each wave. Waves that ask alike are drawn once.
        relation: relation between lists.
        options: trials (people for each wave), generator and the rest, as of `statistical_audit`. The claim is by
            default the exact epsilon of the dearest wave.

    Returns:
        The result of each wave, by its number from 1; waves that ask alike share one.

    >>> from veilgraph.privacy.mechanisms import NeighbourhoodClass
    >>> waves = [NeighbourhoodClass(3, 1.0), NeighbourhoodClass(3, 4.0), NeighbourhoodClass(3, 1.0)]
    >>> found = statistical_turns_audit(waves, ListRelation.ANY_LISTS, trials=1000, rng=np.random.default_rng(0))
    >>> {numbers: round(each.claim, 6) for numbers, each in found.items()}
    {(1, 3): 4.0, (2,): 4.0}
    """
    if options.get("claim") is None:
        options["claim"] = ListLoss.largest_of(each.list_loss for each in waves).under(relation)
    alike: dict[NeighbourMechanism, list[int]] = {}
    for number, mechanism in enumerate(waves, start=1):
        alike.setdefault(mechanism, []).append(number)
    return {tuple(each): statistical_list_audit((mechanism,), relation, **options) for mechanism, each in alike.items()}


@dataclass(frozen=True)
class _Test:
    """What is tested: a claim under a relation, with a number of draws and a confidence."""

    trials: int
    rng: np.random.Generator
    claim: float
    confidence: float = 0.99
    fresh_processes: bool = True
    progress: Callable[[int], None] = lambda drawn: None
    relation: Relation = NeighbourRelation.USER_LEVEL

    @classmethod
    def of(cls, exact: float, relation: Relation, options: Mapping[str, Any]) -> _Test:
        """Return the test with these options; without a claim, the exact epsilon is tested."""
        claim = options.get("claim")
        return cls(**{**options, "claim": exact if claim is None else claim, "relation": relation})

    def __post_init__(self) -> None:
        if not self.claim >= 0:
            raise BudgetError(f"claim is {self.claim}: it must be a number of at least 0")
        if not 0 < self.confidence < 1:
            raise BudgetError(f"confidence is {self.confidence}: it must lie between 0 and 1")

    @property
    def most_records(self) -> int:
        """Largest number of records that the draws can be divided among."""
        if self.trials < 1000:
            raise BudgetError(f"trials is {self.trials}: an audit needs at least 1000 to say anything")
        return min(MOST_RECORDS, self.trials // _DRAWS_OF_A_RECORD)


def _two_or_more(records: Sequence[Any]) -> tuple[Any, ...]:
    if len(records) < 2:
        raise BudgetError(f"there are {len(records)} records: an audit compares at least two")
    return tuple(records)


def _audit(source: Source, test: _Test) -> AuditResult:
    """Draw, learn, nominate, and test."""
    trials, rng = test.trials, test.rng
    if source.num_records > test.most_records:
        raise BudgetError(
            f"there are {source.num_records} records: at {trials} draws an audit takes at most {test.most_records}"
        )
    error = (1 - test.confidence) / (1 + source.states + test.fresh_processes)
    draws = _Draws(source, rng, test.progress)
    learning, nominating = (int(trials * share) for share in (_LEARNING_SHARE, _NOMINATING_SHARE))
    everyone = tuple(range(source.num_records))
    learned = Learned.fit(draws.draw(everyone, learning), draws.sizes, source.num_records)
    bets = nominate(learned, draws.draw(everyone, nominating), source.groups, _BETS)
    evidence = _bet(learned, bets, draws, trials - learning - nominating, error)
    stated = draws.stated.p_value if draws.stated else None
    values = source.of_many_values(rng) if isinstance(source, MechanismSource) else None
    if stated is not None and values is not None:
        stated = min(1.0, 2 * min(stated, values_p_value(values, rng)))
    repeats = repeats_p_value(source) if test.fresh_processes else None
    bound = evidence.epsilon
    found = {
        "the reports reveal more than the claim": bound > test.claim,
        "the reports do not have the stated probabilities": stated is not None and stated <= error,
        "the reports of two processes agree: the noise has a fixed seed": repeats is not None
        and repeats <= min(error, _SEED_ERROR),
    }
    reasons = tuple(reason for reason, refutes in found.items() if refutes)
    if draws.never_repeat and bound == 0:
        draws.notes["reports never repeat: only their parts were compared"] = None
    return AuditResult(
        claim=test.claim,
        lower_bound=bound,
        confidence=test.confidence,
        refuted=bool(reasons),
        reasons=reasons,
        trials=trials,
        relation=test.relation,
        evidence=evidence,
        stated_p_value=stated,
        repeats_p_value=repeats,
        notes=tuple(draws.notes),
    )


class _Draws:
    """Draws of a source in chunks; the first chunk decides how reports are encoded."""

    def __init__(self, source: Source, rng: np.random.Generator, progress: Callable[[int], None]) -> None:
        self.source, self.rng, self.progress = source, rng, progress
        self.stated = StatedCheck(source.num_records) if source.states else None
        self.encoder: Encoder
        self.mark_encoder: Encoder | None = None
        self.notes: dict[str, None] = {}
        self.never_repeat = False
        self._is_first = True

    @property
    def sizes(self) -> list[int]:
        """Number of codes of each column, then of each mark."""
        return self.encoder.sizes + (self.mark_encoder.sizes if self.mark_encoder else [])

    def draw(self, group: Group, count: int) -> Sample:
        """Return reports of random records of a group."""
        numbers = np.array(group)[self.rng.integers(0, len(group), size=count)]
        are_of_all = len(group) == self.source.num_records
        parts = [self._chunk(part, are_of_all=are_of_all) for part in chunks_of(numbers, self.source.chunk())]
        stated = [part.stated for part in parts if part.stated is not None]
        marks = [part.marks for part in parts if part.marks is not None]
        codes = np.concatenate([part.codes for part in parts])
        return Sample(
            codes, numbers, np.concatenate(stated) if stated else None, np.concatenate(marks) if marks else None
        )

    def _chunk(self, numbers: NDArray[np.int64], *, are_of_all: bool) -> Sample:
        drawn = self.source.draw(numbers, rng=self.rng)
        columns = with_precision(drawn.columns)
        if self._is_first:
            self.encoder = Encoder.fit(columns, numbers)
            self.mark_encoder = None if drawn.marks is None else Encoder.fit(drawn.marks, numbers)
            different = len(np.unique(row_keys(drawn.columns)))
            self.never_repeat = not self.source.states and different > _NEVER_REPEAT * len(numbers)
            if self.stated:
                self.stated.learn(drawn)
        elif self.stated:
            self.stated.count(drawn, numbers, are_of_all=are_of_all)
        self._is_first = False
        self.progress(len(numbers))
        stated = [drawn.log_likelihood(number) for number in EXTREMES] if self.source.states else None
        self.notes |= dict.fromkeys(drawn.notes)
        marks = None if drawn.marks is None or self.mark_encoder is None else self.mark_encoder.codes(drawn.marks)
        return Sample(self.encoder.codes(columns), numbers, None if stated is None else np.column_stack(stated), marks)


def _bet(learned: Learned, bets: Sequence[Bet], draws: _Draws, trials: int, error: float) -> Evidence:
    """Return the best evidence of bets on new draws, which are divided among their groups."""
    groups = list(dict.fromkeys(bet.group for bet in bets))
    found: list[Evidence] = []
    for place, group in enumerate(groups):
        betting = [bet for bet in bets if bet.group == group]
        count = trials * (place + 1) // len(groups) - trials * place // len(groups)
        sample = draws.draw(group, count)
        own = np.searchsorted(group, sample.numbers)
        for view in {bet.view for bet in betting}:
            winners, scores = guesses(learned.log_likelihoods(sample, group, view))
            for bet in betting:
                if bet.view == view:
                    right, wrong = bet.count(winners, scores, own)
                    found.append(Evidence(right=right, wrong=wrong, records=len(group), error=error / len(bets)))
    return max(found, key=lambda evidence: evidence.epsilon)
