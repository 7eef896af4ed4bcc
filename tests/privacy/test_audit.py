"""Audits: exact on small domains, statistical against mechanisms that leak more than they claim."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, binom

from tests.support.broken_mechanisms import (
    ForgetfulGRRFS,
    GenerousAnswer,
    GenerousGRR,
    HonestAboutFiveGRR,
    LeakingGRR,
    SeededAnswer,
    SeededGRR,
    SeededGRRFS,
    SeededSeries,
    TimidGRR,
    TimidGRRFS,
    fair_bit,
    seeded_bit,
)
from veilgraph.errors import BudgetError
from veilgraph.privacy.audit import (
    AuditResult,
    audit_command,
    audit_randomizer,
    statistical_audit,
    statistical_list_audit,
    statistical_turns_audit,
    worst_case_attribute_epsilon,
    worst_case_epsilon,
)
from veilgraph.privacy.epsilon import ListRelation
from veilgraph.privacy.mechanisms import (
    GRR,
    GRRFS,
    JointGRR,
    LongitudinalGRR,
    Mechanism,
    MultiBit,
    NeighbourhoodClass,
    SubsetSelection,
)
from veilgraph.privacy.mechanisms.base import Record, Report


class LopsidedGRR(GRR):
    """A GRR whose report 0 reveals the record: no other value can give it."""

    def probability(self, report: Report, record: Record) -> Fraction:
        """Move the probability of report 0 to report 1, for all records except 0."""
        chance, moved = super().probability(report, record), super().probability((0,), record)
        shift = {0: -moved, 1: moved}.get(report[0], Fraction(0))
        return chance if record == (0,) else chance + shift


class WordyGRR(GRR):
    """A GRR that lists a report that it never gives."""

    def reports(self) -> Iterator[Report]:
        """Iterate over all values and one more."""
        return ((value,) for value in range(self.domain_size + 1))

    def probability(self, report: Report, record: Record) -> Fraction:
        """Return 0 for the additional report."""
        return Fraction(0) if report == (self.domain_size,) else super().probability(report, record)


def draw(mechanism: Mechanism, trials: int, seed: int = 0, **options: Any) -> AuditResult:
    """Audit without fresh processes, which take a second."""
    options = {"fresh_processes": False} | options
    return statistical_audit(mechanism, trials=trials, rng=np.random.default_rng(seed), **options)


SOUND = [
    GRR(2, 1.0),
    GRR(7, 1.0),
    GRR(2, 0.1),
    GRR(40, 3.0),
    GRRFS((2, 2, 2), sampled=2, epsilon=1.0),
    GRRFS((2, 3, 4) * 4, sampled=5, epsilon=0.5),
    JointGRR((2,) * 12, sampled=3, epsilon=1.0),
    SubsetSelection(9, 1.0),
    MultiBit((0.0,) * 4, (1.0,) * 4, sampled=2, epsilon=1.0),
    LongitudinalGRR(3, 2.0, 1.0, rounds=3, values=2),
]


@pytest.mark.parametrize("mechanism", SOUND, ids=repr)
def test_a_true_claim_is_refuted_as_seldom_as_the_confidence_says(mechanism: Mechanism) -> None:
    seeds = 20
    refuted = sum(draw(mechanism, 4000, seed, confidence=0.95).refuted for seed in range(seeds))
    # Each audit errs with probability 5% at most; more than `allowed` of 20 have probability below 1e-5.
    assert refuted <= binom.isf(1e-5, seeds, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [GRR(2, 1.0), GRR(7, 1.0), GRRFS((2, 2, 2), sampled=2, epsilon=1.0)], ids=repr)
def test_two_thousand_audits_of_a_true_claim_refute_at_most_one_per_cent(mechanism: Mechanism) -> None:
    repetitions = 2000
    refuted = sum(draw(mechanism, 4000, seed).refuted for seed in range(repetitions))
    assert refuted <= binom.isf(1e-3, repetitions, 0.01)


def test_a_claim_below_the_truth_by_half_a_per_cent_is_refuted() -> None:
    mechanism = GRR(2, 1.0)
    result = draw(mechanism, 4_000_000, claim=0.995 * mechanism.privacy_loss.user_level)
    # Half of the draws are bets, right with R = e / (1 + e): the log-odds have the standard error
    # 1 / sqrt(2e6 R (1 - R)) = 0.0016, and the bound lies 2.81 of them below, at 0.25 / 2 / 4 = 0.12 per cent each.
    assert result.lower_bound > 0.995
    assert result.reasons == ("the reports reveal more than the claim",)


@pytest.mark.parametrize("confidence", [0.9, 0.99])
def test_the_bound_is_that_of_clopper_and_pearson_for_the_bets_at_their_share_of_the_error(confidence: float) -> None:
    result = draw(GRR(7, 1.0), 20_000, confidence=confidence)
    proof = result.evidence
    # Two tests (epsilon, stated probabilities) and four bets share the error.
    share = float(beta.ppf((1 - confidence) / 2 / 4, proof.right, proof.wrong + 1))
    assert result.lower_bound == pytest.approx(math.log(share / (1 - share) * (proof.records - 1)), rel=1e-9)


def test_bets_are_counted_on_draws_that_did_not_choose_them() -> None:
    # Reports are nearly uniform, so the bets that look best on the draws that choose them are merely lucky.
    bounds = [draw(GRR(20, 0.01), 10_000, seed, confidence=0.9).lower_bound for seed in range(20)]
    assert sum(bound > 0.01 for bound in bounds) <= binom.isf(1e-5, 20, 0.05)


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_the_lower_bound_comes_close_to_the_true_epsilon(epsilon: float) -> None:
    result = draw(GRR(2, epsilon), 200_000)
    # Half of the trials give a binomial share R; sd of its log-odds = 1 / sqrt(n R (1 - R)). The bound lies 3.1 of them
    # below the estimate, and the estimate within 5 of the truth.
    share = 1 / (1 + math.exp(-epsilon))
    error = 1 / math.sqrt(100_000 * share * (1 - share))
    assert epsilon - (5 + 3.1) * error < result.lower_bound


TOO_MUCH = "the reports reveal more than the claim", "the reports do not have the stated probabilities"


@pytest.mark.parametrize(
    ("mechanism", "trials"),
    [
        pytest.param(GenerousGRR(2, 1.0), 20_000, id="twice-the-budget"),
        pytest.param(GenerousGRR(40, 0.5), 100_000, id="twice-the-budget-of-40-values"),
        pytest.param(ForgetfulGRRFS((2,) * 53, sampled=10, epsilon=0.01), 100_000, id="one-feature-forgotten"),
        pytest.param(HonestAboutFiveGRR(7, 1.0), 4_000, id="one-class-unrandomized"),
    ],
)
def test_a_mechanism_that_leaks_more_than_it_claims_is_refuted(mechanism: Mechanism, trials: int) -> None:
    assert draw(mechanism, trials).reasons == TOO_MUCH


def test_an_answer_about_lists_that_leaks_more_than_it_claims_is_refuted() -> None:
    rng = np.random.default_rng(0)
    result = statistical_list_audit(
        [GenerousAnswer(3, 1.0)], ListRelation.ANY_LISTS, trials=8000, rng=rng, fresh_processes=False
    )
    assert result.reasons == TOO_MUCH


@pytest.mark.slow
def test_a_leak_of_one_per_cent_of_one_class_is_found_with_two_million_draws() -> None:
    # ln P(5 | 5) / P(5 | other) is 1.0219. With half a million draws most audits miss it.
    results = [draw(LeakingGRR(7, 1.0), 2_000_000, seed) for seed in range(3)]
    assert [result.refuted for result in results] == [True] * 3


@pytest.mark.parametrize("mechanism", [TimidGRR(5, 1.0), TimidGRRFS((2,) * 30, sampled=20, epsilon=1.0)], ids=repr)
def test_reports_without_the_stated_probabilities_are_refuted_though_they_reveal_less(mechanism: Mechanism) -> None:
    result = draw(mechanism, 40_000)
    assert result.reasons == ("the reports do not have the stated probabilities",)


FIXED = "the reports of two processes agree: the noise has a fixed seed"


@pytest.mark.parametrize(
    "mechanism",
    [
        SeededGRR(7, 1.0),
        SeededGRRFS((2,) * 5, sampled=2, epsilon=1.0),
        SeededSeries(3, 2.0, 1.0, rounds=3, values=2),
    ],
    ids=repr,
)
def test_a_fixed_seed_of_the_noise_is_found_in_fresh_processes(mechanism: Mechanism) -> None:
    assert FIXED in draw(mechanism, 2000, fresh_processes=True).reasons
    assert FIXED not in draw(mechanism, 2000).reasons


def test_a_fixed_seed_of_answers_about_lists_is_found() -> None:
    rng = np.random.default_rng(0)
    result = statistical_list_audit([SeededAnswer(3, 1.0)], ListRelation.ANY_LISTS, trials=2000, rng=rng)
    assert result.reasons == (FIXED,)


def test_a_function_is_audited_on_the_records_that_are_given() -> None:
    truth = math.log(3)
    found = [audit_randomizer(fair_bit, [0, 1], claim=claim, trials=8000) for claim in (truth, 0.8)]
    assert [each.reasons for each in found] == [(), ("the reports reveal more than the claim",)]
    assert found[0].stated_p_value is None
    assert found[0].repeats_p_value is not None
    assert audit_randomizer(seeded_bit, [0, 1], claim=truth, trials=2000).reasons == (FIXED,)


def test_a_function_that_no_process_can_import_is_audited_without_fresh_processes() -> None:
    result = audit_randomizer(lambda bit: fair_bit(bit), [0, 1], claim=math.log(3), trials=4000)
    assert (result.refuted, result.repeats_p_value) == (False, None)


def test_floats_are_found_by_the_place_of_their_last_bit() -> None:
    rng = np.random.default_rng(5)
    result = audit_randomizer(
        lambda value: value + rng.laplace(), [0.0, 1.0], claim=1.0, trials=4000, fresh_processes=False
    )
    assert result.lower_bound > 3


@pytest.mark.parametrize(
    ("leaks", "classes", "trials"), [(True, 2, 4000), (True, 3, 4000), (False, 3, 4000), (True, 40, 20_000)]
)
def test_a_leak_in_two_parts_together_beside_a_nonce_of_many_parts_is_found(
    leaks: bool, classes: int, trials: int
) -> None:
    rng = np.random.default_rng(3)

    def report(value: int) -> list[int]:
        one, nonce = int(rng.integers(classes)), rng.integers(0, 256, size=16).tolist()
        return [*nonce, one, (one + value) % classes if leaks else int(rng.integers(classes)), *nonce[::-1]]

    records = range(min(classes, 3))
    result = audit_randomizer(report, records, claim=1.0, trials=trials, rng=rng, fresh_processes=False)
    assert result.refuted is leaks
    assert (result.lower_bound > 4) is leaks


COMMAND = """
import random, sys
for line in sys.stdin:
    bit = int(line)
    print(bit if random.random() < 0.75 else 1 - bit)
"""


def test_a_command_is_audited_and_its_fixed_seed_is_found(tmp_path: Path) -> None:
    program = tmp_path / "lie.py"
    program.write_text(COMMAND, encoding="utf-8")
    command = f"{sys.executable} {program}"
    found = [audit_command(command, ["0", "1"], claim=claim, trials=20_000) for claim in (math.log(3), 0.9)]
    assert [each.reasons for each in found] == [(), ("the reports reveal more than the claim",)]
    program.write_text(COMMAND.replace("import random, sys", "import random, sys; random.seed(1)"), encoding="utf-8")
    assert audit_command(command, ["0", "1"], claim=2.0, trials=1000).reasons == (FIXED,)


@pytest.mark.parametrize(
    ("command", "records", "message"),
    [
        ("no-such-command", ["0", "1"], "the command cannot be run"),
        (f"{sys.executable} -c 'raise SystemExit(3)'", ["0", "1"], "ended with exit code 3"),
        (f"{sys.executable} -c 'print(1)'", ["0", "1"], "wrote 1 lines for 250 records"),
        ("", ["0", "1"], "the command is empty"),
        ("echo 'a", ["0", "1"], "a quotation mark is not closed"),
        (f"{sys.executable} -c 'import sys; sys.stdout.buffer.write(bytes([255]))'", ["0", "1"], "not UTF-8"),
        (
            f"{sys.executable} -c 'print((chr(91) * 200 + chr(93) * 200 + chr(10)) * 250, end=str())'",
            ["0", "1"],
            "nested too deeply",
        ),
        ("true", ["0"], "there are 1 records: an audit compares at least two"),
        ("true", ["0", "1", "2"], "there are 3 records: at 1000 draws an audit takes at most 2"),
    ],
)
def test_a_command_that_cannot_be_audited_is_refused(command: str, records: list[str], message: str) -> None:
    with pytest.raises(BudgetError, match=message):
        audit_command(command, records, claim=1.0, trials=1000)


WRITTEN = """
import json, secrets, sys
for line in sys.stdin:
    bit = int(line)
    nonce = secrets.token_hex(8)
    {body}
"""


@pytest.mark.parametrize(
    ("body", "finds"),
    [
        ('print(nonce + " " * bit)', True),
        ('print(json.dumps({"a": nonce, "b": 0} if bit else {"b": 0, "a": nonce}))', True),
        ('print(f\'["{nonce}", {"1.0" if bit else "1"}]\')', True),
        ("print(json.dumps([nonce, [0] * 20], indent=None, separators=(',', ':' + ' ' * bit)))", False),
        ('sys.stdout.buffer.write(f"{nonce}\\u2028{nonce}\\n".encode())', False),
        ('print("[NaN, 1e999]")', False),
        ('print("[" * 40 + "]" * 40); print(nonce, file=sys.stderr)', False),
    ],
)
def test_a_leak_in_how_a_line_is_written_is_found_and_strange_lines_are_read(
    tmp_path: Path, body: str, finds: bool
) -> None:
    program = tmp_path / "written.py"
    program.write_text(WRITTEN.replace("{body}", body), encoding="utf-8")
    found = audit_command(f"{sys.executable} {program}", ["0", "1"], claim=1.0, trials=4000)
    assert found.refuted is finds
    assert any("standard error" in note for note in found.notes) is ("stderr" in body)


def test_enumeration_finds_a_report_that_gives_a_record_away() -> None:
    assert worst_case_epsilon(LopsidedGRR(3, 1.0)) == math.inf
    assert worst_case_attribute_epsilon(LopsidedGRR(3, 1.0), 0) == math.inf


def test_a_report_that_no_record_leads_to_reveals_nothing() -> None:
    assert worst_case_epsilon(WordyGRR(3, 1.0)) == worst_case_epsilon(GRR(3, 1.0))


def test_enumeration_compares_only_records_that_differ_in_the_feature() -> None:
    mechanism = GRRFS((2, 2, 2), sampled=2, epsilon=1.0)
    assert worst_case_attribute_epsilon(mechanism, 1) < worst_case_epsilon(mechanism)
    assert worst_case_epsilon(GRR(2, 1.0)) == worst_case_attribute_epsilon(GRR(2, 1.0), 0)


@pytest.mark.parametrize(
    "mechanism",
    [
        GRR(3, math.inf),
        GRRFS((2, 3, 4), sampled=1, epsilon=math.inf),
        MultiBit((0.0, 0.0), (1.0, 1.0), sampled=1, epsilon=math.inf),
    ],
    ids=repr,
)
def test_a_mechanism_that_is_not_private_is_refuted(mechanism: Mechanism) -> None:
    assert draw(mechanism, 20_000, claim=4.0).refuted
    assert not draw(mechanism, 20_000).refuted


def test_more_confidence_means_a_lower_bound() -> None:
    bounds = [draw(GRR(2, 1.0), 20_000, confidence=confidence).lower_bound for confidence in (0.5, 0.9, 0.99, 0.999999)]
    assert bounds == sorted(set(bounds), reverse=True)


def test_a_result_names_the_claim_the_confidence_and_the_trials() -> None:
    drawn: list[int] = []
    result = draw(GRR(2, 1.0), 120_001, claim=0.9, confidence=0.95, progress=drawn.append)
    assert (result.claim, result.confidence, result.trials) == (0.9, 0.95, 120_001)
    assert sum(drawn) == 120_001
    assert len(drawn) > 2
    assert result.refuted == (result.lower_bound > 0.9)


def test_a_seed_determines_an_audit() -> None:
    first, again = (draw(GRR(2, 1.0), 2000, 3) for _ in range(2))
    assert first == again


@pytest.mark.parametrize("trials", [-1, 0, 999])
def test_too_few_trials_are_refused(trials: int) -> None:
    with pytest.raises(BudgetError, match=f"trials is {trials}: an audit needs at least 1000"):
        statistical_audit(GRR(2, 1.0), trials=trials, rng=np.random.default_rng(0))


@pytest.mark.parametrize("claim", [-0.1, math.nan])
def test_a_claim_below_zero_is_refused(claim: float) -> None:
    with pytest.raises(BudgetError, match=r"claim is .*: it must be a number of at least 0"):
        statistical_audit(GRR(2, 1.0), trials=1000, rng=np.random.default_rng(0), claim=claim)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 99, math.nan])
def test_a_confidence_that_is_no_probability_is_refused(confidence: float) -> None:
    with pytest.raises(BudgetError, match=r"confidence is .*: it must lie between 0 and 1"):
        statistical_audit(GRR(2, 1.0), trials=1000, rng=np.random.default_rng(0), confidence=confidence)


@pytest.mark.parametrize("relation", ListRelation)
def test_in_turns_the_claim_is_that_of_the_dearest_wave_and_each_wave_is_tested_against_it(
    relation: ListRelation,
) -> None:
    # The second wave claims 1.5, spends 3, and breaks the claim of the series, 2 for one end. The sum of all would
    # be 5.5: it says nothing about a person who answers one wave.
    waves = [NeighbourhoodClass(3, 2.0), GenerousAnswer(3, 1.5, 1), NeighbourhoodClass(3, 2.0)]
    drawn: list[int] = []
    found = statistical_turns_audit(
        waves,
        relation,
        trials=40_000,
        rng=np.random.default_rng(0),
        confidence=1 - 1e-6,
        fresh_processes=False,
        progress=drawn.append,
    )
    ends = 2 if relation is ListRelation.ONE_RELATIONSHIP else 1
    assert {numbers: each.refuted for numbers, each in found.items()} == {(1, 3): False, (2,): True}
    assert [each.claim for each in found.values()] == pytest.approx([2 * ends] * 2, abs=1e-6)
    assert {each.relation for each in found.values()} == {relation}
    assert sum(drawn) == 80_000  # waves that ask alike are drawn once


def test_a_claim_about_waves_in_turns_that_is_too_low_is_refuted() -> None:
    waves = [NeighbourhoodClass(4, 1.0), NeighbourhoodClass(4, 3.0)]
    found = statistical_turns_audit(
        waves,
        ListRelation.ANY_LISTS,
        trials=20_000,
        rng=np.random.default_rng(0),
        claim=2.0,
        confidence=1 - 1e-6,
        fresh_processes=False,
    )
    assert [each.refuted for each in found.values()] == [False, True]
