"""Veil: public structure, randomized labels and randomized features in one posterior."""

from veilgraph.models.veil.model import LabelVeil, Veil

__all__ = ["LabelVeil", "Veil"]
