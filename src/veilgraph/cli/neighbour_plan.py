"""`veilgraph plan --private-neighbours`: how to spend a total where nobody holds the graph."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.table import Table

from veilgraph.cli._common import needs_extra, show_progress
from veilgraph.cli.output import Sentence
from veilgraph.privacy import belief_table
from veilgraph.privacy.plain_text import counted

if TYPE_CHECKING:
    from veilgraph.experiments.neighbour_design import NeighbourDesign
    from veilgraph.experiments.neighbour_planner import (
        FeatureBudget,
        NeighbourPlan,
        PlannedDesign,
        SimulatedAccuracies,
    )


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The total, and what is known about the people.

    Attributes:
        epsilon: total of label, list and features, under the relation of the answer.
        people: number of people.
        degree: how many neighbours a person lists, roughly.
        classes: number of classes.
        answer: histogram, class or list; None: the better of histogram and list.
    """

    epsilon: float
    people: int
    degree: float
    classes: int
    answer: str | None = None


def advise(
    given: Asked, *, homophily: list[float] | None, epsilon_x: float | None, sampled: int | None, seed: int
) -> NeighbourAdvice:
    """Recommend answer, waves and budgets for a total, from public information alone.

    Args:
        given: the total, and what is known about the people.
        homophily: shares of relationships within a class that are simulated; None: 0.6 and 0.85.
        epsilon_x: budget of each sampled feature; None: no features.
        sampled: number of features to spend it on.
        seed: seed of the simulations.
    """
    with needs_extra("lab"):
        from veilgraph.experiments.neighbour_design import ONE_ENTRY
        from veilgraph.experiments.neighbour_planner import HOMOPHILIES, FeatureBudget, Population, plan_neighbours

    homophilies, features = tuple(homophily or HOMOPHILIES), FeatureBudget(epsilon_x=epsilon_x, sampled=sampled)
    population = Population(
        people=given.people, mean_degree=given.degree, num_classes=given.classes, homophilies=homophilies
    )
    answers = ONE_ENTRY if given.answer is None else (given.answer,)
    plan = partial(plan_neighbours, population, total_epsilon=given.epsilon, answers=answers, seed=seed)
    with show_progress("plan") as progress:
        found = plan(features=features, progress=progress)
        bare = found if epsilon_x is None else plan(progress=progress)
    return NeighbourAdvice(found, bare, given, features, homophilies, seed)


@dataclass(frozen=True)
class NeighbourAdvice:
    """A plan of a collection with private neighbours, with its costs and the next commands.

    Attributes:
        plan: the plan.
        bare: the plan without features.
        given: the total, and what is known about the people.
        features: features beside the label and the list.
        homophilies: shares of relationships within a class that were simulated.
        seed: seed of the simulations.
    """

    plan: NeighbourPlan
    bare: NeighbourPlan
    given: Asked
    features: FeatureBudget
    homophilies: tuple[float, ...]
    seed: int

    @property
    def _sizes(self) -> tuple[int, ...]:
        return (2,) * (self.features.sampled or 0)

    @property
    def _downloads(self) -> dict[str, int | None]:
        from veilgraph.campaign.neighbours import people_file

        people, is_list = self.given.people, self.plan.recommended.design.answer == "list"
        table = None if is_list else belief_table.file_size(people, self.given.classes)
        return {"table": table, "people": people_file.file_size(people)}

    def _design_document(self, planned: PlannedDesign) -> dict[str, Any]:
        design = planned.design
        return {
            "title": design.title,
            "answer": design.answer,
            "epsilon_y": design.epsilon_y,
            "edge_epsilons": list(design.edge_epsilons),
            "in_turn": design.in_turn,
            **asdict(self.features),
            **_reached_in_json(planned.reached),
            "list": None if planned.facts is None else asdict(planned.facts),
            "guarantee": design.guarantee(self.given.classes, self.given.people, self._sizes).as_dict(),
        }

    @property
    def document(self) -> dict[str, Any]:
        """All designs as JSON-ready values, their costs, and the next commands."""
        plan, bare, of = self.plan, self.bare.recommended, self._design_document
        return {
            "recommended": of(plan.recommended),
            "as_good": None if plan.rival is None else of(plan.rival),
            "within_noise": [of(planned) for planned in plan.within_noise],
            "designs": [of(planned) for planned in plan.designs],
            "no_list": plan.no_list,
            "without_features": {"title": bare.design.title, **_reached_in_json(bare.reached)},
            "floor": _reached_in_json(plan.floor),
            "homophilies": list(self.homophilies),
            "drawn_people": plan.drawn_people,
            "seed": self.seed,
            "download_bytes": self._downloads,
            "next": _next_commands(plan.recommended.design),
        }

    @property
    def sentences(self) -> list[Sentence]:
        """The recommended design in words, a table of all designs, their costs, and the next commands."""
        found, best, sizes = self.plan, self.plan.recommended.design, self._sizes
        told = (
            ""
            if self.features.epsilon_x is None
            else f", {counted(len(sizes), 'feature')} at {self.features.epsilon_x:g} each"
        )
        shares = " / ".join(f"{100 * each:.0f}" for each in self.homophilies)
        return [
            f"Recommended: label {best.epsilon_y:g}{told}, then {best.title}.",
            *best.guarantee(self.given.classes, self.given.people, sizes).in_words(),
            _designs_table(found),
            f"Accuracies are for {shares} % of the relationships within a class: mean ± standard error over the runs "
            f"of a row, on drawn graphs of {found.drawn_people:,} people, seed {self.seed}. 75 % of the people report "
            "a label, and the others are predicted. The label alone gives them the most frequent class.",
            *_comparison_in_words(found),
            _features_in_words(found.recommended, self.bare.recommended),
            *_costs_in_words(found.recommended, self._downloads),
            *_next_in_words(best),
        ]


def _designs_table(found: NeighbourPlan) -> Table:
    from veilgraph.experiments.neighbour_design import ANSWERS

    table = Table(title="\nDesigns: epsilons with their relation, and accuracy in simulations", title_justify="left")
    table.add_column("label,\nany two\nlabels", justify="right")
    table.add_column(f"neighbours,\n{ANSWERS[found.recommended.design.answer]}")
    table.add_column("accuracy, %", justify="right")
    table.add_column("runs", justify="right")
    for each in found.designs:
        simulations = str(len(each.reached.draws))
        table.add_row(f"{each.design.epsilon_y:g}", each.design.title, _accuracies(each.reached), simulations)
    table.add_row("", "the label alone (the floor)", _accuracies(found.floor), str(len(found.floor.draws)))
    return table


def _accuracies(reached: SimulatedAccuracies) -> str:
    return " / ".join(
        f"{100 * mean:.0f}" if error is None else f"{100 * mean:.0f} ± {100 * error:.0f}"
        for mean, error in zip(reached.means, reached.standard_errors, strict=True)
    )


def _reached_in_json(reached: SimulatedAccuracies) -> dict[str, Any]:
    """Return means and standard errors at each homophily, and the number of simulations behind each."""
    return {
        "accuracies": list(reached.means),
        "standard_errors": list(reached.standard_errors),
        "simulations": len(reached.draws),
    }


def _comparison_in_words(found: NeighbourPlan) -> list[str]:
    """Say which designs were left out or given up, and which are as good as the recommended one."""
    sentences = [] if found.no_list is None else [f"No list was tried: {found.no_list}."]
    if any(len(each.reached.draws) < found.simulations for each in found.designs):
        sentences.append("A design with fewer runs was behind in these, and was not simulated further.")
    if found.within_noise:
        sentences.append(
            f"As good, within what {found.simulations} simulations can tell (95 % interval of the paired difference): "
            f"{'; '.join(_with_label(each) for each in found.within_noise)}. The recommended one has "
            "the fewest waves among those of its answer."
        )
    if (rival := found.rival) is not None and rival not in found.within_noise:
        sentences.append(
            f"Simulations cannot tell {_with_label(rival)} from it: the mean accuracies differ by less than 5 "
            "points, and drawn graphs are more even than those of people."
        )
    return sentences


def _with_label(planned: PlannedDesign) -> str:
    return f"{planned.design.title} with label {planned.design.epsilon_y:g}"


def _features_in_words(best: PlannedDesign, bare: PlannedDesign) -> str:
    """Say what features cost, or that they are left out."""
    design = best.design
    if design.epsilon_x is None or design.sampled is None:
        return (
            "Features are left out: each that a person answers would cost its own epsilon at user level (any two "
            "records), and on public graphs they gave less than they cost. Ask for them by epsilon_x and sampled."
        )
    return (
        f"The features cost {design.epsilon_x * design.sampled:g} of the total at user level (any two records). "
        f"Accuracies are without what they may tell; label and list alone reach {_accuracies(bare.reached)} % with the "
        "whole total."
    )


def _costs_in_words(best: PlannedDesign, downloads: dict[str, int | None]) -> list[str]:
    """Say what a device downloads and reports."""
    people, table = downloads["people"] or 0, downloads["table"]
    if table is not None:
        wave, later = "the first wave", f" Each later wave takes {table:,} bytes."
        if best.design.in_turn:
            wave, later = "the one wave that it answers", ""
        return [
            f"A device downloads {table + people:,} bytes for {wave}, whole files that are the same for everybody: "
            f"what is believed, and whose row is whose.{later}"
        ]
    sentences = [f"A device downloads {people:,} bytes, a file that is the same for everybody: whose row is whose."]
    if (facts := best.facts) is not None:
        sentences.append(
            f"A report names {facts.names:,.0f} people on average, in {facts.answer_bytes:,} bytes for any list. "
            f"A pair counts if both name each other: {facts.false_neighbours:,.1f} false neighbours for each person."
        )
    return sentences


def _next_commands(design: NeighbourDesign) -> list[str] | None:
    """Return the commands that collect a design; None where a series cannot."""
    if design.epsilon_x is not None:
        return None
    turns = f" --turns {len(design.edge_epsilons)}" if design.in_turn else ""
    options = [turns] + [""] * (len(design.edge_epsilons) - 1)  # later waves inherit it
    return [
        f"veilgraph init FOLDER --people people.csv --set contacts={design.answer} --epsilon {design.epsilon_y:g} "
        '--question "..." --answer "..." --answer "..." --purpose "..." --contact "..." --closes 2030-12-31',
        *(
            f"veilgraph open-round FOLDER --epsilon {epsilon:g}{option} --closes 2030-12-31"
            for epsilon, option in zip(design.edge_epsilons, options, strict=True)
        ),
    ]


def _next_in_words(design: NeighbourDesign) -> list[str]:
    """Say how to collect a design."""
    commands = _next_commands(design)
    if commands is None:
        return ["A series asks for no features: this design can be simulated, and not collected."]
    return [
        "",
        "Next, with your own purpose, contact and dates; publish when people have answered what was asked before:",
        *(f"  {each}" for each in commands),
    ]
