"""Label mechanisms that all tests of mechanisms try: at least one of every form."""

from __future__ import annotations

from collections.abc import Sequence

from veilgraph.privacy.mechanisms import GRR, SubsetSelection
from veilgraph.privacy.mechanisms.registry import LabelOnce

LABELS: Sequence[LabelOnce] = (
    GRR(2, 1.0),
    GRR(5, 0.3),
    GRR(7, 4.0),
    SubsetSelection(7, 1.0),
    SubsetSelection(8, 0.25, size=4),
    SubsetSelection(5, 2.0, size=4),
    SubsetSelection(6, 0.5, size=1),
    SubsetSelection(2, 3.0),
)
"""Small enough to enumerate all classes and reports."""
