"""How a fit of Veil is divided: views and training sets that are in memory at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class FitPlan:
    """What is in memory at the same time.

    Attributes:
        own_only: Whether a view keeps one estimate of each node, from the training set without the node's own report.
            Estimates of all training sets are needed for features alone.
        sets_at_once: Number of training sets that are computed at once; None for all.
        views_at_once: Number of kinds of views that are computed at once; None for one in each thread.
    """

    own_only: bool = False
    sets_at_once: int | None = None
    views_at_once: int | None = None
