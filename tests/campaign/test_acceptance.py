"""What people's devices do with a campaign: the page answers up to its limit, and the documented series is below it."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from veilgraph.campaign.acceptance import PAGE_LIMIT, acceptance_in_words, is_answered
from veilgraph.privacy.accounting import guarantee_of
from veilgraph.privacy.mechanisms import GRR, LongitudinalGRR

WAVES = Path(__file__).parents[2] / "docs" / "explanation" / "rounds.md"


@pytest.mark.parametrize(
    ("label", "answered"),
    [
        (GRR(2, PAGE_LIMIT), True),
        (GRR(2, PAGE_LIMIT + 0.001), False),
        (LongitudinalGRR(7, 2.0, 1.0, rounds=12, values=1), True),
        (LongitudinalGRR(7, 2.0, 1.0, rounds=12, values=2), False),
    ],
    ids=repr,
)
def test_a_campaign_is_answered_up_to_the_limit_of_the_page(label: GRR | LongitudinalGRR, answered: bool) -> None:
    guarantee = guarantee_of(None, label)
    said = acceptance_in_words(guarantee)
    assert is_answered(guarantee) is answered
    assert said.startswith("Devices answer it: " if answered else "Devices refuse it unless")
    assert ("any two histories" if guarantee.rounds else "any two records") in said


def test_what_is_not_private_is_never_said_to_be_answered() -> None:
    guarantee = guarantee_of(None, GRR(2, math.inf))
    assert not is_answered(guarantee)
    assert "not private" in acceptance_in_words(guarantee)


@pytest.mark.parametrize("size", range(2, 20))
def test_people_can_answer_the_documented_series(size: int) -> None:
    (command,) = re.findall(r"veilgraph init .*rounds=.*", WAVES.read_text("utf-8"))
    epsilon, rounds, values = (
        float(re.findall(rf"{name}=([\d.]+)", command)[0]) for name in ("epsilon_y", "rounds", "values")
    )
    series = LongitudinalGRR(size, epsilon, epsilon / 2, rounds=int(rounds), values=int(values))
    assert is_answered(guarantee_of(None, series))
