"""Whether the participant's page answers a campaign, or refuses it by the limit that it has from the start."""

from __future__ import annotations

import math

from veilgraph.privacy.accounting import Guarantee
from veilgraph.privacy.epsilon import show_epsilon, state_epsilon

PAGE_LIMIT = 4.0
"""Limit of the participant's page for all reports of a device together, unless its person sets another."""


def is_answered(guarantee: Guarantee) -> bool:
    """Return whether a device that has answered nothing else answers under the page's limit."""
    return guarantee.total_user_level <= PAGE_LIMIT


def acceptance_in_words(guarantee: Guarantee) -> str:
    """Say what people's devices do with a campaign of this guarantee, at user level."""
    if math.isinf(guarantee.total_user_level):
        return "This is not private at user level: a device answers only if its person sets a limit for single entries."
    total, limit = show_epsilon(state_epsilon(guarantee.total_user_level)), f"{PAGE_LIMIT:g}"
    spent = f"epsilon = {total} (user level, {guarantee.user_level_pairs})"
    if is_answered(guarantee):
        return f"Devices answer it: {spent} is within the page's limit of {limit} for all surveys of a person together."
    return (
        f"Devices refuse it unless their people raise the page's limit of {limit} for all surveys together: "
        f"{spent} is above it. Lower the epsilons, or the rounds and values of a series."
    )
