"""Public columns as stand-ins for a question: do their values follow the links, as answers may or may not?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from veilgraph.errors import GraphError
from veilgraph.experiments.label_fields import above_chance
from veilgraph.graph import Graph, PublicAttributes


@dataclass(frozen=True, kw_only=True)
class StandIn:
    """How closely the values of a public column follow the links.

    Attributes:
        name: name of the column.
        homophily: share of links that join two people with the same value.
        chance: the same, if links joined people at random.
    """

    name: str
    homophily: float
    chance: float

    @property
    def assortativity(self) -> float:
        """The homophily above chance: 0 at chance, 1 where all links join people with the same value."""
        return above_chance(self.homophily, self.chance)


def stand_ins(graph: Graph, public: PublicAttributes | None) -> Iterator[StandIn]:
    """Yield how closely each public column follows the links; numbers count by their groups, embeddings not at all.

    Links of a person without a value are left out.

    >>> pairs = Graph.from_edges([[0, 1, 2, 3], [1, 2, 3, 0]], num_nodes=4)
    >>> from veilgraph.graph.attribute_kinds import Categories
    >>> village = Categories.of("village", ["A", "A", "B", "B"])
    >>> list(stand_ins(pairs, PublicAttributes((village,))))
    [StandIn(name='village', homophily=0.5, chance=0.5)]
    """
    for attribute in () if public is None else public:
        with suppress(GraphError):  # an embedding has no groups
            codes = attribute.groups().codes
            first, second = codes[graph.edges]
            known = (first >= 0) & (second >= 0)
            shares = np.bincount(codes[codes >= 0]) / (codes >= 0).sum()
            if known.any() and len(shares) > 1:
                homophily = float((first == second)[known].mean())
                yield StandIn(name=attribute.name, homophily=homophily, chance=float(np.square(shares).sum()))
