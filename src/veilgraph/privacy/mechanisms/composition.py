"""The guarantee of a whole report: features by one mechanism, the label by another."""

from __future__ import annotations

from functools import lru_cache

from veilgraph.privacy.budget import Claim, Guarantee, theorem_1_figure
from veilgraph.privacy.mechanisms.base import Mechanism
from veilgraph.privacy.mechanisms.grr_fs import GRRFS


def guarantee_of(features: Mechanism | None, label: Mechanism | None) -> Guarantee:
    """Independent randomizers of one record compose by addition; None where nothing is collected.

    >>> from veilgraph.privacy.mechanisms import GRR
    >>> features = GRRFS(domain_sizes=(2,) * 53, sampled=10, epsilon=1.0)
    >>> round(guarantee_of(features, GRR(6, 3.0)).total_user_level, 9)
    13.0
    """
    theorem_1 = (
        theorem_1_figure(features.epsilon, features.sampled, features.num_features)
        if isinstance(features, GRRFS)
        else None
    )
    return Guarantee(
        features=_claim_of(features) if features else None,
        label=_claim_of(label) if label else None,
        unsound_theorem_1=theorem_1,
    )


@lru_cache(maxsize=256)  # exact arithmetic takes milliseconds, and simulations ask for the same claim again and again
def _claim_of(mechanism: Mechanism) -> Claim:
    return mechanism.claim
