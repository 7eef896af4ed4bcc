"""Differences are pooled over settings seed by seed, and a single seed is never clear."""

from __future__ import annotations

import pytest
from studies.grids.differences import clear_among, pooled

from tests.support.result_rows import flat, row
from veilgraph.pages.paired_differences import PairedDifference


def test_settings_are_pooled_over_the_seeds_that_all_have() -> None:
    pairs = [(flat(0.5, seeds=4), flat(0.4, seeds=2)), (flat(0.7, seeds=3), flat(0.4, seeds=3))]
    difference = pooled(pairs)
    assert difference is not None
    assert difference.seeds == 2
    assert difference.mean == pytest.approx(0.2)
    assert pooled([]) is None
    assert pooled([(flat(0.5), row(0.5, seeds=0))]) is None


def test_a_single_seed_is_never_clear_and_more_comparisons_need_more() -> None:
    assert not clear_among(PairedDifference.of([0.9], [0.1]), 1)
    difference = PairedDifference(mean=0.04, standard_error=0.01, seeds=5)
    assert difference.clear == clear_among(difference, 1)
    assert not clear_among(difference, 48)
