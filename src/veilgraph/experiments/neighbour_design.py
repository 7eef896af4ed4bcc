"""Designs of a collection with private neighbours: which answer, how many waves, and how much for what is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from veilgraph.errors import BudgetError
from veilgraph.experiments.randomized_lists import ListFacts, list_facts
from veilgraph.privacy.accounting import Guarantee, guarantee_of
from veilgraph.privacy.belief_table import finest_scale
from veilgraph.privacy.budget import PrivacyBudget
from veilgraph.privacy.mechanisms import (
    GRR,
    FeatureMechanism,
    LabelMechanism,
    NeighbourhoodClass,
    NeighbourhoodHistogram,
    NeighbourMechanism,
    RandomizedNeighbourList,
)
from veilgraph.privacy.mechanisms.registry import best_label_mechanism, joint_grr_best
from veilgraph.privacy.plain_text import counted

HISTOGRAM, CLASS, LIST = "histogram", "class", "list"
ANSWERS = {HISTOGRAM: "one entry of a list", CLASS: "any two lists", LIST: "one entry of a list"}
"""Answers, and what their epsilon protects."""

ONE_ENTRY = (HISTOGRAM, LIST)
"""Answers that protect one entry of a list."""

FIRST_SHARE = 0.25
"""Share of the first of two waves of histograms: a rough table is enough for a good second one."""

TURNS = 4


def check_answer(answer: str) -> str:
    """Return the name of an answer; refuse one that does not exist.

    >>> check_answer("lists")
    Traceback (most recent call last):
    veilgraph.errors.BudgetError: there is no answer 'lists' about neighbours: choose histogram, class or list
    """
    if answer not in ANSWERS:
        *others, last = ANSWERS
        raise BudgetError(f"there is no answer '{answer}' about neighbours: choose {', '.join(others)} or {last}")
    return answer


@dataclass(frozen=True, kw_only=True)
class NeighbourDesign:
    """A collection with private neighbours.

    Labels are randomized by GRR. Label sets tell the server more, but a neighbour's set adds little to any one class of
    a table. A list has no table: labels beside it may be sets.
    Features, if asked, are randomized by joint GRR, with the number of them whose estimates vary least. They cost
    `sampled` times `epsilon_x` at user level, any two records. A list is reported in one wave, and Veil learns from the
    graph of mutual pairs.

    Attributes:
        answer: HISTOGRAM, CLASS or LIST.
        epsilon_y: budget of the label.
        edge_epsilons: budget of each wave's answer.
        in_turn: each person answers one of the waves, and not all; all have the same budget.
        epsilon_x: budget of each sampled feature; None, the default, asks for none.
        sampled: number of features to spend it on, given together with `epsilon_x`.
    """

    answer: str
    epsilon_y: float
    edge_epsilons: tuple[float, ...]
    in_turn: bool = False
    epsilon_x: float | None = None
    sampled: int | None = None

    def __post_init__(self) -> None:
        PrivacyBudget(self.epsilon_x, self.epsilon_y, self.sampled)
        check_answer(self.answer)
        if self.answer == LIST and len(self.edge_epsilons) != 1:
            raise BudgetError(f"a list is reported once, and {len(self.edge_epsilons)} waves are asked: give one")
        if self.in_turn and len(set(self.edge_epsilons)) != 1:
            raise BudgetError("in turn each person answers one wave: give all waves the same edge epsilon")

    @classmethod
    def usual(
        cls,
        answer: str,
        epsilon_y: float,
        edge_epsilon: float,
        *,
        epsilon_x: float | None = None,
        sampled: int | None = None,
    ) -> NeighbourDesign:
        """Return the design that is best on most graphs for a budget of the label and one of the list.

        >>> NeighbourDesign.usual("histogram", 2.0, 4.0).title
        'histogram in 2 waves: 1, 3'
        >>> NeighbourDesign.usual("class", 2.0, 4.0).title
        'class in 4 waves, one for each person: 4'
        >>> NeighbourDesign.usual("list", 2.0, 4.0).title
        'randomized list: 4'
        """
        waves = {
            HISTOGRAM: (edge_epsilon * FIRST_SHARE, edge_epsilon * (1 - FIRST_SHARE)),
            CLASS: (edge_epsilon,) * TURNS,
            LIST: (edge_epsilon,),
        }
        return cls(
            answer=check_answer(answer),
            epsilon_y=epsilon_y,
            edge_epsilons=waves[answer],
            in_turn=answer == CLASS,
            epsilon_x=epsilon_x,
            sampled=sampled,
        )

    @property
    def title(self) -> str:
        """What is asked, in words."""
        if self.answer == LIST:
            return f"randomized list: {self.edge_epsilons[0]:g}"
        waves = counted(len(self.edge_epsilons), "wave")
        if self.in_turn and len(self.edge_epsilons) > 1:
            return f"{self.answer} in {waves}, one for each person: {self.edge_epsilons[0]:g}"
        return f"{self.answer} in {waves}: {', '.join(f'{each:g}' for each in self.edge_epsilons)}"

    def label(self, num_classes: int) -> LabelMechanism:
        """Return the mechanism of the labels: GRR before waves, and what carries most information beside a list."""
        best = best_label_mechanism(num_classes, self.epsilon_y)
        return best if self.answer == LIST else GRR(num_classes, self.epsilon_y)

    def waves(self, num_classes: int, people: int) -> list[NeighbourMechanism]:
        """Return the mechanism of each wave; a list is refused where there are too many people for it."""
        if self.answer == LIST:
            return [RandomizedNeighbourList(people, epsilon) for epsilon in self.edge_epsilons]
        if self.answer == CLASS:
            return [NeighbourhoodClass(num_classes, epsilon) for epsilon in self.edge_epsilons]
        scale = finest_scale(num_classes)
        return [NeighbourhoodHistogram(num_classes, epsilon, scale) for epsilon in self.edge_epsilons]

    def list_facts(self, people: int, mean_degree: float) -> ListFacts | None:
        """Return size and errors of randomized lists of a mean length; None for answers in waves."""
        if self.answer != LIST:
            return None
        return list_facts(RandomizedNeighbourList(people, self.edge_epsilons[0]), mean_degree)

    def features(self, domain_sizes: Sequence[int]) -> FeatureMechanism | None:
        """Return the mechanism of the features, given their numbers of values; None if none are asked."""
        if self.epsilon_x is None or self.sampled is None:
            return None
        return joint_grr_best.make(tuple(domain_sizes), self.sampled, self.epsilon_x)

    def guarantee(self, num_classes: int, people: int, domain_sizes: Sequence[int] = ()) -> Guarantee:
        """Return the guarantee for all reports of one person: label, features if asked, and all waves.

        >>> design = NeighbourDesign.usual("class", 2.0, 4.0, epsilon_x=0.5, sampled=4)
        >>> round(design.guarantee(3, 100, (2,) * 10).total_user_level, 9)
        8.0
        """
        waves = self.waves(num_classes, people)
        asked = waves[:1] if self.in_turn else waves
        return guarantee_of(self.features(domain_sizes), self.label(num_classes), asked)
