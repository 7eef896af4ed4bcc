"""A campaign that asks once says how each answer is randomized, and what leaving it out shows."""

from __future__ import annotations

import pytest

from tests.support.campaigns import campaign, classes
from veilgraph.privacy.schema import FeatureSchema

BOTH = FeatureSchema.binary(4, classes=["a", "b"])
LABEL_LEFT_OUT = "The label may be left out, too, which is visible."
FEATURE_LEFT_OUT = "Each feature may be left out: a random answer takes its place on the device"


@pytest.mark.parametrize(
    ("asked", "label_left_out", "feature_left_out"),
    [
        (campaign(BOTH, epsilon_x=1.0, sampled=2, epsilon_y=1.0), True, True),
        (campaign(BOTH, epsilon_x=1.0, sampled=2), False, True),
        (campaign(classes(3), epsilon_y=1.0), False, False),
    ],
    ids=["features and label", "features alone", "the label alone"],
)
def test_leaving_out_is_said_of_what_is_asked_beside_something_else(
    asked: object, label_left_out: bool, feature_left_out: bool
) -> None:
    said = "\n".join(asked.in_words())  # type: ignore[attr-defined]
    assert (LABEL_LEFT_OUT in said, FEATURE_LEFT_OUT in said) == (label_left_out, feature_left_out)
