"""`veilgraph audit`: whether reports reveal more than is claimed, from draws of them."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from veilgraph.campaign import Campaign
from veilgraph.cli._common import show_progress
from veilgraph.cli.account import (
    KNOWN,
    CampaignFile,
    ListOptions,
    RoundOptions,
    check_number_of_features,
    is_given,
    parse_domain_sizes,
    read_campaign,
    refuse_unused,
)
from veilgraph.cli.completion import complete_mechanism
from veilgraph.cli.options import JsonOption, takes_groups
from veilgraph.cli.output import emit
from veilgraph.errors import BudgetError
from veilgraph.privacy.audit import (
    AuditResult,
    audit_command,
    statistical_audit,
    statistical_list_audit,
    statistical_turns_audit,
)
from veilgraph.privacy.budget import RoundBudget
from veilgraph.privacy.epsilon import ListLoss, ListRelation, NeighbourRelation, json_epsilon, show_epsilon
from veilgraph.privacy.mechanisms import Mechanism, NeighbourMechanism
from veilgraph.privacy.mechanisms.registry import describe, feature_mechanism, grr_fs, label_mechanism
from veilgraph.privacy.plain_text import counted

REFUTED = 3
"""Exit code of an audit that refutes a claim."""

# A record holds the neighbour list where answers about it are collected.
_WITH_THE_SAME_LIST = f"{NeighbourRelation.USER_LEVEL.value} with the same neighbour list"


@dataclass(frozen=True, kw_only=True)
class _BudgetOptions:
    """What is audited, features or label, and the number of classes."""

    epsilon_x: Annotated[float | None, typer.Option(help="Budget of each sampled feature.")] = None
    epsilon_y: Annotated[float | None, typer.Option(help="Budget of the label: audits the mechanism of labels.")] = None
    classes: Annotated[int, typer.Option(help="Number of classes of the label.")] = 2


@dataclass(frozen=True, kw_only=True)
class _FeatureOptions:
    """The features that are audited."""

    mechanism: Annotated[str, typer.Option(help=f"Mechanism to audit: {KNOWN}.", autocompletion=complete_mechanism)] = (
        grr_fs.name
    )
    features: Annotated[int, typer.Option(help="Number of features.")] = 1
    sampled: Annotated[int, typer.Option(help="Number of features that each person samples.")] = 1
    domain_size: Annotated[int, typer.Option(help="Values of each feature.")] = 2
    domain_sizes: Annotated[str | None, typer.Option(help="Values of every feature, such as 2,3,4.")] = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of values of each feature."""
        return parse_domain_sizes(self.domain_sizes, features=self.features, domain_size=self.domain_size)


@dataclass(frozen=True, kw_only=True)
class _DrawOptions:
    """How many reports are drawn, what is tested, and the seed."""

    trials: Annotated[int, typer.Option(help="Number of reports to draw.")] = 1_000_000
    claim: Annotated[float | None, typer.Option(help="Epsilon to test; default: the exact one.")] = None
    seed: Annotated[int | None, typer.Option(help="Seed of the reports; default: a fresh one, which is printed.")] = (
        None
    )
    confidence: Annotated[float, typer.Option(help="Confidence: a true claim is refuted with at most the rest.")] = 0.99


@dataclass(frozen=True, kw_only=True)
class _OtherOptions:
    """A randomizer of anybody's making."""

    command: Annotated[
        str | None, typer.Option(help="Instead of ours: a command that reads records and writes reports, as lines.")
    ] = None
    records: Annotated[Path | None, typer.Option(help="Of the command: the records, one in a line.")] = None


@takes_groups
def audit(
    context: typer.Context,
    budget: _BudgetOptions,
    series: RoundOptions,
    lists: ListOptions,
    features: _FeatureOptions,
    draws: _DrawOptions,
    other: _OtherOptions,
    campaign: CampaignFile = None,
    as_json: JsonOption = False,
) -> None:
    """Draw reports of many records or neighbour lists, and test their epsilon, their probabilities and their seeds.

    Exit code 3 says that a claim is refuted.
    """
    seed = secrets.randbits(32) if draws.seed is None else draws.seed
    drawn = _Draws(draws.trials, seed, draws.claim, draws.confidence)
    if other.command is not None or other.records is not None:
        audited = Audit((_command_figure(context, other, drawn),), drawn.seed)
    elif campaign is not None:
        read = read_campaign(context, campaign, "trials", "seed", "confidence", "as_json")
        audited = Audit(tuple(_campaign_figures(read, drawn)), drawn.seed, campaign=read.id)
    else:
        asks_one = (budget.epsilon_x is None) != (budget.epsilon_y is None)
        if not asks_one and (lists.neighbours is None or budget.epsilon_x is not None):
            raise BudgetError(
                "one mechanism is audited at a time, and neighbour lists beside it: give --epsilon-x for features or "
                "--epsilon-y for labels, --neighbours with --edge-epsilon for neighbour lists, or a campaign"
            )
        refuse_unused(context)
        if is_given(context, "features"):
            check_number_of_features(features.features, features.sizes)
        audited = Audit(tuple(_figures(budget, series.budget, lists, features, drawn)), drawn.seed)
    emit(audited, as_json=as_json)
    if any(figure.result.refuted for figure in audited.figures):
        raise typer.Exit(REFUTED)


class _Draws(NamedTuple):
    """How many reports are drawn, their seed, the epsilon that is tested instead of the exact one, the confidence."""

    trials: int
    seed: int
    claim: float | None
    confidence: float

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of an audit, with a generator of its own."""
        rng = np.random.default_rng(self.seed)
        return {"trials": self.trials, "rng": rng, "claim": self.claim, "confidence": self.confidence}


class _Figure(NamedTuple):
    """An audited figure: the name of its mechanism, the pairs that its epsilon protects, and the result."""

    name: str
    pairs: str
    result: AuditResult

    @property
    def document(self) -> dict[str, Any]:
        """The figure as JSON-ready values."""
        stated = {"claim": json_epsilon(self.result.claim), "mechanism": self.name}
        return {**asdict(self.result), **stated, "relation": f"{self.result.relation.title}: {self.pairs}"}

    def in_words(self, seed: int) -> list[str]:
        """Say what was drawn, what was claimed, and whether it is refuted."""
        result = self.result
        return [
            f"{self.name}, {result.relation.title} ({self.pairs}), {result.trials:,} reports, seed {seed}",
            f"claimed epsilon      {show_epsilon(result.claim)}",
            f"measured at least    {math.floor(result.lower_bound * 1e4) / 1e4:.4f} at {100 * result.confidence:g}% "
            "confidence",
            *(f"REFUTED: {reason}." for reason in result.reasons),
            *(() if result.refuted else ("Not refuted.",)),
        ]


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes:
        figures: each figure that was audited.
        seed: seed of the reports.
        campaign: id of the campaign whose mechanisms they are; None for mechanisms of options.
    """

    figures: tuple[_Figure, ...]
    seed: int
    campaign: str | None = None

    @property
    def document(self) -> dict[str, Any]:
        """The audits as JSON-ready values; one audit of options stands alone."""
        documents = [figure.document | {"seed": self.seed} for figure in self.figures]
        if self.campaign is not None:
            return {"campaign": self.campaign, "audits": documents}
        return documents[0] if len(documents) == 1 else {"audits": documents}

    @property
    def sentences(self) -> list[str]:
        """The audits in words."""
        return [line for figure in self.figures for line in figure.in_words(self.seed)]


def _figures(
    budget: _BudgetOptions, asked: RoundBudget, lists: ListOptions, features: _FeatureOptions, draws: _Draws
) -> Iterator[_Figure]:
    """Audit the mechanisms that options describe."""
    waves = lists.mechanisms(budget.classes)
    if draws.claim is not None and waves and (budget.epsilon_x is not None or budget.epsilon_y is not None):
        raise BudgetError("--claim is about one mechanism: leave out --neighbours, or --epsilon-x and --epsilon-y")
    if budget.epsilon_x is not None:
        audited = feature_mechanism(features.mechanism, features.sizes, features.sampled, budget.epsilon_x, asked)
        name = features.mechanism if asked.asks_once else describe(audited)
        yield _record_figure(name, audited, draws, beside_lists=bool(waves))
    if budget.epsilon_y is not None:
        label = label_mechanism(budget.classes, budget.epsilon_y, asked)
        yield _record_figure(describe(label), label, draws, beside_lists=bool(waves))
    if lists.neighbours is not None:
        yield from _list_figures(lists.neighbours, waves, draws)


def _campaign_figures(asked: Campaign, draws: _Draws) -> Iterator[_Figure]:
    """Audit the mechanisms of a campaign; of a wave about neighbours, those of its series so far."""
    answers = asked.asked.answers
    for part in (asked.feature_mechanism, asked.asked.collected_label):
        if part is not None:
            yield _record_figure(describe(part), part, draws, beside_lists=bool(answers))
    if turns := asked.asked.documents.turns:
        yield from _figures_in_turns(answers, turns, draws)
    elif answers:
        yield from _list_figures("neighbour lists", answers, draws)


def _record_figure(name: str, audited: Mechanism, draws: _Draws, *, beside_lists: bool) -> _Figure:
    """Audit the features or the label; beside neighbour lists, a record holds the list as well."""
    pairs = _WITH_THE_SAME_LIST if beside_lists else NeighbourRelation.USER_LEVEL.value
    with _show_reports_drawn(draws.trials) as progress:
        result = statistical_audit(audited, progress=progress, **draws.options)
    return _Figure(name, pairs, result)


def _command_figure(context: typer.Context, other: _OtherOptions, draws: _Draws) -> _Figure:
    """Audit a command on the records of a file."""
    if other.command is None or other.records is None or draws.claim is None:
        raise BudgetError("a command is audited with --command, --records and --claim: give all three")
    used = {"command", "records", "claim", "trials", "seed", "confidence", "as_json"}
    if unused := [name for name in context.params if is_given(context, name) and name not in used]:
        raise BudgetError(f"--{unused[0].replace('_', '-')} is about our mechanisms: leave it out beside --command")
    try:
        records = other.records.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BudgetError(f"{other.records} cannot be read: give a text file with one record in each line") from error
    with _show_reports_drawn(draws.trials) as progress:
        options = draws.options | {"claim": draws.claim}
        result = audit_command(other.command, records, progress=progress, **options)
    return _Figure(other.command, "any two of the records", result)


@contextmanager
def _show_reports_drawn(total: int) -> Iterator[Callable[[int], None]]:
    with show_progress("audit") as update:
        drawn = 0

        def progress(count: int) -> None:
            nonlocal drawn
            drawn += count
            update("reports drawn", drawn, total)

        yield progress


def _list_figures(title: str, answers: Sequence[NeighbourMechanism], draws: _Draws) -> Iterator[_Figure]:
    """Audit all answers of one person jointly, under each relation that is protected."""
    relations = _audited_relations(ListLoss.sum_of(each.list_loss for each in answers), draws)
    name = f"{title}, {counted(len(answers), 'wave')}{' together' if len(answers) > 1 else ''}"
    with _show_reports_drawn(draws.trials * len(relations)) as progress:
        for relation in relations:
            result = statistical_list_audit(answers, relation, progress=progress, **draws.options)
            yield _Figure(name, relation.value, result)


def _figures_in_turns(answers: Sequence[NeighbourMechanism], turns: int, draws: _Draws) -> Iterator[_Figure]:
    """Audit each wave alone, of which a person answers one, against the claim of the series."""
    relations = _audited_relations(ListLoss.largest_of(each.list_loss for each in answers), draws)
    with _show_reports_drawn(draws.trials * len(relations) * len(set(answers))) as progress:
        for relation in relations:
            found = statistical_turns_audit(answers, relation, progress=progress, **draws.options)
            for numbers, result in found.items():
                listed = ", ".join(map(str, numbers))
                asked = f"wave {listed}" if len(numbers) == 1 else f"any of the waves {listed}"
                name = f"neighbour lists, {asked} (in turns: each person answers one of {turns} waves)"
                yield _Figure(name, relation.value, result)


def _audited_relations(stated: ListLoss, draws: _Draws) -> list[ListRelation]:
    """Return the relations that are protected; a claim is about one entry."""
    protected = [each for each in ListRelation if math.isfinite(stated.under(each))]
    return protected if protected and draws.claim is None else [ListRelation.ONE_ENTRY]
