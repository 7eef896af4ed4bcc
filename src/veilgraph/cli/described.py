"""Mechanisms that options describe, for `account`: what is reported, at which budgets, and how often."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from veilgraph.cli.completion import complete_mechanism
from veilgraph.cli.options import Settings
from veilgraph.errors import BudgetError
from veilgraph.privacy.accounting import Guarantee, guarantee_of
from veilgraph.privacy.budget import RoundBudget, check_features_budget
from veilgraph.privacy.mechanisms import NeighbourMechanism
from veilgraph.privacy.mechanisms.registry import (
    MECHANISMS,
    answer_mechanism,
    check_waves_of_answers,
    feature_mechanism,
    grr_fs,
    label_mechanism,
)
from veilgraph.privacy.schema import FeatureSchema

# Epsilons of a randomized list do not depend on the number of people.
_PEOPLE = 100
_BINARY = 2


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """What a report holds, and what it may reveal."""

    epsilon_x: Annotated[
        float | None, typer.Option(help="Budget of each sampled feature; leave out if none are collected.")
    ] = None
    sampled: Annotated[
        int | None, typer.Option(help="Number of features that each person samples; at most all count.")
    ] = None
    epsilon_y: Annotated[float | None, typer.Option(help="Budget of the label; leave out if none is collected.")] = None
    features: Annotated[int | None, typer.Option(help="Number of features.")] = None
    classes: Annotated[int | None, typer.Option(help="Number of classes of the label.", show_default="2")] = None
    schema: Annotated[Path | None, typer.Option(help="Take features and classes from a schema file.")] = None


@dataclass(frozen=True, kw_only=True)
class RareOptions(Settings):
    """Mechanism and domains of features, rounds, private neighbours, and what is drawn for an audit."""

    mechanism: Annotated[
        str | None,
        typer.Option(
            help=f"Mechanism of the features, of {', '.join(MECHANISMS)}; default: {grr_fs.name}.",
            autocompletion=complete_mechanism,
        ),
    ] = None
    domain_size: Annotated[int | None, typer.Option(help="Values of each feature; default: 2.")] = None
    domain_sizes: Annotated[list[int] | None, typer.Option(help="Values of every feature, such as 2,3,4.")] = None
    rounds: Annotated[int | None, typer.Option(help="Rounds of a series, each answered by L-GRR.")] = None
    values: Annotated[int | None, typer.Option(help="Series: different values that are answered; default: 2.")] = None
    round_epsilon: Annotated[
        float | None, typer.Option(help="Series: budget of the label in a round; default: half of epsilon_y.")
    ] = None
    round_epsilon_x: Annotated[
        float | None, typer.Option(help="Series: budget of a feature in a round; default: half of epsilon_x.")
    ] = None
    neighbours: Annotated[
        str | None, typer.Option(help="Answers about private lists: class (any two lists), histogram or list.")
    ] = None
    edge_epsilon: Annotated[
        list[float] | None, typer.Option(help="Private lists: budget of each wave's answer, such as 1,0.5.")
    ] = None
    cap: Annotated[int | None, typer.Option(help="Histogram: neighbours that count for each class at most.")] = None
    trials: Annotated[int | None, typer.Option(help="Audit: number of reports; default: 1000000.")] = None
    claim: Annotated[float | None, typer.Option(help="Audit: epsilon to test; default: the exact one.")] = None
    seed: Annotated[int | None, typer.Option(help="Audit: seed; default: a fresh one, which is printed.")] = None
    confidence: Annotated[
        float | None, typer.Option(help="Audit: a true claim is refuted with at most the rest; default: 0.99.")
    ] = None
    command: Annotated[
        str | None,
        typer.Option(help="Audit, instead of ours: a command that reads records and writes reports."),
    ] = None
    records: Annotated[str | None, typer.Option(help="Audit of a command: file of the records, one in a line.")] = None


DRAWN = ("trials", "claim", "seed", "confidence")
"""Options that an audit alone reads."""


@dataclass(frozen=True)
class Described:
    """Mechanisms by options.

    Attributes:
        report: what a report holds.
        rare: how it is randomized, and how often.
    """

    report: ReportOptions
    rare: RareOptions

    @property
    def given(self) -> dict[str, Any]:
        """Options that were given, by name."""
        return {name: value for name, value in (asdict(self.report) | asdict(self.rare)).items() if value is not None}

    @property
    def rounds(self) -> RoundBudget:
        """How often everything is asked."""
        rare = self.rare
        return RoundBudget(
            rounds=rare.rounds,
            values=_BINARY if rare.values is None else rare.values,
            round_epsilon=rare.round_epsilon,
            round_epsilon_x=rare.round_epsilon_x,
        )

    @property
    def mechanism(self) -> str:
        """Name of the mechanism of features."""
        return self.rare.mechanism or grr_fs.name

    @property
    def num_classes(self) -> int:
        """Number of classes of the label."""
        if self.report.schema is not None:
            return FeatureSchema.load(self.report.schema).num_classes
        return _BINARY if self.report.classes is None else self.report.classes

    def domain_sizes(self, *, default: int | None = None) -> tuple[int, ...]:
        """Return the number of values of each feature.

        Args:
            default: number of features if it was not given; None: it must be given.
        """
        report, rare = self.report, self.rare
        if report.schema is not None:
            return FeatureSchema.load(report.schema).domain_sizes
        if rare.domain_sizes is not None:
            if report.features is not None and report.features != len(rare.domain_sizes):
                raise BudgetError(f"features is {report.features}, but {len(rare.domain_sizes)} domain sizes are given")
            return tuple(rare.domain_sizes)
        features = default if report.features is None else report.features
        if features is None:
            raise BudgetError("how many features? give --features, --schema or --set domain_sizes=2,3,4")
        if features < 1:
            raise BudgetError(f"features is {features}: there must be at least 1")
        return (_BINARY if rare.domain_size is None else rare.domain_size,) * features

    @property
    def answers(self) -> tuple[NeighbourMechanism, ...]:
        """Mechanism of each wave of answers about neighbour lists; none if no kind is given."""
        kind, epsilons = self.rare.neighbours, self.rare.edge_epsilon or []
        if kind is None:
            if epsilons or self.rare.cap is not None:
                raise BudgetError(
                    "edge_epsilon and cap are for private neighbours: give --set neighbours=class, histogram or list"
                )
            return ()
        check_waves_of_answers(kind, epsilons)
        return tuple(
            answer_mechanism(kind, num_classes=self.num_classes, people=_PEOPLE, epsilon=epsilon, cap=self.rare.cap)
            for epsilon in epsilons
        )

    @property
    def guarantee(self) -> Guarantee:
        """What a report reveals at most."""
        report = self.report
        check_features_budget(report.epsilon_x, report.sampled)
        if report.epsilon_x is None and report.epsilon_y is None and self.rare.neighbours is None:
            raise BudgetError(
                "nothing is collected: give --epsilon-y, or --epsilon-x with --sampled, or all three; "
                "for private neighbours --set neighbours=... and --set edge_epsilon=..."
            )
        self.refuse_unused()
        features = label = None
        if report.epsilon_x is not None and report.sampled is not None:
            sizes = self.domain_sizes()
            features = feature_mechanism(self.mechanism, sizes, report.sampled, report.epsilon_x, self.rounds)
        if report.epsilon_y is not None:
            label = label_mechanism(self.num_classes, report.epsilon_y, self.rounds)
        return guarantee_of(features, label, self.answers)

    def refuse_unused(self) -> None:
        """Refuse options that would change nothing beside the other ones."""
        given = self.given
        for name, reason in self._unused():
            if name in given:
                raise BudgetError(f"{name} would change nothing: {reason}")

    def _unused(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each option that says nothing here, given or not, and why."""
        report, rare = self.report, self.rare
        features, label = report.epsilon_x is not None, report.epsilon_y is not None
        sizes, schema = rare.domain_sizes is not None, report.schema is not None
        about_classes = label or rare.neighbours not in (None, "list")
        if not features:
            for name in ("mechanism", "features", "sampled", "domain_size", "domain_sizes", "round_epsilon_x"):
                yield name, "it is about features: give --epsilon-x, or leave it out"
        if not label:
            yield "round_epsilon", "it is about the label: give --epsilon-y, or leave it out"
        if not about_classes:
            for name in ("classes",) if features else ("classes", "schema"):
                yield name, "nothing here has classes: give --epsilon-y or neighbours=class, or leave it out"
        if rare.rounds is None:
            yield "values", "it is about a series: give rounds, or leave it out"
        elif not features and not label:
            yield "rounds", "it is about features and label: each edge_epsilon is a wave about neighbours"
        if features and schema:
            for name in ("domain_size", "domain_sizes"):
                yield name, "the schema says it: leave out one of them"
        if features and sizes:
            yield "domain_size", "domain_sizes says it: leave out one of them"
        if about_classes and schema:
            yield "classes", "the schema says it: leave out one of them"
