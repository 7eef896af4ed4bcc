"""Differences are paired by seed, and every row finds its control."""

from __future__ import annotations

import pytest

from tests.support.result_rows import ceiling, control, flat, row
from veilgraph.pages.paired_differences import PairedDifference, control_of, paired


def test_equal_accuracies_are_not_a_win() -> None:
    assert not PairedDifference.of([0.5, 0.6], [0.5, 0.6]).clear


def test_pairs_use_the_seeds_that_both_have() -> None:
    long, short = flat(0.5, seeds=4), flat(0.4, seeds=2)
    difference = paired(long, short)
    assert difference is not None
    assert difference.seeds == 2
    assert difference.mean == pytest.approx(0.1)
    assert paired(long, row(0.5, seeds=0)) is None


def test_the_control_has_the_same_labels() -> None:
    rows = [control(0.5, epsilon_y=3.0), control(0.4, epsilon_y=0.5), control(0.9, dataset="cora")]
    assert control_of(row(0.5), rows) is rows[1]
    assert control_of(ceiling(0.5), rows) is rows[0]
    assert control_of(row(0.5, dataset="dblp"), rows) is None
