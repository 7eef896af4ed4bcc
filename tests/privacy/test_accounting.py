"""The guarantee of a whole report: composition, JSON, sentences, and the figure of Theorem 1."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilgraph.errors import BudgetError
from veilgraph.privacy.accounting import Guarantee, Released, guarantee_of
from veilgraph.privacy.epsilon import (
    HistoryRelation,
    ListRelation,
    NeighbourRelation,
    PrivacyLoss,
    show_epsilon,
    state_epsilon,
)
from veilgraph.privacy.mechanisms import GRR, GRRFS, LongitudinalGRR, NeighbourhoodClass, NeighbourhoodHistogram
from veilgraph.privacy.mechanisms.grr_fs import theorem_1_figure
from veilgraph.privacy.mechanisms.integer_table import IntegerTable
from veilgraph.privacy.strict_json import number_text

FEATURES = PrivacyLoss(user_level=10.0, attribute_level=(0.25, 0.5))
LABEL = PrivacyLoss(user_level=3.0, attribute_level=(3.0,))


@dataclass(frozen=True)
class Costing:
    """Stands for a mechanism of a known privacy loss."""

    privacy_loss: PrivacyLoss


def costing(features: PrivacyLoss | None, label: PrivacyLoss | None, theorem_1: float | None = None) -> Guarantee:
    parts: list[Any] = [None if loss is None else Costing(loss) for loss in (features, label)]
    return replace(guarantee_of(*parts), unsound_theorem_1=theorem_1)


WHOLE = costing(FEATURES, LABEL, 8.33)
OPEN = costing(PrivacyLoss(user_level=math.inf, attribute_level=(math.inf,)), LABEL, math.inf)


def test_features_and_label_compose_by_addition() -> None:
    assert WHOLE.total_user_level == 13.0
    assert costing(FEATURES, None).total_user_level == 10.0
    assert costing(None, LABEL).total_user_level == 3.0
    assert costing(None, None).total_user_level == 0.0


def test_a_relation_that_a_released_thing_has_no_epsilon_for_is_refused() -> None:
    with pytest.raises(BudgetError, match="no epsilon is known for label at one entry"):
        guarantee_of(None, GRR(4, 1.0), [NeighbourhoodClass(4, 0.5)]).epsilon(ListRelation.ONE_ENTRY)
    with pytest.raises(BudgetError, match="no epsilon is known for features"):
        WHOLE.epsilon(HistoryRelation.UNCHANGED)
    with pytest.raises(BudgetError, match="no epsilon is known for label"):
        WHOLE.epsilon(NeighbourRelation.ATTRIBUTE_LEVEL)
    assert WHOLE.epsilon(NeighbourRelation.ATTRIBUTE_LEVEL, Released.FEATURES) == 0.5


def test_a_part_of_a_guarantee_says_nothing_about_the_rest() -> None:
    assert WHOLE.about(Released.LABEL) == costing(None, LABEL)
    assert WHOLE.about(Released.FEATURES).total_user_level == 10.0


def test_every_figure_of_the_dictionary_stands_under_its_relation() -> None:
    assert WHOLE.as_dict() == {
        "user_level": {"features": 10.0, "label": 3.0, "total": 13.0},
        "attribute_level": {"features": [0.25, 0.5], "label": 3.0},
        "theorem_1": 8.33,
        "theorem_1_is_a_guarantee": False,
        "relations": {
            "user_level": "any two records",
            "attribute_level": "two records that differ in one feature",
        },
    }


@pytest.mark.parametrize("guarantee", [WHOLE, OPEN, costing(None, LABEL), costing(FEATURES, None)])
def test_the_dictionary_is_json_even_where_nothing_is_private(guarantee: Guarantee) -> None:
    assert json.loads(json.dumps(guarantee.as_dict(), allow_nan=False)) == guarantee.as_dict()


def test_infinity_is_written_as_not_private() -> None:
    document = OPEN.as_dict()
    assert document["user_level"] == {"features": "not private", "label": 3.0, "total": "not private"}
    assert document["theorem_1"] == "not private"


def test_the_sentences_name_every_relation_and_disown_theorem_1() -> None:
    assert WHOLE.in_words() == [
        "User level, any two records: epsilon = 13.0000 in total (features 10.0000, label 3.0000).",
        "Whatever a person's record is, no report is more than 443,000 times as likely as it would be with any "
        "other record.",
        "Attribute level, two records that differ in one feature: epsilon = 0.2500 to 0.5000.",
        "The paper's Theorem 1 would say 8.3300 for the features. That figure is not a guarantee and is not used.",
    ]


def test_the_sentences_leave_out_what_is_not_collected_or_asked_for_and_say_when_nothing_is_private() -> None:
    assert WHOLE.in_words(theorem_1=False) == WHOLE.in_words()[:-1]
    assert OPEN.in_words(theorem_1=False) == OPEN.in_words()[:-1]
    assert len(costing(None, LABEL).in_words()) == 2
    same = costing(PrivacyLoss(user_level=1.0, attribute_level=(0.5, 0.5)), None)
    assert same.in_words()[-1] == "Attribute level, two records that differ in one feature: epsilon = 0.5000."
    total, warning, *_ = OPEN.in_words()
    assert "epsilon = not private in total" in total
    assert warning == "This is not private: a report can give its record away completely."


EPSILONS = (0.01, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.1, 1.5, 2.0, 3.0, 10.0)
SHAPES = (((2,), 1), ((2,) * 5, 1), ((2,) * 5, 3), ((2,) * 5, 5), ((2, 3, 4), 2), ((5, 2, 2, 7), 1), ((5, 2, 2, 7), 3))


def exact_user_level(tables: Iterable[IntegerTable], sampled: int) -> Fraction:
    """Return the sum of the `sampled` largest ln(true / other), to 80 digits."""
    with localcontext(prec=80):
        ordered = sorted(((Decimal(table.true) / table.other).ln() for table in tables), reverse=True)
        return Fraction(sum(ordered[:sampled], Decimal(0)))


def exact_attribute_level(mechanism: GRRFS, feature: int) -> Fraction:
    """Return ln of the likelihood ratio of two records that differ in one feature, from exact probabilities."""
    report = (0,) * mechanism.num_features
    others = [1] * mechanism.num_features
    others[feature] = 0
    ratio = mechanism.probability(report, tuple(others)) / mechanism.probability(report, (1,) * mechanism.num_features)
    with localcontext(prec=80):
        return Fraction((Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln())


def assert_not_below(epsilon: float, exact: Fraction) -> None:
    """Compare the number, the text that a document has, and the four decimals that people read."""
    assert Fraction(epsilon) >= exact
    assert Fraction(number_text(state_epsilon(epsilon))) >= exact
    assert Fraction(show_epsilon(state_epsilon(epsilon))) >= exact
    assert epsilon == pytest.approx(float(exact), rel=1e-15, abs=1e-300)


@pytest.mark.parametrize("epsilon_x", EPSILONS)
def test_no_stated_epsilon_is_below_what_the_integers_give(epsilon_x: float) -> None:
    """12 * 7 * 13 = 1,092 guarantees, by exact enumeration."""
    for sizes, sampled in SHAPES:
        mechanism = GRRFS(sizes, sampled, epsilon_x)
        features = exact_user_level([response.table for response in mechanism.responses], sampled)
        levels = {size: exact_attribute_level(mechanism, sizes.index(size)) for size in set(sizes)}
        for epsilon_y in (None, *EPSILONS):
            response = None if epsilon_y is None else GRR(3, epsilon_y)
            label = Fraction(0) if response is None else exact_user_level([response.table], 1)
            guarantee = guarantee_of(mechanism, response)
            assert_not_below(guarantee.features_user_level, features)
            assert_not_below(guarantee.label_user_level, label)
            assert_not_below(guarantee.total_user_level, features + label)
            for size, level in zip(sizes, guarantee.attribute_levels, strict=True):
                assert_not_below(level, levels[size])


@given(epsilon_x=st.floats(1e-6, 40), epsilon_y=st.floats(1e-6, 40), sampled=st.integers(1, 6))
@settings(deadline=None)
def test_a_total_is_not_below_what_the_integers_give(epsilon_x: float, epsilon_y: float, sampled: int) -> None:
    features, label = GRRFS((2, 3, 3, 4, 7, 11), sampled, epsilon_x), GRR(4, epsilon_y)
    exact = exact_user_level([response.table for response in features.responses], sampled)
    assert_not_below(guarantee_of(features, label).total_user_level, exact + exact_user_level([label.table], 1))


@given(epsilon=st.floats(1e-3, 600))
def test_the_odds_in_words_are_rounded_up(epsilon: float) -> None:
    sentence = costing(None, PrivacyLoss(user_level=epsilon, attribute_level=(epsilon,))).in_words()[1]
    odds = float(sentence.split("no report is more than ")[1].split(" times")[0].replace(",", ""))
    # Three digits: at most one part in a hundred above, and never below (beyond the rounding of exp itself).
    assert math.exp(epsilon) * (1 - 1e-12) <= odds <= math.exp(epsilon) * 1.01


@pytest.mark.parametrize(("epsilon_x", "figure", "digits"), [(1.0, 8.33, 2), (0.1, 0.281, 3), (0.01, 0.020, 3)])
def test_theorem_1_states_what_the_paper_prints(epsilon_x: float, figure: float, digits: int) -> None:
    assert round(theorem_1_figure(epsilon_x, sampled=10, num_features=53), digits) == figure


@pytest.mark.parametrize("epsilon_x", [0.01, 1.0, 69.0, 71.0, 1e6, math.inf])
def test_theorem_1_has_nothing_to_amplify_where_everything_is_sampled(epsilon_x: float) -> None:
    assert theorem_1_figure(epsilon_x, sampled=10, num_features=10) == pytest.approx(10 * epsilon_x, rel=1e-12)


def test_theorem_1_does_not_jump_where_the_formula_would_overflow() -> None:
    below, above = (theorem_1_figure(epsilon, sampled=10, num_features=53) for epsilon in (70.0, 70.0 + 1e-9))
    assert 0 < above - below < 1.1e-8


def test_waves_about_neighbours_add_up_with_features_and_label() -> None:
    waves = [NeighbourhoodClass(4, 0.5), NeighbourhoodClass(4, 1.5)]
    guarantee = guarantee_of(None, GRR(4, 1.0), waves)
    assert guarantee.total_user_level == pytest.approx(3, abs=1e-9)
    assert guarantee.total_user_level >= sum(each.list_loss.any_lists for each in waves) + guarantee.label_user_level
    assert guarantee.lists is not None
    assert guarantee.lists.one_relationship == pytest.approx(4, abs=1e-9)


def test_whole_lists_without_a_cap_are_not_private_and_every_relation_is_said() -> None:
    guarantee = guarantee_of(None, GRR(4, 1.0), [NeighbourhoodHistogram(4, 2.0, 60)])
    assert guarantee.total_user_level == math.inf
    sentences = " ".join(guarantee.in_words())
    for part in ("same neighbour list: epsilon = 1.0000", "not private", "= 2.0000 for 1 wave", "3.0000", "= 4.0000"):
        assert part in sentences
    told = json.loads(json.dumps(guarantee.as_dict()))
    assert told["user_level"]["total"] == told["neighbours"]["lists"]["any_lists"] == "not private"
    assert told["neighbours"]["lists_and_record"]["one_entry"] == pytest.approx(3, abs=1e-9)


def test_a_series_of_two_questions_states_the_values_of_the_one_that_has_more() -> None:
    """A device answers for a later value while any of its questions has one left: fewer would be a false promise."""
    series = {values: LongitudinalGRR(3, 1.0, 1.0, rounds=4, values=values) for values in (1, 2)}
    for first, second in ((1, 2), (2, 1)):
        made = guarantee_of(series[first], series[second])
        assert made.as_dict()["series"]["values"] == 2  # type: ignore[index]
        assert any("2 different values of each question" in sentence for sentence in made.in_words())
