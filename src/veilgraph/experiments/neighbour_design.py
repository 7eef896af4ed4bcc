"""Designs of a collection with private neighbours: which answer, how many waves, how much for the label and each."""

from __future__ import annotations

from dataclasses import dataclass

from veilgraph.errors import BudgetError
from veilgraph.experiments.grid import CLASS, HISTOGRAM
from veilgraph.privacy.accounting import Guarantee, guarantee_of
from veilgraph.privacy.belief_table import finest_scale
from veilgraph.privacy.mechanisms import GRR, NeighbourhoodClass, NeighbourhoodHistogram, NeighbourhoodMechanism
from veilgraph.privacy.plain_text import counted

ANSWERS = {HISTOGRAM: "one entry of a list", CLASS: "any two lists"}
"""Answers, and what their epsilon protects."""

FIRST_SHARE = 0.25
"""Share of the first of two waves of histograms: a rough table is enough for a good second one."""

TURNS = 4


@dataclass(frozen=True, kw_only=True)
class NeighbourDesign:
    """A collection with private neighbours.

    Labels are randomized by GRR. Label sets tell the server more, but a neighbour's set adds little to any one class.

    Attributes:
        answer: HISTOGRAM or CLASS.
        epsilon_y: budget of the label.
        edge_epsilons: budget of each wave's answer.
        in_turn: each person answers one of the waves, and not all.
    """

    answer: str
    epsilon_y: float
    edge_epsilons: tuple[float, ...]
    in_turn: bool = False

    def __post_init__(self) -> None:
        if self.answer not in ANSWERS:
            raise BudgetError(f"there is no answer '{self.answer}' about neighbours: choose {' or '.join(ANSWERS)}")

    @classmethod
    def usual(cls, answer: str, epsilon_y: float, edge_epsilon: float) -> NeighbourDesign:
        """Return the design that is best on most graphs for a budget of the label and one of the list.

        >>> NeighbourDesign.usual("histogram", 2.0, 4.0).title
        'histogram in 2 waves: 1, 3'
        >>> NeighbourDesign.usual("class", 2.0, 4.0).title
        'class in 4 waves, one for each person: 4'
        """
        if answer == HISTOGRAM:
            waves = (edge_epsilon * FIRST_SHARE, edge_epsilon * (1 - FIRST_SHARE))
            return cls(answer=answer, epsilon_y=epsilon_y, edge_epsilons=waves)
        return cls(answer=answer, epsilon_y=epsilon_y, edge_epsilons=(edge_epsilon,) * TURNS, in_turn=True)

    @property
    def title(self) -> str:
        """What is asked, in words."""
        waves = counted(len(self.edge_epsilons), "wave")
        if self.in_turn and len(self.edge_epsilons) > 1:
            return f"{self.answer} in {waves}, one for each person: {self.edge_epsilons[0]:g}"
        return f"{self.answer} in {waves}: {', '.join(f'{each:g}' for each in self.edge_epsilons)}"

    def label(self, num_classes: int) -> GRR:
        """Return the mechanism of the labels."""
        return GRR(num_classes, self.epsilon_y)

    def waves(self, num_classes: int) -> list[NeighbourhoodMechanism]:
        """Return the mechanism of each wave."""
        if self.answer == CLASS:
            return [NeighbourhoodClass(num_classes, epsilon) for epsilon in self.edge_epsilons]
        scale = finest_scale(num_classes)
        return [NeighbourhoodHistogram(num_classes, epsilon, scale) for epsilon in self.edge_epsilons]

    def guarantee(self, num_classes: int) -> Guarantee:
        """Return what all reports of one person reveal at most."""
        waves = self.waves(num_classes)
        return guarantee_of(None, self.label(num_classes), waves[:1] if self.in_turn else waves)
