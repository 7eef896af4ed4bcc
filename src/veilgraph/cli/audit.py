"""`veilgraph account --audit`: whether reports reveal more than is claimed, from draws of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from veilgraph.campaign import Campaign
from veilgraph.cli._common import show_progress
from veilgraph.cli.described import DRAWN, Described
from veilgraph.cli.output import Facts
from veilgraph.errors import BudgetError
from veilgraph.privacy.audit import (
    AuditResult,
    audit_command,
    statistical_audit,
    statistical_list_audit,
    statistical_turns_audit,
)
from veilgraph.privacy.epsilon import ListLoss, ListRelation, NeighbourRelation, json_epsilon, show_epsilon
from veilgraph.privacy.mechanisms import Mechanism, NeighbourMechanism
from veilgraph.privacy.mechanisms.registry import describe, feature_mechanism, label_mechanism
from veilgraph.privacy.plain_text import counted

REFUTED = 3
"""Exit code of an audit that refutes a claim."""

# A record holds the neighbour list where answers about it are collected.
_WITH_THE_SAME_LIST = f"{NeighbourRelation.USER_LEVEL.value} with the same neighbour list"


class Draws(NamedTuple):
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


class Figure(NamedTuple):
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
            *(f"Note: {note}." for note in result.notes),
        ]


def audit_facts(found: Sequence[Figure], seed: int, campaign: str | None = None) -> Facts:
    """Return what an audit found; one audit of options stands alone.

    Args:
        found: each figure that was audited.
        seed: seed of the reports.
        campaign: id of the campaign whose mechanisms they are; None for mechanisms of options.
    """
    audits = [figure.document | {"seed": seed} for figure in found]
    document: Any = audits[0] if len(audits) == 1 else {"audits": audits}
    if campaign is not None:
        document = {"campaign": campaign, "audits": audits}
    return Facts(document, [line for figure in found for line in figure.in_words(seed)])


def figures(described: Described, draws: Draws) -> Iterator[Figure]:
    """Audit the mechanisms that options describe."""
    report, lists = described.report, described.rare.neighbours
    asks_one = (report.epsilon_x is None) != (report.epsilon_y is None)
    if not asks_one and (lists is None or report.epsilon_x is not None):
        raise BudgetError(
            "one mechanism is audited at a time, and neighbour lists beside it: give --epsilon-x for features or "
            "--epsilon-y for labels, --set neighbours=... and edge_epsilon=... for neighbour lists, or a campaign"
        )
    described.refuse_unused()
    waves, rounds = described.answers, described.rounds
    if draws.claim is not None and waves and asks_one:
        raise BudgetError("claim is about one mechanism: leave out neighbours, or --epsilon-x and --epsilon-y")
    if report.epsilon_x is not None:
        sizes, sampled = described.domain_sizes(default=1), 1 if report.sampled is None else report.sampled
        audited = feature_mechanism(described.mechanism, sizes, sampled, report.epsilon_x, rounds)
        name = described.mechanism if rounds.asks_once else describe(audited)
        yield _record_figure(name, audited, draws, beside_lists=bool(waves))
    if report.epsilon_y is not None:
        label = label_mechanism(described.num_classes, report.epsilon_y, rounds)
        yield _record_figure(describe(label), label, draws, beside_lists=bool(waves))
    if lists is not None:
        yield from _list_figures(lists, waves, draws)


def campaign_figures(asked: Campaign, draws: Draws) -> Iterator[Figure]:
    """Audit the mechanisms of a campaign; of a wave about neighbours, those of its series so far."""
    answers = asked.asked.answers
    for part in (asked.feature_mechanism, asked.asked.collected_label):
        if part is not None:
            yield _record_figure(describe(part), part, draws, beside_lists=bool(answers))
    if turns := asked.asked.documents.turns:
        yield from _figures_in_turns(answers, turns, draws)
    elif answers:
        yield from _list_figures("neighbour lists", answers, draws)


def _record_figure(name: str, audited: Mechanism, draws: Draws, *, beside_lists: bool) -> Figure:
    """Audit the features or the label; beside neighbour lists, a record holds the list as well."""
    pairs = _WITH_THE_SAME_LIST if beside_lists else NeighbourRelation.USER_LEVEL.value
    with _show_reports_drawn(draws.trials) as progress:
        result = statistical_audit(audited, progress=progress, **draws.options)
    return Figure(name, pairs, result)


def command_figure(described: Described, draws: Draws) -> Figure:
    """Audit a command on the records of a file."""
    command, file = described.rare.command, described.rare.records
    if command is None or file is None or draws.claim is None:
        raise BudgetError("a command is audited with command, records and claim: give --set for all three")
    if unused := [name for name in described.given if name not in (*DRAWN, "command", "records")]:
        raise BudgetError(f"{unused[0]} is about our mechanisms: leave it out beside a command")
    try:
        records = Path(file).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BudgetError(f"{file} cannot be read: give a text file with one record in each line") from error
    with _show_reports_drawn(draws.trials) as progress:
        options = draws.options | {"claim": draws.claim}
        result = audit_command(command, records, progress=progress, **options)
    return Figure(command, "any two of the records", result)


@contextmanager
def _show_reports_drawn(total: int) -> Iterator[Callable[[int], None]]:
    with show_progress("audit") as update:
        drawn = 0

        def progress(count: int) -> None:
            nonlocal drawn
            drawn += count
            update("reports drawn", drawn, total)

        yield progress


def _list_figures(title: str, answers: Sequence[NeighbourMechanism], draws: Draws) -> Iterator[Figure]:
    """Audit all answers of one person jointly, under each relation that is protected."""
    relations = _audited_relations(ListLoss.sum_of(each.list_loss for each in answers), draws)
    name = f"{title}, {counted(len(answers), 'wave')}{' together' if len(answers) > 1 else ''}"
    with _show_reports_drawn(draws.trials * len(relations)) as progress:
        for relation in relations:
            result = statistical_list_audit(answers, relation, progress=progress, **draws.options)
            yield Figure(name, relation.value, result)


def _figures_in_turns(answers: Sequence[NeighbourMechanism], turns: int, draws: Draws) -> Iterator[Figure]:
    """Audit each wave alone, of which a person answers one, against the claim of the series."""
    relations = _audited_relations(ListLoss.largest_of(each.list_loss for each in answers), draws)
    with _show_reports_drawn(draws.trials * len(relations) * len(set(answers))) as progress:
        for relation in relations:
            found = statistical_turns_audit(answers, relation, progress=progress, **draws.options)
            for numbers, result in found.items():
                listed = ", ".join(map(str, numbers))
                asked = f"wave {listed}" if len(numbers) == 1 else f"any of the waves {listed}"
                name = f"neighbour lists, {asked} (in turns: each person answers one of {turns} waves)"
                yield Figure(name, relation.value, result)


def _audited_relations(stated: ListLoss, draws: Draws) -> list[ListRelation]:
    """Return the relations that are protected; a claim is about one entry."""
    protected = [each for each in ListRelation if math.isfinite(stated.under(each))]
    return protected if protected and draws.claim is None else [ListRelation.ONE_ENTRY]
