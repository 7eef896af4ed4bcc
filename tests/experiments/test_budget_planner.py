"""The planner: totals are kept, regret decides, and nothing but the graph and the schema is used."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilgraph.datasets import PrivateGraph, csbm
from veilgraph.errors import BudgetError, RunError
from veilgraph.experiments.budget_planner import LABEL_SHARES, Candidate, Plan, Score, plan_collection, recommend
from veilgraph.privacy.mechanisms import GRR, JointGRR
from veilgraph.progress import Progress, no_progress

PRIVATE = csbm(60, num_classes=3, mean_degree=4, num_features=6, seed=0)


def quick(model: PrivateGraph, features: JointGRR | None, label: GRR, label_share: float, seed: int) -> float:
    """Return an accuracy without a simulation: 0.02 for each unit of feature epsilon, and a label that saturates."""
    spent = 0.0 if features is None else features.privacy_loss.user_level
    return min(label.epsilon, 4.0) / 8 + 0.02 * spent + 0.001 * seed


def plan(total: float = 2.0, label_share: float = 0.75, score: Score = quick, progress: Progress = no_progress) -> Plan:
    return plan_collection(
        PRIVATE.graph, PRIVATE.schema, total_epsilon=total, label_share=label_share, score=score, progress=progress
    )


@pytest.mark.parametrize("total", [0.25, 1.0, 2.0, 13.0])
def test_every_candidate_spends_the_total_and_no_more(total: float) -> None:
    for candidate in plan(total=total).candidates:
        assert candidate.guarantee.total_user_level <= total * (1 + 1e-12)
        assert candidate.guarantee.total_user_level == pytest.approx(total, abs=1e-5)
        assert candidate.label.epsilon == pytest.approx(total * candidate.label_share)
        assert (candidate.features is None) == (candidate.label_share == 1)


def test_where_the_label_saturates_the_rest_goes_to_features() -> None:
    # In these simulations the label saturates at 4: a quarter of 16, but more than 2.
    assert plan(total=16.0).recommended.label_share == 0.25
    assert plan(total=2.0).recommended.label_share == 1


def test_every_scenario_is_tried_with_every_candidate() -> None:
    tried: list[tuple[JointGRR | None, GRR]] = []

    def counted(model: PrivateGraph, features: JointGRR | None, label: GRR, label_share: float, seed: int) -> float:
        tried.append((features, label))
        return quick(model, features, label, label_share, seed)

    found = plan(score=counted)
    assert len(found.scenarios) == 4
    assert len(tried) == len(found.scenarios) * len(LABEL_SHARES) * 3
    low, high = found.expected_accuracy
    assert 0 <= low < min(found.recommended.accuracies) <= max(found.recommended.accuracies) < high <= 1


def candidate(*accuracies: float) -> Candidate:
    return Candidate(
        label_share=1.0, features=None, label=GRR(3, 1.0), accuracies=accuracies, spreads=(0.0,) * len(accuracies)
    )


def test_the_least_greatest_regret_is_recommended() -> None:
    # Each of the first two is best somewhere and far behind elsewhere; the third is never best and never far behind.
    bold, other, steady = candidate(0.9, 0.5), candidate(0.5, 0.9), candidate(0.8, 0.8)
    assert recommend([bold, other, steady]) is steady
    assert recommend([bold, candidate(0.4, 0.4)]) is bold


def test_of_candidates_that_are_as_good_the_first_is_taken() -> None:
    first, slightly_better = candidate(0.8), candidate(0.804)
    assert recommend([first, slightly_better]) is first
    clearly_better = candidate(0.81)
    assert recommend([first, clearly_better]) is clearly_better


@given(st.integers(2, 5).flatmap(lambda n: st.lists(st.tuples(*[st.floats(0, 1)] * n), min_size=1, max_size=6)))
def test_a_candidate_that_is_best_everywhere_has_no_rival_that_is_clearly_better(rows: list[tuple[float, ...]]) -> None:
    candidates = [candidate(*row) for row in rows]
    top = [max(column) for column in zip(*rows, strict=True)]
    best = candidate(*top)
    chosen = recommend([*candidates, best])
    assert all(loss <= 0.005 + 1e-9 for loss in (t - own for t, own in zip(top, chosen.accuracies, strict=True)))


def test_what_was_assumed_is_said() -> None:
    words = " ".join(plan(label_share=0.3).assumptions)
    for fact in ("60 nodes", "65%", "85%", "3 classes", "6 features", "30% of people", "Veil"):
        assert fact in words


def test_without_features_the_label_has_the_whole_total() -> None:
    private = csbm(60, num_classes=3, mean_degree=4, num_features=0, seed=0)
    found = plan_collection(private.graph, private.schema, total_epsilon=1.0, score=quick)
    assert [(each.label_share, each.features) for each in found.candidates] == [(1.0, None)]
    assert {scenario.feature_signal for scenario in found.scenarios} == {0.0}
    assert not any("feature" in sentence for sentence in found.assumptions)


def test_a_simulation_from_end_to_end() -> None:
    found, again = (
        plan_collection(
            PRIVATE.graph,
            PRIVATE.schema,
            total_epsilon=8.0,
            homophilies=[0.9],
            feature_signals=[0.5],
            label_share=1.0,
            label_shares=(1.0, 0.5),
        )
        for _ in range(2)
    )
    assert found == again
    # Everyone reports a nearly clean label, so the accuracy is near 1.
    assert all(min(each.accuracies) > 0.8 for each in found.candidates)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"label_share": 0.0}, RunError, "label_share is 0.0"),
        ({"label_share": 1.5}, RunError, "label_share is 1.5"),
        ({"total": 0.0}, BudgetError, "epsilon is 0.0"),
        ({"total": -1.0}, BudgetError, "epsilon is -1.0"),
        ({"total": float("nan")}, BudgetError, "epsilon is nan"),
        ({"total": float("inf")}, RunError, "total_epsilon is inf"),
    ],
)
def test_a_plan_that_cannot_be_made_is_refused(changed: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        plan(**changed)


def test_progress_counts_to_the_end() -> None:
    seen: list[tuple[int, int]] = []
    plan(progress=lambda what, done, total: seen.append((done, total)))
    assert seen[-1] == (20, 20)
    assert all(before[0] <= after[0] for before, after in itertools.pairwise(seen))
