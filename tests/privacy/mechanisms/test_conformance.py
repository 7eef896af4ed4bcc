"""Theorems that hold for every mechanism."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

from tests.support.label_cases import LABELS
from veilgraph.errors import DomainError
from veilgraph.privacy.audit import statistical_audit, worst_case_attribute_epsilon, worst_case_epsilon
from veilgraph.privacy.epsilon import NeighbourRelation
from veilgraph.privacy.mechanisms import (
    GRR,
    GRRFS,
    JointGRR,
    LongitudinalFeatures,
    LongitudinalGRR,
    Mechanism,
    MultiBit,
    OSRandom,
    SubsetSelection,
)
from veilgraph.privacy.mechanisms.integer_table import IntegerTable
from veilgraph.privacy.mechanisms.registry import LabelOnce
from veilgraph.privacy.mechanisms.wire import SetReports

ONE_WAVE: Sequence[LabelOnce | GRRFS | JointGRR | MultiBit] = (
    *LABELS,
    GRRFS((2, 2, 2), sampled=1, epsilon=1.0),
    GRRFS((2, 2, 2, 2), sampled=2, epsilon=0.5),
    GRRFS((3, 3, 3), sampled=2, epsilon=2.0),
    GRRFS((2, 3, 4), sampled=2, epsilon=1.0),
    GRRFS((4, 2, 3), sampled=1, epsilon=0.1),
    GRRFS((3, 2), sampled=2, epsilon=2.0),
    JointGRR((2, 2, 2), sampled=1, epsilon=1.0),
    JointGRR((2, 2, 2, 2), sampled=3, epsilon=0.5),
    JointGRR((3, 3), sampled=2, epsilon=1.0),
    JointGRR((2, 3, 4), sampled=2, epsilon=0.7),
    MultiBit((0.0, 0.0, 0.0), (1.0, 1.0, 1.0), sampled=2, epsilon=1.0),
    MultiBit((-1.0, 0.0), (1.0, 10.0), sampled=1, epsilon=0.5),
    MultiBit((0.0, -5.0, 2.0), (1.0, 5.0, 3.0), sampled=3, epsilon=0.2),
)
SMALL: Sequence[Mechanism] = (
    *ONE_WAVE,
    LongitudinalGRR(2, 1.0, 0.5, rounds=3),
    LongitudinalGRR(3, 2.0, 1.0, rounds=2),
    LongitudinalGRR(2, 0.3, 2.0, rounds=1),
    LongitudinalFeatures((2, 3), sampled=1, epsilon=1.0, round_epsilon=0.5, rounds=2),
    LongitudinalFeatures((2, 2), sampled=2, epsilon=0.5, round_epsilon=1.0, rounds=2),
    LongitudinalFeatures((3, 2, 2), sampled=2, epsilon=1.0, round_epsilon=0.7, rounds=1),
)
"""Mechanisms that are small enough to enumerate all records and reports."""

NOT_PRIVATE: Sequence[GRR | GRRFS | JointGRR] = (
    GRR(4, math.inf),
    GRRFS((2, 3, 4), sampled=3, epsilon=math.inf),
    JointGRR((2, 3, 4), sampled=3, epsilon=math.inf),
)

every_mechanism = pytest.mark.parametrize("mechanism", SMALL, ids=repr)
DRAWS = 4000


def all_records(mechanism: Mechanism) -> NDArray[Any]:
    return np.array(list(mechanism.records()))


def width(mechanism: Mechanism) -> int:
    """Return the number of entries of a record: one for each feature, or for each feature and round."""
    return len(next(mechanism.records()))


def all_reports(mechanism: Mechanism) -> NDArray[Any]:
    reports = list(mechanism.reports())
    return mechanism.encode(reports) if isinstance(mechanism, SetReports) else np.array(reports)


def as_tuples(mechanism: Mechanism, drawn: NDArray[Any]) -> list[tuple[int, ...]]:
    """Return the rows of an array of reports in the form of `Mechanism.reports`."""
    return mechanism.decode(drawn) if isinstance(mechanism, SetReports) else [tuple(row) for row in drawn.tolist()]


@every_mechanism
def test_probabilities_of_a_records_reports_sum_to_exactly_one_and_have_the_stated_logarithm(
    mechanism: Mechanism,
) -> None:
    for record in mechanism.records():
        exact = [mechanism.probability(report, record) for report in mechanism.reports()]
        assert sum(exact) == 1
        logs = mechanism.log_likelihood(all_reports(mechanism), record)
        assert logs == pytest.approx([math.log(each) for each in exact], abs=1e-12)


@every_mechanism
def test_the_loss_is_the_worst_case_under_each_relation_which_the_extreme_records_attain(mechanism: Mechanism) -> None:
    worst, loss = worst_case_epsilon(mechanism), mechanism.privacy_loss
    assert loss.user_level - 1e-9 < worst <= loss.user_level
    by_feature = [worst_case_attribute_epsilon(mechanism, i) for i in range(mechanism.num_features)]
    assert by_feature == pytest.approx(loss.attribute_level, abs=1e-9)
    assert worst_case_epsilon(mechanism, NeighbourRelation.ATTRIBUTE_LEVEL) == max(by_feature)
    assert max(loss.attribute_level) <= loss.user_level
    reports, (x, other) = all_reports(mechanism), mechanism.extreme_records()
    ratios = mechanism.log_likelihood(reports, x) - mechanism.log_likelihood(reports, other)
    assert abs(ratios).max() == pytest.approx(worst, abs=1e-9)


@every_mechanism
def test_what_is_no_record_is_refused_by_row_and_never_quoted(mechanism: Mechanism) -> None:
    rng = np.random.default_rng(0)
    for private in (6161, -6161):
        people = np.resize(all_records(mechanism), (5, width(mechanism)))
        people[3, -1] = private
        with pytest.raises(DomainError, match=r"row 3: outside the declared .* \(value withheld\)") as refusal:
            mechanism.randomize(people, rng=rng)
        assert "6161" not in str(refusal.value)
        assert refusal.value.__context__ is None
    for extra in (-1, 1) if mechanism not in LABELS else ():
        people = np.zeros((5, width(mechanism) + extra), dtype=np.uint8)
        with pytest.raises(DomainError, match=f"expected one row per node and {width(mechanism)} features"):
            mechanism.randomize(people, rng=rng)
        with pytest.raises(DomainError, match="records have shape"):
            mechanism.randomize(people[0], rng=rng)
    if not isinstance(mechanism, MultiBit):
        with pytest.raises(DomainError, match="codes must be integers, not float64"):
            mechanism.randomize(all_records(mechanism).astype(np.float64), rng=rng)


@pytest.mark.parametrize("mechanism", ONE_WAVE, ids=repr)
def test_the_loss_is_at_most_what_was_requested_and_hardly_less(
    mechanism: LabelOnce | GRRFS | JointGRR | MultiBit,
) -> None:
    requested = mechanism.epsilon * (1 if isinstance(mechanism, LabelOnce) else mechanism.sampled)
    assert requested - 1e-6 < mechanism.privacy_loss.user_level <= math.nextafter(requested, math.inf)


@pytest.mark.parametrize("sampled", range(1, 8))
def test_not_even_the_last_bit_of_a_loss_is_rounded_down(sampled: int) -> None:
    for epsilon in np.linspace(0.05, 3, 60).tolist():
        table = IntegerTable.of(domain_size=2, epsilon=epsilon)
        with localcontext(prec=60):
            exact = sampled * (Decimal(table.true) / table.other).ln()
        for mechanism in (
            GRRFS((2,) * 7, sampled=sampled, epsilon=epsilon),
            MultiBit((0.0,) * 7, (1.0,) * 7, sampled=sampled, epsilon=epsilon),
        ):
            assert Decimal(mechanism.privacy_loss.user_level) >= exact


@every_mechanism
def test_reports_are_distributed_as_probability_says(mechanism: Mechanism) -> None:
    records, reports = list(mechanism.records()), list(mechanism.reports())
    people = np.repeat(all_records(mechanism), DRAWS, axis=0)
    drawn = mechanism.randomize(people, rng=np.random.default_rng(1))
    number_of = {report: number for number, report in enumerate(reports)}
    numbers = np.array([number_of[report] for report in as_tuples(mechanism, drawn)]).reshape(len(records), DRAWS)
    observed = np.stack([np.bincount(row, minlength=len(reports)) for row in numbers])
    expected = DRAWS * np.array([[float(mechanism.probability(o, x)) for o in reports] for x in records])
    assert expected.min() > 5  # so that the chi-square approximation holds
    # The draws of each record sum to DRAWS, which costs one degree of freedom per record. A correct randomizer fails
    # for one seed in a million.
    assert chisquare(observed.ravel(), expected.ravel(), ddof=len(records) - 1).pvalue > 1e-6


@every_mechanism
def test_a_seed_determines_the_reports_and_the_records_stay_as_they_are(mechanism: Mechanism) -> None:
    people = np.repeat(all_records(mechanism), 20, axis=0)
    before = people.copy()
    first, again, another = (mechanism.randomize(people, rng=np.random.default_rng(seed)) for seed in (7, 7, 8))
    np.testing.assert_array_equal(people, before)
    np.testing.assert_array_equal(first, again)
    assert (first != another).any()


@every_mechanism
def test_the_operating_systems_randomness_is_accepted_as_well(mechanism: Mechanism) -> None:
    possible = set(mechanism.reports())
    for size in (0, 1, 200):  # a device randomizes one record
        people = np.resize(all_records(mechanism), (size, width(mechanism)))
        reports = mechanism.randomize(people, rng=OSRandom())
        assert len(reports) == size
        assert set(as_tuples(mechanism, reports)) <= possible


@pytest.mark.parametrize("mechanism", NOT_PRIVATE, ids=repr)
def test_an_infinite_epsilon_reports_the_records_and_says_so(mechanism: Mechanism) -> None:
    people = np.repeat(all_records(mechanism), 10, axis=0)
    np.testing.assert_array_equal(mechanism.randomize(people, rng=np.random.default_rng(0)), people)
    assert mechanism.privacy_loss.user_level == worst_case_epsilon(mechanism) == math.inf
    assert set(mechanism.privacy_loss.attribute_level) == {math.inf}


# At these sizes enumeration is impossible. The claim to refute lies well below the true epsilon, which is 1. It also
# lies below the bound that 200 000 reports give for nearly every seed: 0.15 to 0.29 (GRR-FS, whose informative reports
# are rare), 0.5 to 0.9 (multi-bit) and 0.93 to 1 (GRR, joint GRR, subset
# selection).
REAL = (
    pytest.param(GRRFS((2,) * 53, sampled=10, epsilon=0.1), 0.1, id="GRR-FS"),
    pytest.param(GRRFS((2, 3, 4) * 17, sampled=10, epsilon=0.1), 0.1, id="GRR-FS-unequal"),
    pytest.param(MultiBit((0.0,) * 53, (1.0,) * 53, sampled=10, epsilon=0.1), 0.5, id="multi-bit"),
    pytest.param(GRR(40, 1.0), 0.8, id="GRR"),
    pytest.param(SubsetSelection(40, 1.0), 0.8, id="subset-selection"),
    pytest.param(SubsetSelection(100, 1.0), 0.8, id="subset-selection-beyond-64-classes"),
    pytest.param(JointGRR((2,) * 53, sampled=2, epsilon=0.5), 0.8, id="joint-GRR"),
    pytest.param(JointGRR((2, 3, 4) * 17, sampled=2, epsilon=0.5), 0.8, id="joint-GRR-unequal"),
    pytest.param(LongitudinalGRR(5, 1.0, 4.0, rounds=6), 0.8, id="L-GRR"),
    pytest.param(LongitudinalFeatures((5,) * 8, 2, 0.5, 4.0, rounds=6), 0.8, id="L-GRR-features"),
)


@pytest.mark.parametrize(("mechanism", "too_low"), REAL)
def test_an_audit_at_real_size_refutes_a_claim_that_is_too_low_and_not_the_true_one(
    mechanism: Mechanism, too_low: float
) -> None:
    # At 99% confidence one correct mechanism in a hundred would be refuted; here it is one in a million.
    result = statistical_audit(
        mechanism, trials=200_000, rng=np.random.default_rng(0), confidence=1 - 1e-6, fresh_processes=False
    )
    assert result.claim == mechanism.privacy_loss.user_level == pytest.approx(1.0, abs=1e-6)
    assert not result.refuted
    assert statistical_audit(
        mechanism, trials=200_000, rng=np.random.default_rng(0), claim=too_low, fresh_processes=False
    ).refuted
