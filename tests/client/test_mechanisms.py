"""The mechanisms of the Python client: their channel is exact, and words come from the operating system."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import chisquare

from tests.support.campaigns import BEFORE, CAMPAIGNS, campaign, joint, with_mechanisms
from tests.support.device import BINARY, ask
from tests.support.forgeries import RECORD
from veilgraph.campaign.report import Report
from veilgraph.client import encode, mechanisms, randomize, verify
from veilgraph.client import words as source_of_words
from veilgraph.client.mechanisms import JointFeatures, SampledFeatures, SetTable, Table
from veilgraph.client.once import Once
from veilgraph.client.question import Question
from veilgraph.client.schema import Schema
from veilgraph.client.words import uniform_below
from veilgraph.errors import DomainError
from veilgraph.privacy.mechanisms import SubsetSelection
from veilgraph.privacy.mechanisms.feature_sampling import NOT_ASKED, mean_over_subsets
from veilgraph.privacy.schema import Column, FeatureSchema

NOTICE = verify(BINARY.to_json(), max_epsilon=9, now=BEFORE).notice
SCHEMA = Schema((), 1, "y", ("a", "b"))
GRAPH = verify(BINARY.to_json(), max_epsilon=9, now=BEFORE).graph


def take_words(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let words be below a small number, so that all of them can be enumerated."""
    for module in (source_of_words, mechanisms):
        monkeypatch.setattr(module, "WORDS", count)


def outcomes(
    features: SampledFeatures | JointFeatures, record: tuple[int | None, ...], drawn: int
) -> dict[tuple[int | None, ...], Fraction]:
    """Return the exact probability of every report, by listing every sequence of words."""
    question = Question("", GRAPH, SCHEMA, Once(features, None), NOTICE)
    counts: Counter[tuple[int | None, ...]] = Counter()
    for words in itertools.product(range(source_of_words.WORDS), repeat=drawn + record.count(None)):
        left = iter(words)
        reported, _ = randomize(question, record, None, word=left.__next__)
        assert reported is not None
        assert next(left, None) is None
        counts[reported] += 1
    return {report: Fraction(count, counts.total()) for report, count in counts.items()}


SMALL_MECHANISMS: dict[str, tuple[int, int, Any]] = {
    "GRR-FS": (6, 4, SampledFeatures((Table(2, 4, 2), Table(3, 4, 1)), 1)),
    "joint GRR": (12, 3, JointFeatures((2, 3), 2, {6: Table(6, 7, 1)})),
}


@pytest.mark.parametrize("name", SMALL_MECHANISMS)
def test_leaving_an_answer_out_costs_no_hidden_bit_by_enumeration(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No report is more likely, by more than the stated factor, with one answer than with another or with none.

    The report of an answer that is left out is exactly uniform, and independent of the other one.
    """
    words, drawn, features = SMALL_MECHANISMS[name]
    take_words(words, monkeypatch)
    known = list(itertools.product(range(2), range(3)))
    some: list[tuple[int | None, ...]] = [(None, value) for value in range(3)] + [(value, None) for value in range(2)]
    tables = features.tables.values() if isinstance(features.tables, dict) else features.tables
    odds = max(table.odds for table in tables)
    chances = {record: outcomes(features, record, drawn) for record in [*known, *some]}
    reports = {report for chance in chances.values() for report in chance}
    for report in reports:
        likely = [chance.get(report, Fraction(0)) for chance in chances.values()]
        assert max(likely) <= odds * min(likely)
        # Records that differ in one feature: leaving it out stays within the range of its values.
        for value in range(3):
            apart = [chances[other, value][report] for other in range(2)]
            assert min(apart) <= chances[None, value][report] <= max(apart)
        for value in range(2):
            apart = [chances[value, other][report] for other in range(3)]
            assert min(apart) <= chances[value, None][report] <= max(apart)
    for record in some:
        chance, out = chances[record], record.index(None)
        other: dict[int | None, Fraction] = defaultdict(Fraction)
        for report, probability in chance.items():
            other[report[1 - out]] += probability
        for report, probability in chance.items():
            assert probability == other[report[1 - out]] * Fraction(1, features.sizes[out]), (record, report)


def test_a_question_is_left_out_by_none_and_never_by_a_missing_key(tmp_path: Path) -> None:
    text = BINARY.to_json()
    for record in (dict.fromkeys(RECORD), RECORD | {"x3": None}, RECORD | {"ill": None}):
        report = ask(text, tmp_path / str(len(list(tmp_path.iterdir()))), record)
        assert Report.parse(report, BINARY).features is not None
        assert (report["label"] is None) == (record["ill"] is None)
    for name in RECORD:
        with pytest.raises(DomainError, match=f"has no '{name}'.* or None to leave it out"):
            ask(text, tmp_path / "missing", {key: value for key, value in RECORD.items() if key != name})


def test_merged_columns_are_left_out_together() -> None:
    merged = CAMPAIGNS["merged columns"]
    question = verify(merged.to_json(), max_epsilon=9, now=BEFORE)
    record: dict[str, Any] = {f"x{i}": 1 for i in range(10)} | {"label": "a"}
    assert encode(question, record | {"x4": None}) == ((1, None, 1, 1), 0)


def test_the_channel_is_exact_by_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 6 words in place of 2**53 every sequence of words can be listed, and every probability counted.

    The tables are 4 : 2 and 4 : 1 : 1 for the features, of which one is sampled, and 4 : 2 for the label, so a client
    states ln(4 * 2), from the more revealing feature and the label. No two records exceed it.
    """
    take_words(6, monkeypatch)
    tables = (Table(2, 4, 2), Table(3, 4, 1))
    label = Table(2, 4, 2)
    features = SampledFeatures(tables, 1)
    question = Question("", GRAPH, SCHEMA, Once(features, label), NOTICE)
    everything = list(itertools.product(range(2), range(3), range(2)))
    counts: dict[tuple[int, ...], Counter[tuple[Any, ...]]] = {record: Counter() for record in everything}
    for record, words in itertools.product(everything, itertools.product(range(6), repeat=5)):
        left = iter(words)
        reported, said = randomize(question, record[:2], record[2], word=left.__next__)
        assert isinstance(reported, tuple)
        assert isinstance(said, int)
        counts[record][*reported, said] += 1
    for record, report in itertools.product(everything, repeat=2):
        factors = [
            Fraction(table.domain_size * (table.true if value == said else table.other), 6)
            for table, value, said in zip(tables, record, report, strict=False)
        ]
        of_label = Fraction(label.true if record[2] == report[2] else label.other, 6)
        expected = mean_over_subsets(factors, 1, one=Fraction(1)) / 6 * of_label
        assert Fraction(counts[record][report], 6**5) == expected
    worst = max(Fraction(counts[a][report], counts[b][report]) for a in counts for b in counts for report in everything)
    assert worst == Fraction(2 * 4 + 3 * 4, 2 * 2 + 3 * 1) * 2 < 4 * 2


def test_the_channel_of_sets_is_exact_by_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 12 words in place of 2**53: a set of 2 of 4 classes holds the true class for 8 of them."""
    take_words(12, monkeypatch)
    table = SetTable(4, 2, 8, 4)
    counts = {value: Counter[tuple[int, ...]]() for value in range(4)}
    for value, words in itertools.product(range(4), itertools.product(range(12), repeat=4)):
        left = iter(words)
        counts[value][table.report(value, left.__next__)] += 1
        assert list(left) == [], "12 is a multiple of 1, 2 and 3: no word is rejected"
    for value, named in itertools.product(range(4), itertools.combinations(range(4), 2)):
        share = Fraction(8, 12 * 3) if value in named else Fraction(4, 12 * 3)
        assert Fraction(counts[value][named], 12**4) == share
    assert table.odds == 2


def test_the_channel_of_joint_features_is_exact_by_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 12 words in place of 2**53: two of three features together, by tables of 4 and 6 joint values."""
    take_words(12, monkeypatch)
    tables = {4: Table(4, 6, 2), 6: Table(6, 7, 1)}
    features = JointFeatures((2, 2, 3), 2, tables)
    records = list(itertools.product(range(2), range(2), range(3)))
    counts = {record: Counter[Any]() for record in records}
    for record, words in itertools.product(records, itertools.product(range(12), repeat=4)):
        left = iter(words)
        counts[record][features.report(record, left.__next__)] += 1
        assert list(left) == []
    for asked in itertools.combinations(range(3), 2):
        table = tables[math.prod(features.sizes[i] for i in asked)]
        for record, said in itertools.product(records, repeat=2):
            report = tuple(said[i] if i in asked else None for i in range(3))
            share = table.true if all(record[i] == said[i] for i in asked) else table.other
            assert Fraction(counts[record][report], 12**4) == Fraction(share, 3 * 12)
    worst = max(Fraction(counts[a][report], counts[b][report]) for a in counts for b in counts for report in counts[a])
    assert worst == 7
    assert [level.exp() for level in features.attribute_levels] == pytest.approx([7, 7, 7])


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 7, 12, 16])
def test_numbers_below_a_bound_are_uniform(bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    take_words(16, monkeypatch)
    drawn: Counter[int] = Counter()
    for word in range(16):
        left = iter([word, -1])
        if (number := uniform_below(bound, left.__next__)) >= 0 and next(left, None) == -1:
            drawn[number] += 1
    assert set(drawn) == set(range(bound))
    assert len(set(drawn.values())) == 1


def test_reports_follow_the_mechanisms_probabilities() -> None:
    """20,000 reports through the client against the exact distribution, at one in a million."""
    small = campaign(
        FeatureSchema(columns=(Column(name="a"), Column(name="b", values=("x", "y", "z"))), classes=("n", "p")),
        epsilon_x=1.0,
        sampled=1,
        epsilon_y=0.5,
    )
    question = verify(small.to_json(), max_epsilon=2, now=BEFORE)
    rng = random.Random(20261115)
    seen: Counter[tuple[Any, ...]] = Counter()
    for _ in range(20_000):
        features, label = randomize(question, (1, 2), 0, word=lambda: rng.getrandbits(53))
        seen[*(features or ()), label or 0] += 1
    assert small.feature_mechanism is not None
    assert small.label_mechanism is not None
    reports = list(itertools.product(range(2), range(3), range(2)))
    expected = [
        20_000
        * float(small.feature_mechanism.probability(r[:2], (1, 2)) * small.label_mechanism.probability(r[2:], (0,)))
        for r in reports
    ]
    assert chisquare([seen[r] for r in reports], expected).pvalue > 1e-6
    # The same reports do not follow the distribution of another record: the test can fail.
    other = [
        20_000
        * float(small.feature_mechanism.probability(r[:2], (0, 2)) * small.label_mechanism.probability(r[2:], (0,)))
        for r in reports
    ]
    assert chisquare([seen[r] for r in reports], other).pvalue < 1e-6


@pytest.mark.parametrize("value", [0, 3])
def test_sets_follow_the_mechanisms_probabilities(value: int) -> None:
    """20,000 sets of the client against the exact distribution over all 10 sets, at one in a million."""
    mechanism = SubsetSelection(5, 0.7, size=2)
    small = with_mechanisms(campaign(FeatureSchema(classes=tuple("abcde")), epsilon_y=0.7), label_mechanism=mechanism)
    question = verify(small.to_json(), max_epsilon=1, now=BEFORE)
    rng = random.Random(20261116)
    seen = Counter(randomize(question, None, value, word=lambda: rng.getrandbits(53))[1] for _ in range(20_000))
    for true in range(5):
        expected = [20_000 * float(mechanism.probability(named, (true,))) for named in mechanism.reports()]
        p_value = chisquare([seen[named] for named in mechanism.reports()], expected).pvalue
        # The sets do not follow the distribution of another class: the test can fail.
        assert (p_value > 1e-6) == (true == value)


def test_joint_features_follow_the_mechanisms_probabilities() -> None:
    """20,000 reports of the client against the exact distribution over all sets of features, at one in a million."""
    made = joint(
        FeatureSchema(
            columns=(Column(name="a"), Column(name="b", values=("x", "y", "z")), Column(name="c")), classes=("n", "p")
        ),
        2,
        0.6,
    )
    mechanism = made.feature_mechanism
    assert mechanism is not None
    question = verify(made.to_json(), max_epsilon=2, now=BEFORE)
    rng = random.Random(20261117)
    seen: Counter[Any] = Counter()
    for _ in range(20_000):
        features, _ = randomize(question, (1, 2, 0), None, word=lambda: rng.getrandbits(53))
        seen[tuple(NOT_ASKED if code is None else code for code in features or ())] += 1
    for record in itertools.product(range(2), range(3), range(2)):
        expected = [20_000 * float(mechanism.probability(report, record)) for report in mechanism.reports()]
        p_value = chisquare([seen[report] for report in mechanism.reports()], expected).pvalue
        assert (p_value > 1e-6) == (record == (1, 2, 0))


def test_words_come_from_the_operating_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[int] = []

    def randbits(bits: int) -> int:
        asked.append(bits)
        return 0

    monkeypatch.setattr("veilgraph.client.words.secrets.randbits", randbits)
    ask(BINARY.to_json(), tmp_path)
    assert asked == [53] * 17
