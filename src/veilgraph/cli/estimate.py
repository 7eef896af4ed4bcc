"""`veilgraph estimate`: the share of each answer among all people, and in the groups of a public column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from veilgraph.atomic_files import write_atomically
from veilgraph.cli._common import needs_extra, show_progress
from veilgraph.cli.named_files import GraphOptions
from veilgraph.cli.options import JsonOption, takes_groups
from veilgraph.cli.output import Facts, Sentence, emit
from veilgraph.errors import RunError
from veilgraph.privacy.estimate import LEVEL
from veilgraph.privacy.plain_text import counted, escape
from veilgraph.privacy.public_columns import PublicColumn

if TYPE_CHECKING:
    from veilgraph.deploy.group_shares import GroupShares
    from veilgraph.deploy.sources import Source
    from veilgraph.graph import PerturbedGraph
    from veilgraph.graph.attribute_kinds import PublicAttribute


@takes_groups
def estimate(
    collection: GraphOptions,
    by: Annotated[
        str | None,
        typer.Option(
            help="Declared public column, whose values are the groups; COLUMN:category takes each number for a group.",
            metavar="COLUMN",
        ),
    ] = None,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = LEVEL,
    reports_only: Annotated[
        bool, typer.Option("--reports-only", help="Train no model, which narrows intervals where many did not report.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for shares.csv and the figure shares.svg.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Estimate the share of each answer among all people, and in each group of them, with intervals."""
    files, home = collection.files(), collection.collection
    with needs_extra("server"):
        from veilgraph import deploy

    tables = None if home is None else home.waves
    source = deploy.open_source(files.campaign, files.graph, store=files.store, nodes=files.nodes, tables=tables)
    perturbed = source.read(watch=show_progress).perturbed
    column = None
    if by is not None:
        people = home.people_file if home is not None else files.nodes
        column = _column(by, perturbed, source.campaign.schema.public, people)
    found, contamination = deploy.estimate_shares(perturbed, column, level=level), None
    if found.shares and not reports_only:
        given = deploy.GivenReports(campaign=source.campaign, perturbed=perturbed)
        model = deploy.train(given, deploy.TrainingOptions(), watch=show_progress)
        contamination = model.facts["contamination"]
        found = deploy.shares_of(model.method, perturbed, column, level=level)
    written = [] if out is None else _write(found, source, out)
    question = source.campaign.label_name
    document = {"question": question, "contamination": contamination, "files": list(map(str, written))}
    emit(Facts(found.document | document, _in_words(found, question, written, contamination)), as_json=as_json)


def _column(
    by: str, perturbed: PerturbedGraph, declared: Sequence[PublicColumn], people: Path | None
) -> PublicAttribute:
    """Return a declared public column, as it is or read as another kind; people were told of no other column."""
    from veilgraph.graph import PublicAttributes, read_table

    names = [column.name for column in declared]
    if not names:
        raise RunError(
            "--by needs a public column, and this campaign declares none, so people were told of none: declare it as "
            "public in the schema before a campaign begins"
        )
    name, _, kind = (by, "", "") if by in names else by.partition(":")
    if name not in names:
        raise RunError(f"'{name}' is no public column that people were told of: give one of {', '.join(names)}")
    if perturbed.public is None or people is None:
        raise RunError("--nodes is missing: give the table of the people, which has the column of --by")
    if not kind:
        return perturbed.public[name]
    columns = [PublicColumn(name=name, kind=kind)]
    return PublicAttributes.from_table(
        read_table(people), ids=perturbed.graph.names, columns=columns, where=str(people)
    )[name]


def _write(found: GroupShares, source: Source, out: Path) -> list[Path]:
    """Write the table and the figure."""
    from veilgraph.graph.io import frame_to_csv

    with needs_extra("lab"):
        from veilgraph.pages.rendering import standalone_svg
        from veilgraph.pages.share_plot import share_plot
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "shares.csv", frame_to_csv(found.table))
    write_atomically(out / "shares.svg", standalone_svg(share_plot(found, source.campaign.label_name)))
    return [out / "shares.csv", out / "shares.svg"]


def _in_words(
    found: GroupShares, question: str, files: list[Path], contamination: dict[str, Any] | None
) -> Iterator[Sentence]:
    """Yield the shares as a table, and what they rest on."""
    if contamination is not None:
        yield f"{contamination['sentence']} With --reports-only, shares take every report as honest."
    if found.shares:
        yield _table(found, question)
        yield from _conditions(found)
    if found.unstated or not found.shares:
        yield _small(found)
    for file in files:
        yield f"Written: {file}"


def _table(found: GroupShares, question: str) -> Table:
    table, last = Table(title=escape(question)), object()
    numbers = ("people", "reports", "share", f"{found.level:.0%} interval", "together")
    for head in (found.column or "", *numbers[:2], "answer", *numbers[2:]):
        table.add_column(escape(head), justify="right" if head in numbers else "left")
    for share in found.told:
        first = ["", "", ""]
        if share.group != last:
            name = "all people" if share.group is None else share.group
            first = [escape(name), f"{share.people:,}", f"{share.reports:,}"]
        last = share.group
        interval, together = _interval(share.low, share.high), _interval(share.low_together, share.high_together)
        table.add_row(*first, escape(share.name), f"{100 * share.value:.1f}", interval, together)
    return table


def _interval(low: float, high: float) -> str:
    return f"{100 * low:.1f} to {100 * high:.1f}"


def _conditions(found: GroupShares) -> Iterator[str]:
    """Say what the intervals hold for, how many of them miss, and what a model adds."""
    missing, inside = (1 - found.level) * found.statements, "in each group " if found.column else ""
    people = counted(found.reports, "person", "people")
    yield (
        f"Shares are in percent. {people} of {found.people:,} reported. The figures are about all people if {inside}"
        "those who reported are like those who did not; without this assumption they are about those who reported "
        "(columns low_reporters and high_reporters)."
    )
    if found.column is not None:
        yield f"Among all people, each value of {found.column} counts with its people, not with its reports."
    if found.statements > 1:
        yield (
            f"Each interval holds with {found.level:.0%}: of {found.statements} statements about {missing:.1f} miss. "
            f"The intervals 'together' hold all at once with {found.level:.0%}."
        )
    if assisted := sum(share.assisted for share in found.told):
        yield f"Predictions of a model narrow {assisted} of {counted(len(found.told), 'interval')}."


def _small(found: GroupShares) -> str:
    """Say about how many groups there is no statement, and why; how many reports each has would say who reported."""
    from veilgraph.deploy.group_shares import HALF_WIDTH

    about = f" about {counted(found.unstated, 'group')}" if found.unstated else ""
    return (
        f"No statement{about}: below {found.fewest:,} reports an interval could be wider than {100 * HALF_WIDTH:.0f} "
        "points on each side."
    )
