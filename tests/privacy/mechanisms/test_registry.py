"""The registry of mechanisms: names, refusals, and entries that keep the user-level epsilon."""

from __future__ import annotations

import math
import re
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilgraph.errors import BudgetError
from veilgraph.privacy.budget import PrivacyBudget, RoundBudget
from veilgraph.privacy.mechanisms import (
    LongitudinalFeatures,
    LongitudinalGRR,
    Mechanism,
    MultiBit,
    NeighbourhoodClass,
    NeighbourhoodHistogram,
    RandomizedNeighbourList,
)
from veilgraph.privacy.mechanisms.registry import (
    MECHANISMS,
    MechanismEntry,
    answer_mechanism,
    best_label_mechanism,
    check_waves_of_answers,
    describe,
    feature_mechanism,
    find_mechanism,
    label_mechanism,
    multi_bit,
    multi_bit_best,
)
from veilgraph.privacy.schema import FeatureSchema


def test_a_misspelled_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BudgetError, match="no mechanism 'grrfs': known are grr-fs, grr-on-all, joint-grr, "):
        find_mechanism("grrfs")


@pytest.mark.parametrize("entry", MECHANISMS.values(), ids=MECHANISMS)
def test_every_mechanism_spends_m_epsilon_x_at_user_level(entry: MechanismEntry[Mechanism]) -> None:
    sizes, sampled = ((3,), 1) if entry.name in ("grr", "subset-selection") else ((2, 3, 4, 2), 2)
    mechanism = entry.make(sizes, sampled, 0.75)
    assert mechanism.num_features == len(sizes)
    assert mechanism.privacy_loss.user_level == pytest.approx(sampled * 0.75, abs=1e-6)


@pytest.mark.parametrize("entry", MECHANISMS.values(), ids=MECHANISMS)
@given(st.integers(1, 4), st.integers(1, 8))
def test_more_sampled_features_than_there_are_means_all_of_them(
    entry: MechanismEntry[Mechanism], num_features: int, more: int
) -> None:
    sizes = (3,) * (1 if entry.name in ("grr", "subset-selection") else num_features)
    assert entry.make(sizes, len(sizes) + more, 0.5) == entry.make(sizes, len(sizes), 0.5)


def test_a_feature_mechanism_needs_features_and_their_budget() -> None:
    with pytest.raises(BudgetError, match="there are no features to randomize"):
        find_mechanism("grr-fs").make((), 1, 1.0)
    with pytest.raises(BudgetError, match="the budget is for the label alone: give epsilon_x and sampled"):
        multi_bit(FeatureSchema.binary(4, classes=["a", "b"]), PrivacyBudget(epsilon_y=1.0))


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_is_documented(name: str) -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"
    assert re.search(rf"(?<![\w-]){name}(?![\w-])", page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["grr", "subset-selection"])
def test_some_mechanisms_are_for_a_single_value(name: str) -> None:
    with pytest.raises(BudgetError, match=f"{name} randomizes one value, not 3"):
        find_mechanism(name).make((2, 2, 2), 1, 1.0)


@given(st.integers(1, 60), st.data(), st.sampled_from([0.01, 0.1, 0.5, 1.0, 2.0, 3.0]))
def test_the_best_multi_bit_mechanism_spends_m_epsilon_x_in_steps_of_about_2_18(
    num_features: int, data: st.DataObject, epsilon_x: float
) -> None:
    sampled = data.draw(st.integers(1, num_features))
    schema = FeatureSchema.binary(num_features, classes=["a", "b"])
    mechanism = multi_bit_best(schema, PrivacyBudget(epsilon_x, 1.0, sampled))
    total = sampled * epsilon_x
    assert isinstance(mechanism, MultiBit)
    assert mechanism.sampled == min(max(round(total / 2.18), 1), num_features)
    assert mechanism.privacy_loss.user_level == pytest.approx(total, abs=1e-6)


def test_2_18_is_where_the_signal_to_noise_ratio_is_greatest() -> None:
    # sqrt(m/d) tanh(total / 2m) at m = total / e is sqrt(total / d) tanh(e / 2) / sqrt(e).
    def ratio(epsilon: float) -> float:
        return math.tanh(epsilon / 2) / math.sqrt(epsilon)

    assert max((e / 100 for e in range(1, 1000)), key=ratio) == pytest.approx(2.18, abs=0.005)


def test_multi_bit_keeps_m_and_epsilon_x_and_takes_codes_as_numbers() -> None:
    schema = FeatureSchema.binary(4, classes=["a", "b"])
    assert multi_bit(schema, PrivacyBudget(0.5, 1.0, 3)) == MultiBit((0.0,) * 4, (1.0,) * 4, sampled=3, epsilon=0.5)


def test_rounds_make_features_and_label_longitudinal() -> None:
    monthly = RoundBudget(rounds=12, values=3, round_epsilon=0.5)
    assert label_mechanism(4, 2.0) == best_label_mechanism(4, 2.0)
    assert label_mechanism(4, 2.0, monthly) == LongitudinalGRR(4, 2.0, 0.5, 12, 3)
    assert feature_mechanism("joint-grr", (2, 3), 1, 1.0) == find_mechanism("joint-grr").make((2, 3), 1, 1.0)
    assert feature_mechanism("grr-fs", (2, 3), 1, 1.0, monthly) == LongitudinalFeatures((2, 3), 1, 1.0, 0.5, 12, 3)
    with pytest.raises(BudgetError, match="answered by L-GRR: leave out joint-grr"):
        feature_mechanism("joint-grr", (2, 3), 1, 1.0, monthly)
    with pytest.raises(BudgetError, match="sampled is 0"):
        feature_mechanism("grr", (2,), 0, 1.0)


def test_answers_about_neighbours_are_found_by_name_and_a_cap_is_for_histograms() -> None:
    of = partial(answer_mechanism, num_classes=3, people=50, epsilon=1.0)
    kinds = {"class": NeighbourhoodClass, "histogram": NeighbourhoodHistogram, "list": RandomizedNeighbourList}
    for name, kind in kinds.items():
        assert isinstance(of(name), kind)
    assert getattr(of("histogram", cap=2), "cap", None) == 2
    for name in ("class", "list"):
        with pytest.raises(BudgetError, match="cap is for histograms"):
            of(name, cap=2)
    with pytest.raises(BudgetError, match="no answer 'lists' about neighbours: choose histogram, class or list"):
        of("lists")


def test_a_randomized_list_is_asked_for_in_one_wave() -> None:
    for kind, epsilons in (("list", [1.0]), ("class", [1.0, 2.0])):
        check_waves_of_answers(kind, epsilons)
    with pytest.raises(BudgetError, match="in one wave"):
        check_waves_of_answers("list", [1.0, 2.0])
    with pytest.raises(BudgetError, match="an edge epsilon for each wave"):
        check_waves_of_answers("class", [])


def test_a_mechanism_is_described_by_its_registered_name_and_a_series_by_its_rounds() -> None:
    for name in ("grr-fs", "joint-grr"):
        assert describe(find_mechanism(name).make((2, 3), 1, 1.0)) == name
    assert describe(label_mechanism(2, 1.0)) == "grr"
    assert describe(label_mechanism(18, 1.0)) == "subset-selection"
    series = feature_mechanism("grr-fs", (2, 3), 1, 1.0, RoundBudget(rounds=2))
    assert describe(series) == "l-grr of 1 feature, 2 rounds, values at most 2 (a record is a history)"
