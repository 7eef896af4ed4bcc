"""`veilgraph account`: what a report reveals at most."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from veilgraph.campaign import Campaign
from veilgraph.cli.completion import complete_mechanism
from veilgraph.cli.options import CapOption, JsonOption, takes_groups
from veilgraph.cli.output import Facts, emit
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

KNOWN = ", ".join(MECHANISMS)
CampaignFile = Annotated[
    Path | None, typer.Argument(help="A campaign, .json: takes everything else from it.", metavar="CAMPAIGN")
]
# Epsilons of a randomized list do not depend on the number of people.
_PEOPLE = 100


@dataclass(frozen=True, kw_only=True)
class RoundOptions:
    """How often everything is asked, as options of `account` and `audit`."""

    rounds: Annotated[
        int | None, typer.Option(help="Rounds of a series: everything is asked again in each, and answered by L-GRR.")
    ] = None
    values: Annotated[int, typer.Option(help="Series: different values of a person that are answered.")] = 2
    round_epsilon: Annotated[
        float | None, typer.Option(help="Series: budget of the label in a round's report; default: half of epsilon_y.")
    ] = None
    round_epsilon_x: Annotated[
        float | None, typer.Option(help="Series: budget of a feature in a round's report; default: half of epsilon_x.")
    ] = None

    @property
    def budget(self) -> RoundBudget:
        """The budget of the rounds."""
        return RoundBudget(**asdict(self))


@dataclass(frozen=True, kw_only=True)
class ListOptions:
    """What is asked about neighbour lists, as options of `account` and `audit`."""

    neighbours: Annotated[
        str | None,
        typer.Option(help="Answers about private neighbour lists: class (any two lists), histogram or list."),
    ] = None
    edge_epsilon: Annotated[
        list[float] | None, typer.Option(help="Private neighbours: budget of a wave's answer; once for each wave.")
    ] = None
    cap: CapOption = None

    def mechanisms(self, num_classes: int) -> tuple[NeighbourMechanism, ...]:
        """Return the mechanism of each wave of answers about neighbour lists; none if no kind is given."""
        kind, epsilons = self.neighbours, self.edge_epsilon or []
        if kind is None:
            if epsilons or self.cap is not None:
                raise BudgetError(
                    "--edge-epsilon and --cap are for private neighbours: give --neighbours class|histogram|list"
                )
            return ()
        check_waves_of_answers(kind, epsilons)
        return tuple(
            answer_mechanism(kind, num_classes=num_classes, people=_PEOPLE, epsilon=epsilon, cap=self.cap)
            for epsilon in epsilons
        )


@dataclass(frozen=True, kw_only=True)
class _BudgetOptions:
    """What a report may reveal."""

    epsilon_x: Annotated[
        float | None, typer.Option(help="Budget of each sampled feature; leave out if none are collected.")
    ] = None
    sampled: Annotated[
        int | None, typer.Option(help="Number of features that each person samples; at most all count.")
    ] = None
    epsilon_y: Annotated[float | None, typer.Option(help="Budget of the label; leave out if none is collected.")] = None


@dataclass(frozen=True, kw_only=True)
class _RecordOptions:
    """What a record holds, and how its features are randomized."""

    features: Annotated[int | None, typer.Option(help="Number of features.")] = None
    domain_size: Annotated[int, typer.Option(help="Values of each feature.")] = 2
    domain_sizes: Annotated[str | None, typer.Option(help="Values of every feature, such as 2,3,4.")] = None
    classes: Annotated[int, typer.Option(help="Number of classes of the label.")] = 2
    schema: Annotated[Path | None, typer.Option(help="Take features and classes from a schema file.")] = None
    mechanism: Annotated[
        str, typer.Option(help=f"Mechanism of the features: {KNOWN}.", autocompletion=complete_mechanism)
    ] = grr_fs.name

    def domains(self, *, asks_features: bool) -> tuple[tuple[int, ...], int]:
        """Return the number of values of each feature, and of classes."""
        if self.schema is not None:
            declared = FeatureSchema.load(self.schema)
            return declared.domain_sizes, declared.num_classes
        sizes: tuple[int, ...] = ()
        if self.features is not None or self.domain_sizes is not None:
            sizes = parse_domain_sizes(self.domain_sizes, features=self.features or 0, domain_size=self.domain_size)
        elif asks_features:
            raise BudgetError("how many features? give --features, --domain-sizes or --schema")
        return sizes, self.classes


@takes_groups
def account(
    context: typer.Context,
    budget: _BudgetOptions,
    record: _RecordOptions,
    series: RoundOptions,
    lists: ListOptions,
    campaign: CampaignFile = None,
    as_json: JsonOption = False,
) -> None:
    """Print what a report reveals at most: user level, attribute level, and why Theorem 1 is not used."""
    if campaign is not None:
        guarantee = read_campaign(context, campaign, "as_json").guarantee
    else:
        guarantee = _guarantee(context, budget, record, series, lists)
    emit(Facts(guarantee.as_dict(), guarantee.in_words()), as_json=as_json)


def _guarantee(
    context: typer.Context, budget: _BudgetOptions, record: _RecordOptions, series: RoundOptions, lists: ListOptions
) -> Guarantee:
    check_features_budget(budget.epsilon_x, budget.sampled)
    if budget.epsilon_x is None and budget.epsilon_y is None and lists.neighbours is None:
        raise BudgetError(
            "nothing is collected: give --epsilon-y, or --epsilon-x with --sampled, or all three; "
            "for private neighbours --neighbours with --edge-epsilon"
        )
    refuse_unused(context)
    sizes, classes = record.domains(asks_features=budget.epsilon_x is not None)
    check_number_of_features(record.features, sizes)
    features = label = None
    if budget.epsilon_x is not None and budget.sampled is not None:
        features = feature_mechanism(record.mechanism, sizes, budget.sampled, budget.epsilon_x, series.budget)
    if budget.epsilon_y is not None:
        label = label_mechanism(classes, budget.epsilon_y, series.budget)
    return guarantee_of(features, label, lists.mechanisms(classes))


def read_campaign(context: typer.Context, path: Path, *allowed: str) -> Campaign:
    """Read a campaign; refuse options other than the allowed ones, because the campaign states the rest."""
    for name in context.params.keys() - {"campaign", *allowed}:
        if is_given(context, name):
            raise BudgetError(f"{path} states budget and mechanisms: leave out {_option(name)}, or the campaign")
    return Campaign.from_json(path.read_bytes())


def refuse_unused(context: typer.Context) -> None:
    """Refuse options of `account` and `audit` that would change nothing beside the other ones."""
    given = context.params
    features, label = given["epsilon_x"] is not None, given["epsilon_y"] is not None
    sizes, schema = given["domain_sizes"] is not None, given.get("schema") is not None
    about_classes = label or given["neighbours"] not in (None, "list")
    unused: dict[str, str] = {}
    if not features:
        about = ("mechanism", "features", "sampled", "domain_size", "domain_sizes", "round_epsilon_x")
        unused |= dict.fromkeys(about, "it is about features: give --epsilon-x, or leave it out")
    if not label:
        unused["round_epsilon"] = "it is about the label: give --epsilon-y, or leave it out"
    if not about_classes:
        no_classes = "nothing here has classes: give --epsilon-y or --neighbours class|histogram, or leave it out"
        unused |= {"classes": no_classes} if features else {"classes": no_classes, "schema": no_classes}
    if given["rounds"] is None:
        unused["values"] = "it is about a series: give --rounds, or leave it out"
    elif not features and not label:
        unused["rounds"] = "it is about features and label: each --edge-epsilon is a wave about neighbours"
    if features and schema:
        unused |= dict.fromkeys(("domain_size", "domain_sizes"), "the schema says it: leave out one of them")
    if features and sizes:
        unused["domain_size"] = "--domain-sizes says it: leave out one of them"
    if about_classes and schema:
        unused["classes"] = "the schema says it: leave out one of them"
    for name, reason in unused.items():
        if is_given(context, name):
            raise BudgetError(f"{_option(name)} would change nothing: {reason}")


def is_given(context: typer.Context, name: str) -> bool:
    """Return whether an option was typed, and is no default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def check_number_of_features(features: int | None, sizes: tuple[int, ...]) -> None:
    """Refuse a number of features that differs from that of the domain sizes."""
    if features is not None and features != len(sizes):
        raise BudgetError(f"features is {features}, but {len(sizes)} domain sizes are given")


def parse_domain_sizes(text: str | None, *, features: int, domain_size: int) -> tuple[int, ...]:
    """Parse "2,3,4", or repeat `domain_size` for each feature if there is no text.

    >>> parse_domain_sizes("2,3,4", features=53, domain_size=2)
    (2, 3, 4)
    """
    if text is None:
        if features < 1:
            raise BudgetError(f"features is {features}: there must be at least 1")
        return (domain_size,) * features
    try:
        return tuple(int(size) for size in text.split(","))
    except ValueError:
        raise BudgetError(f"domain sizes are '{text}': give whole numbers with commas, such as 2,3,4") from None
