"""The study of the limit: one small case, and its table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from studies.bayes_limit import METHODS, MODELS, Model, compare, equal, summary, table


def test_one_small_case_has_all_columns_and_the_optimum_above_the_control() -> None:
    model = replace(equal(4, 0.7), nodes=600)
    draws = [compare((model, 1.0, seed)) for seed in range(2)]
    row = summary(model, 1.0, draws)
    assert row["Veil - optimal"]["mean"] == pytest.approx(row["Veil"]["mean"] - row["optimal"]["mean"])
    # 300 test nodes: accuracies near 0.8 have a standard error of at most 2.3 points, and the limit here is some 15
    # points above the control.
    assert row["optimal"]["mean"] > row["control"]["mean"] + 3 * 2.3
    assert "| 4, 0.7 | 1 |" in table([row])
    assert all(method in table([row]) for method in METHODS)


def test_classes_of_unequal_size_have_an_optimum_above_their_largest_share() -> None:
    model = Model(shares=(0.5, 0.3, 0.2), homophily=0.8, nodes=600)
    found = compare((model, 1.0, 0))
    # 150 test nodes: a standard error of at most 4.1 points.
    assert found["optimal"] > 0.5 + 3 * 0.041


def test_every_model_has_a_name_of_its_own() -> None:
    assert str(Model(shares=(0.7, 0.3), homophily=0.6)) == "70 / 30 %, 0.6"
    assert len({str(model) for model in MODELS}) == len(MODELS)
