"""What is asked for, what is given, and how it is said."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilgraph.errors import BudgetError
from veilgraph.privacy.budget import (
    Claim,
    Guarantee,
    PrivacyBudget,
    check_epsilon,
    check_sampled,
    show_epsilon,
    theorem_1_figure,
)

FEATURES = Claim(user_level=10.0, attribute_level=(0.25, 0.5))
LABEL = Claim(user_level=3.0, attribute_level=(3.0,))
WHOLE = Guarantee(features=FEATURES, label=LABEL, unsound_theorem_1=8.33)
OPEN = Guarantee(
    features=Claim(user_level=math.inf, attribute_level=(math.inf,)), label=LABEL, unsound_theorem_1=math.inf
)


@pytest.mark.parametrize("epsilon", [0.0, -0.1, -math.inf, math.nan])
def test_an_epsilon_is_above_zero(epsilon: float) -> None:
    with pytest.raises(BudgetError, match=r"epsilon_x is .*: it must be a number above 0"):
        PrivacyBudget(epsilon_x=epsilon, epsilon_y=1.0, sampled=1)
    with pytest.raises(BudgetError, match=r"epsilon_y is .*: it must be a number above 0"):
        PrivacyBudget(epsilon_x=1.0, epsilon_y=epsilon, sampled=1)


@pytest.mark.parametrize("epsilon", [1e-300, 1, math.inf])
def test_any_positive_epsilon_and_infinity_are_budgets(epsilon: float) -> None:
    assert check_epsilon(epsilon) == epsilon


def test_at_least_one_and_at_most_every_feature_is_sampled() -> None:
    assert [check_sampled(m, 3) for m in (1, 2, 3)] == [1, 2, 3]
    for sampled in (0, 4):
        with pytest.raises(BudgetError, match=f"sampled is {sampled} but there are 3 features: choose 1 to 3"):
            check_sampled(sampled, 3)
    with pytest.raises(BudgetError, match="at least 1"):
        PrivacyBudget(epsilon_x=1.0, epsilon_y=1.0, sampled=0)


def test_the_budget_without_privacy_samples_everything_at_infinity() -> None:
    assert PrivacyBudget.not_private(7) == PrivacyBudget(epsilon_x=math.inf, epsilon_y=math.inf, sampled=7)


def test_features_and_label_compose_by_addition() -> None:
    assert WHOLE.total_user_level == 13.0
    assert Guarantee(features=FEATURES, label=None).total_user_level == 10.0
    assert Guarantee(features=None, label=LABEL).total_user_level == 3.0
    assert Guarantee(features=None, label=None).total_user_level == 0.0


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


@pytest.mark.parametrize(
    "guarantee", [WHOLE, OPEN, Guarantee(features=None, label=LABEL), Guarantee(features=FEATURES, label=None)]
)
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


def test_the_sentences_leave_out_what_is_not_collected() -> None:
    assert len(Guarantee(features=None, label=LABEL).in_words()) == 2
    same = Guarantee(features=Claim(user_level=1.0, attribute_level=(0.5, 0.5)), label=None)
    assert same.in_words()[-1] == "Attribute level, two records that differ in one feature: epsilon = 0.5000."


def test_the_sentences_say_when_nothing_is_private() -> None:
    total, warning, *_ = OPEN.in_words()
    assert "epsilon = not private in total" in total
    assert warning == "This is not private: a report can give its record away completely."


@given(epsilon=st.floats(1e-3, 600))
def test_the_odds_in_words_are_rounded_up(epsilon: float) -> None:
    sentence = Guarantee(features=None, label=Claim(user_level=epsilon, attribute_level=(epsilon,))).in_words()[1]
    odds = float(sentence.split("no report is more than ")[1].split(" times")[0].replace(",", ""))
    # Three digits: at most one part in a hundred above, and never below (beyond the rounding of exp itself).
    assert math.exp(epsilon) * (1 - 1e-12) <= odds <= math.exp(epsilon) * 1.01


@given(epsilon=st.floats(0, 1e4))
def test_an_epsilon_is_shown_rounded_up_to_four_decimals(epsilon: float) -> None:
    # A figure that exceeds a round one by less than a billionth is that round one.
    assert -1.1e-9 <= float(show_epsilon(epsilon)) - epsilon < 1.1e-4


@pytest.mark.parametrize(
    ("epsilon", "shown"),
    [(0.28101, "0.2811"), (1.0, "1.0000"), (0.9999999999999997, "1.0000"), (0.0, "0.0000"), (math.inf, "not private")],
)
def test_shown_figures_are_never_too_good(epsilon: float, shown: str) -> None:
    assert show_epsilon(epsilon) == shown


@pytest.mark.parametrize(("epsilon_x", "figure", "digits"), [(1.0, 8.33, 2), (0.1, 0.281, 3), (0.01, 0.020, 3)])
def test_theorem_1_states_what_the_paper_prints(epsilon_x: float, figure: float, digits: int) -> None:
    assert round(theorem_1_figure(epsilon_x, sampled=10, num_features=53), digits) == figure


@pytest.mark.parametrize("epsilon_x", [0.01, 1.0, 69.0, 71.0, 1e6, math.inf])
def test_theorem_1_has_nothing_to_amplify_where_everything_is_sampled(epsilon_x: float) -> None:
    assert theorem_1_figure(epsilon_x, sampled=10, num_features=10) == pytest.approx(10 * epsilon_x, rel=1e-12)


def test_theorem_1_does_not_jump_where_the_formula_would_overflow() -> None:
    below, above = (theorem_1_figure(epsilon, sampled=10, num_features=53) for epsilon in (70.0, 70.0 + 1e-9))
    assert 0 < above - below < 1.1e-8
