"""The model of many machines: it reproduces what it was fitted to, and grows as it must."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.performance.distributed import MEASURED
from benchmarks.performance.machines import Model, Plan, expected_halo, fit, main, measured_parts
from hypothesis import given
from hypothesis import strategies as st

PLAN = Plan(nodes=1e9, edges=1e10, machines=64)


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.fitted(json.loads(MEASURED.read_text(encoding="utf-8")))


def test_a_fit_finds_the_costs_that_made_the_numbers() -> None:
    counts = np.random.default_rng(0).random((20, 3)) * [1e6, 10.0, 1.0]
    costs = np.array([1e-9, 2e-2, 0.0])
    names = ["entries", "rounds", "nothing"]
    found = fit([dict(zip(names, row.tolist(), strict=True)) for row in counts], (counts @ costs).tolist())
    np.testing.assert_allclose(list(found.costs.values()), costs, atol=1e-12)
    assert found.largest < 1e-9


@given(st.integers(2, 10**9), st.floats(1, 1e10), st.just(0.0) | st.floats(1e-12, 1), st.integers(2, 10**4))
def test_a_halo_is_at_most_the_cut_entries_and_the_other_nodes(
    nodes: int, entries: float, cut: float, parts: int
) -> None:
    halo = expected_halo(nodes, entries, cut, parts)
    assert 0 <= halo <= min(cut * entries, nodes) * (1 + 1e-9)


def test_bytes_of_products_are_counted_exactly_and_those_of_other_stages_nearly(model: Model) -> None:
    for stage in ("reconstruct", "epoch"):
        assert model.traffic[stage] == pytest.approx((1.0, 1.0))
    # Neighbours are not spread quite evenly, and a few lists of counts are not counted.
    assert all(0.99 < low <= high < 1.05 for low, high in model.traffic.values())


def test_the_measured_halo_is_near_the_expected_one() -> None:
    for part, rank in measured_parts(json.loads(MEASURED.read_text(encoding="utf-8"))):
        if part.processes > 1:
            assert rank["halo"] == pytest.approx(
                expected_halo(part.all_nodes, part.entries, rank["cut"], part.processes), rel=0.3
            )


def test_more_machines_need_less_time_and_memory_each(model: Model) -> None:
    few, many = (replace(PLAN, machines=count, cut=0.1).predict(model) for count in (64, 128))
    for key in ("process_bytes", "seconds_per_epoch", "halo", "bytes_per_hop"):
        assert many[key] < few[key], key


@pytest.mark.parametrize("options", [[], ["--fit"], ["--json", "--nodes", "1e6", "--edges", "1e7", "--machines", "2"]])
def test_the_command_answers(
    options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["machines", *options])
    main()
    said = capsys.readouterr().out
    assert json.loads(said)["processes"] == 16 if "--json" in options else "|" in said
