"""The documents of a collection up to the one that is open, and whom each of them asks."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Documents:
    """The documents of a collection; most have one, which asks everybody.

    Args:
        nodes: number of nodes of the graph.
        earlier: ids of the documents before this one; the first asks for the label and names the collection.
        titles: what each document asks, in words; empty if there is one document.
        turns: number of documents after the first of which each person answers one; None if everybody answers all.

    >>> third = Documents(nodes=3, earlier=("a", "b"), titles=("the label", "wave 1", "wave 2"), turns=4)
    >>> third.number, third.people_asked(["u1", "u2", "u3"]), third.is_asked("u1")
    (2, [3, 2, 1], True)
    """

    nodes: int
    earlier: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    turns: int | None = None

    @property
    def number(self) -> int:
        """Number of documents before this one."""
        return len(self.earlier)

    @property
    def in_turns(self) -> bool:
        """Whether each person answers one wave of the series."""
        return self.turns is not None

    @property
    def described(self) -> dict[str, int]:
        """The number of this document in a log; nothing if the collection has one document."""
        return {"wave": self.number} if self.earlier else {}

    @property
    def name(self) -> str:
        """Name of this document in a log."""
        return f"wave {self.number}" if self.earlier else "the label"

    def is_asked(self, node: str) -> bool:
        """Return whether this document asks a person."""
        return self.turns is None or turn_of(node, self.turns) == self.number

    def people_asked(self, names: Iterable[str]) -> list[int]:
        """Return how many people each document asks, from the names of all nodes of the graph."""
        if self.turns is None:
            return [self.nodes] * (1 + self.number)
        of_turn = Counter(turn_of(name, self.turns) for name in names)
        return [self.nodes, *(of_turn[number] for number in range(1, self.number + 1))]

    def why_closed(self, campaign_id: object) -> str | None:
        """Say why an earlier document is not answered any more; None if this is no document before the open one."""
        if campaign_id not in self.earlier:
            return None
        before = self.earlier.index(str(campaign_id))
        closed = f"wave {before}" if before else "the label"
        return f"{closed} of this series is closed, and wave {self.number} is open: get the campaign again"


def documents_before(document: str) -> list[str]:
    """Return the ids that a document states of those before it; none where the collection has one document."""
    stated = json.loads(document).get("bound", {}).get("neighbours") or {}
    return list(stated.get("documents", ()))


def turn_of(node: str, turns: int) -> int:
    """Return the wave that a person answers, from 1, by a hash of their id: everybody can compute it.

    >>> [turn_of(node, 4) for node in ("u1", "u2", "u3")]
    [2, 1, 1]
    """
    return 1 + int.from_bytes(hashlib.sha256(node.encode()).digest()[30:], "big") % turns
