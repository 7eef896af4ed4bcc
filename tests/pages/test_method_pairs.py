"""Any two methods of a setting are compared seed by seed, and p is corrected for all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_rel, wilcoxon

from tests.support.result_rows import ablation, ceiling, control, row, table2
from veilgraph.experiments.results import Row
from veilgraph.pages.method_pairs import holm, method_pairs, pair_table


def seeded(seed: int, **given: object) -> Row:
    drawn = np.random.default_rng(seed).normal(0.6, 0.05, 8)
    return row(0.0, **{"accuracies": dict(enumerate(drawn.tolist()))} | given)  # type: ignore[arg-type]


def test_a_pair_has_the_p_values_and_the_interval_of_the_textbook() -> None:
    veil, rgnn = seeded(0, method="veil"), seeded(1, method="rgnn")
    (pair,) = method_pairs([veil, rgnn])
    first, second = (list(each.accuracies.values()) for each in (veil, rgnn))
    test = ttest_rel(first, second)
    interval = test.confidence_interval(0.95)
    assert pair.p_t == pytest.approx(test.pvalue)
    assert pair.interval == pytest.approx((interval.low, interval.high))
    assert pair.p_wilcoxon == pytest.approx(wilcoxon(first, second).pvalue)
    assert (pair.holm_t, pair.holm_wilcoxon) == (pair.p_t, pair.p_wilcoxon)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_rejects_what_its_steps_reject(p_values: list[float]) -> None:
    """From the smallest p on, reject while p times the number of hypotheses that are left is at most the level."""
    corrected = holm(p_values)
    for level in (0.01, 0.05, 0.5):
        rejected: set[int] = set()
        for rank, place in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
            if p_values[place] * (len(p_values) - rank) > level:
                break
            rejected.add(place)
        assert {place for place, p in enumerate(corrected) if p <= level} == rejected


def test_pairs_share_a_setting() -> None:
    pairs = method_pairs(table2())
    assert len({(id(pair.first), id(pair.second)) for pair in pairs}) == len(pairs)
    for pair in pairs:
        assert pair.first.dataset == pair.second.dataset
        assert len({pair.first.epsilon_x, pair.second.epsilon_x} - {None}) <= 1
        assert pair.first.epsilon_y == pair.second.epsilon_y is not None
    hops = [row(0.5, swept={"feature_hops": hop}, variant=name) for hop in (2, 4) for name in ("", "other")]
    assert [pair.setting["feature_hops"] for pair in method_pairs(hops)] == [2, 4]


def test_variants_are_compared_and_what_has_no_spread_is_not() -> None:
    names = {(pair.first.variant, pair.second.variant) for pair in method_pairs(ablation())}
    assert ("", "without f_X") in names
    assert method_pairs([row(0.5, seeds=1), control(0.4, seeds=1)]) == []
    assert method_pairs([row(0.5), ceiling(0.8)]) == []


def test_equal_and_constantly_different_methods_have_a_p() -> None:
    same, better = method_pairs([row(0.5), row(0.5, method="veil"), row(0.6, method="gcn")])[:2]
    assert (same.p_t, same.p_wilcoxon) == (1.0, 1.0)
    assert better.p_t < 1e-9
    text = pair_table("t", [same, better]).rows
    assert text[0][5:8] == ("0.0", "0.0 to 0.0", "1.00")
    assert text[1][7] == "below 0.0001"
