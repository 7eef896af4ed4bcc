"""Was it worth it? What features brought and what more reports would bring, in words."""

from __future__ import annotations

from veilgraph.privacy.estimate import Estimate


def features_in_words(helped: Estimate) -> str:
    """Say whether features helped, by the difference to the same method without them.

    >>> features_in_words(Estimate(value=0.031, low=0.01, high=0.052, reports=900))
    'Features helped: with them, predictions are right more often by +3.1 points (95 % interval +1.0 to +5.2).'
    """
    if helped.low > 0:
        return f"Features helped: with them, predictions are right more often by {helped.points}."
    if helped.high < 0:
        return f"Features did harm: with them, predictions changed by {helped.points}."
    return f"Whether features helped does not show: with them, predictions changed by {helped.points}."


def hundred_in_words(gain: Estimate) -> str:
    """Say what another hundred reports would bring, and how that is known.

    >>> hundred_in_words(Estimate(value=None, low=-0.001, high=0.009, reports=900))[:83]
    'Another hundred reports would bring between −0.1 and +0.9 points (95 % interval) on'
    """
    return (
        f"Another hundred reports would bring {gain.points} on average: at most what random halves of them lack, "
        "carried on as one over the square root of their number, and perhaps nothing."
    )
