"""What a model card says about edges: a public graph, answers about neighbours, or pairs who name each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PRIVATE = "Neighbours are private: nothing about them but randomized answers left a device."


class PublicEdges:
    """Words about a public graph."""

    source = " and the public graph"
    protection = "Edges are taken as public: the guarantee does not protect who is linked to whom."
    read = "with the graph"
    compared = (
        "The control reads randomized labels and the graph, and no features: a method that does not beat it has "
        "learned nothing from the rest."
    )
    judges = ""
    helpful = True
    """Whether the card says whose reports would help."""

    def rows(self, reports: Mapping[str, Any], people: int, edges: int) -> list[tuple[str, str]]:
        """Return what was collected besides labels: titles and values."""
        return [("Feature reports", f"{reports['features']:,}"), ("Public graph", f"{people:,} nodes, {edges:,} edges")]


class MutualPairs(PublicEdges):
    """Words about pairs who name each other in randomized lists."""

    source = ""
    protection = _PRIVATE
    read = "with the graph of people who name each other in randomized lists"
    certainty = " for certain"

    def rows(self, reports: Mapping[str, Any], people: int, edges: int) -> list[tuple[str, str]]:
        """Return what was collected besides labels: titles and values."""
        return [*self.answers(reports, people), ("Pairs who name each other", f"{edges:,}, true or by chance")]

    def answers(self, reports: Mapping[str, Any], people: int) -> list[tuple[str, str]]:
        """Return the answers and the people: titles and values."""
        return [
            ("Answers about neighbours", f"{reports['total'] - reports['label']:,}"),
            ("People", f"{people:,}; nobody else knows their neighbours{self.certainty}"),
        ]


class HiddenEdges(MutualPairs):
    """Words about answers in waves, from which nobody makes an edge."""

    read = "with randomized answers about neighbours and no edge"
    compared = (
        "The largest class is all that is known of a person without neighbours and without their own report: a method "
        "that does not beat it has learned nothing from the answers. The structure-only control of other cards is left "
        "out: it propagates labels over edges, and nobody has one here."
    )
    judges = (
        "One in ten label reports is in no published table, so that no answer repeats it. These judge predictions "
        "that were made without them"
    )
    helpful = False
    certainty = ""

    def rows(self, reports: Mapping[str, Any], people: int, edges: int) -> list[tuple[str, str]]:
        """Return what was collected besides labels: titles and values."""
        return self.answers(reports, people)


def edges_of(card: Mapping[str, Any]) -> PublicEdges:
    """Return the words about the edges of a card."""
    if "neighbours" not in card["guarantee"]:
        return PublicEdges()
    return MutualPairs() if card["graph"]["edges"] else HiddenEdges()
