"""`veilgraph account`: what a report reveals at most, and whether draws of reports agree."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from veilgraph.campaign import Campaign
from veilgraph.cli.audit import REFUTED, Draws, Figure, audit_facts, campaign_figures, command_figure, figures
from veilgraph.cli.described import DRAWN, Described, RareOptions, ReportOptions
from veilgraph.cli.named_files import Place
from veilgraph.cli.options import JsonOption, takes_groups
from veilgraph.cli.output import Facts, emit
from veilgraph.errors import BudgetError

_TRIALS, _CONFIDENCE = 1_000_000, 0.99


@takes_groups
def account(
    report: ReportOptions,
    rare: RareOptions,
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="Folder of a collection, or its campaign, .json: takes everything else from it.", metavar="FOLDER"
        ),
    ] = None,
    audited: Annotated[
        bool,
        typer.Option(
            "--audit",
            help="Draw reports of many records or neighbour lists, and test their epsilon, their probabilities and "
            "their seeds. Exit code 3 says that a claim is refuted.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print what a report reveals at most: user level, attribute level, and why Theorem 1 is not used."""
    described = Described(report, rare)
    if not audited and (drawn := [each for each in (*DRAWN, "command", "records") if each in described.given]):
        raise BudgetError(f"{drawn[0]} is about draws of reports: give --audit, or leave it out")
    campaign = None if folder is None else _campaign(folder, described)
    if not audited:
        guarantee = described.guarantee if campaign is None else campaign.guarantee
        emit(Facts(guarantee.as_dict(), guarantee.in_words()), as_json=as_json)
        return
    draws = Draws(
        trials=_TRIALS if rare.trials is None else rare.trials,
        seed=secrets.randbits(32) if rare.seed is None else rare.seed,
        claim=rare.claim,
        confidence=_CONFIDENCE if rare.confidence is None else rare.confidence,
    )
    found = list(_audited(described, campaign, draws))
    emit(audit_facts(found, draws.seed, None if campaign is None else campaign.id), as_json=as_json)
    if any(figure.result.refuted for figure in found):
        raise typer.Exit(REFUTED)


def _audited(described: Described, campaign: Campaign | None, draws: Draws) -> Iterable[Figure]:
    """Audit a campaign, a command, or the mechanisms that options describe."""
    if campaign is not None:
        return campaign_figures(campaign, draws)
    if described.rare.command is not None or described.rare.records is not None:
        return [command_figure(described, draws)]
    return figures(described, draws)


def _campaign(folder: Path, described: Described) -> Campaign:
    """Return the campaign of a folder; refuse options about what it states."""
    if stated := [name for name in described.given if name not in ("trials", "seed", "confidence")]:
        raise BudgetError(f"{folder} states budget and mechanisms: leave out {stated[0]}, or the campaign")
    return Place.at(folder).campaign
