"""Whether features helped follows from the interval alone, and a point never contradicts it."""

from __future__ import annotations

import pytest

from veilgraph.campaign.worth import features_in_words, hundred_in_words
from veilgraph.privacy.estimate import Estimate


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.001, 0.05, "Features helped"),
        (-0.02, 0.05, "Whether features helped does not show"),
        (0.0, 0.05, "Whether features helped does not show"),
        (-0.05, -0.001, "Features did harm"),
    ],
)
@pytest.mark.parametrize("has_point", [True, False])
def test_the_words_follow_from_the_interval(low: float, high: float, said: str, has_point: bool) -> None:
    value = (low + high) / 2 if has_point else None
    assert features_in_words(Estimate(value=value, low=low, high=high, reports=90)).startswith(said)


def test_what_a_hundred_reports_bring_names_its_interval_and_its_method() -> None:
    said = hundred_in_words(Estimate(value=None, low=-0.001, high=0.009, reports=900))
    assert "between −0.1 and +0.9 points (95 % interval) on average" in said
    assert "random halves" in said
