"""An estimate and its interval are possible together, and are written in one way."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilgraph.privacy.estimate import Estimate

ANY = st.floats(-5, 5)
HALF = st.floats(0, 5)


@given(ANY, HALF, HALF, st.sampled_from([0.0, -1.0]))
def test_point_and_interval_are_possible_together_and_nothing_possible_is_left_out(
    value: float, below: float, above: float, lowest: float
) -> None:
    found = Estimate.of(value, value - below, value + above, reports=9, lowest=lowest)
    assert found.value is not None
    assert lowest <= found.low <= found.value <= found.high <= 1
    for truth in (lowest, 0.0, 0.5, 1.0):
        assert found.holds(truth) or not value - below <= truth <= value + above


@given(st.floats(1.001, 5), st.floats(0.01, 0.9))
def test_an_impossible_estimate_keeps_the_width_of_its_interval_on_the_possible_side(value: float, half: float) -> None:
    """An interval wholly above 1 was cut to the single point 100.0 %."""
    found = Estimate.of(value, value - half, value + half, reports=9)
    assert found.low == pytest.approx(1 - half)
    assert found.point.startswith("at least ")


@given(st.floats(-0.5, 1.5), st.floats(-0.5, 1.5), st.floats(0.01, 3))
def test_a_difference_agrees_with_the_figures_beside_it(first: float, second: float, half: float) -> None:
    shares = (
        Estimate.of(first, first - half, first + half, reports=9),
        Estimate.of(second, second - half, second + half, reports=9),
    )
    between = first - second
    paired = Estimate.of(between, between - half / 2, between + half / 2, reports=9, lowest=-1)
    found = Estimate.difference(*shares, paired)
    assert -1 <= found.low <= found.high <= 1
    assert Estimate.parse(asdict(found)) == found
    if any(each.at_edge for each in shares):
        assert found.value is None
        assert found.points.startswith("between ")
    else:
        assert found.value is not None
        assert found.low <= found.value <= found.high
        printed = [float(each.point.removesuffix(" %")) for each in shares]
        assert 100 * found.value == pytest.approx(printed[0] - printed[1])


@given(st.floats(-1, 2), HALF)
def test_what_is_written_is_read_again(value: float, half: float) -> None:
    found = Estimate.of(value, value - half, value + half, reports=9)
    assert Estimate.parse(asdict(found)) == found
    for wrong in ({"value": 2.0}, {"reports": -1}, {"low": 1.0, "high": 0.0}, {"other": 1}):
        assert Estimate.parse(asdict(found) | wrong) is None
