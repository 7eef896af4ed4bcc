"""The registry of what a campaign can ask: a kind is deleted with its file or folder and its line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from veilgraph.campaign.asked import Asked
from veilgraph.campaign.neighbours.wave import NeighbourWave
from veilgraph.campaign.once import Once
from veilgraph.campaign.rounds import Rounds

ASKED: tuple[type[Asked], ...] = (NeighbourWave, Rounds, Once)
"""Every kind; among those of one format, the last is meant where the key of no other one has a value."""

FORMATS = sorted({kind.format for kind in ASKED})
"""Formats of documents that are read."""


def find_asked(version: int, bound: object) -> type[Asked]:
    """Return the kind that the bound part of a document is of."""
    kinds = [kind for kind in ASKED if kind.format == version]
    stated: Mapping[str, Any] = bound if isinstance(bound, dict) else {}
    return next((kind for kind in kinds if stated.get(kind.key) is not None), kinds[-1])
