"""The epsilons that a campaign document states, and how each is written."""

from __future__ import annotations

from typing import Any

from veilgraph.privacy.accounting import Guarantee
from veilgraph.privacy.epsilon import state_epsilon
from veilgraph.privacy.strict_json import number_text


def guarantee_document(guarantee: Guarantee) -> dict[str, Any]:
    """Return the epsilons of a guarantee as JSON values; no text is below its epsilon."""
    levels = {
        "features": guarantee.features_user_level,
        "label": guarantee.label_user_level,
        "total": guarantee.total_user_level,
    }
    return {
        "user_level": {part: epsilon_text(epsilon) for part, epsilon in levels.items()},
        "attribute_level": list(map(epsilon_text, guarantee.attribute_levels)),
    }


def epsilon_text(epsilon: float) -> str:
    """Write an epsilon as the shortest text of a double that is not below it."""
    return number_text(state_epsilon(epsilon))
