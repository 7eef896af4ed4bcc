"""`veilgraph audit-log`: who did what with the reports, and whether the log of it is unaltered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from veilgraph.campaign import Campaign
from veilgraph.cli._common import needs_extra
from veilgraph.cli.named_files import Place, administered
from veilgraph.cli.options import JsonOption, StoreOption
from veilgraph.cli.output import Facts, emit
from veilgraph.errors import RunError
from veilgraph.privacy.plain_text import counted

if TYPE_CHECKING:
    from veilgraph.collector.audit_log import Entry

    Logs = Mapping[str, Sequence[Entry]]


def audit_log(
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="Folder of the collection, or its campaign alone; default: all in --store.", metavar="FOLDER"
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="Instead of the store: what an auditor downloaded from /v1/audit-log, .json.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Check that no entry was changed, removed or moved.")] = False,
    head: Annotated[
        list[str] | None,
        typer.Option(help="Hash that you noted before: entries removed since then are noticed. May be repeated."),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show who did what with the reports: exports, sign-ins, withdrawals, purges; or check that it is unaltered."""
    place = None if folder is None else Place.at(folder)
    asked = None if place is None else place.campaign
    documents: dict[str, str] = {}
    if file is not None:
        if store is not None:
            raise RunError("the log is given twice: leave out --store, or --file")
        logs = _downloaded(file)
        if asked is not None and asked.series not in logs:
            raise RunError(f"{file} holds the audit log of another collection than {folder}")
    elif place is None and store is None:
        raise RunError("give FOLDER, or --store, or --file with what an auditor downloaded from /v1/audit-log")
    else:
        with closing(administered(str(store) if place is None else place.store(store))) as opened:
            log = opened.audit_log
            logs = log.by_campaign() if asked is None else {asked.series: log.entries(asked.series)}
            documents = opened.documents.newest()
    logs = logs or {"": []}
    noted = [each.strip().lower() for each in head or []]
    heads = _checked(logs, noted) if check or noted else None
    emit(Facts(_document(logs, heads), _in_words(logs, heads, noted, documents)), as_json=as_json)


def _document(logs: Logs, heads: Mapping[str, str] | None) -> dict[str, object]:
    """Return all entries as JSON-ready values, and the heads if the logs were checked."""
    entries = [entry.document | {"hour": _hour(entry)} for log in logs.values() for entry in log]
    if heads is None:
        return {"entries": entries}
    only = {"head": next(iter(heads.values()))} if len(heads) == 1 else {}
    return {"entries": entries, "unaltered": True, "heads": heads} | only


def _in_words(
    logs: Logs, heads: Mapping[str, str] | None, noted: Sequence[str], documents: Mapping[str, str]
) -> Iterator[str]:
    """Yield a line for each entry; or what was found about each log if the logs were checked."""
    for name, log in logs.items():
        if len(logs) > 1:
            yield _heading(name, documents.get(name))
        if heads is None:
            yield from (_line(entry) for entry in log)
            continue
        found = ", and it holds the one that you noted." if {entry.hash for entry in log} & set(noted) else "."
        yield f"The audit log is unaltered: {counted(len(log), 'entry', 'entries')}{found}"
        yield f"Head: {heads[name]}"
    if heads is not None:
        yield "Note each head outside of this machine: --head finds out later whether entries were removed at the end."


def _downloaded(path: Path) -> dict[str, list[Entry]]:
    with needs_extra("collector"):
        from veilgraph.collector.audit_log import parse

    entries = parse(path.read_bytes())
    return {str(entries[0].document["detail"].get("campaign", "")): entries} if entries else {}


def _checked(logs: Logs, noted: Sequence[str]) -> dict[str, str]:
    with needs_extra("collector"):
        from veilgraph.collector.audit_log import check_all

    return check_all(logs, heads=noted)


def _heading(campaign: str, document: str | None) -> str:
    if not campaign:
        return "Several campaigns, before each had a log of its own:"
    return f"Campaign {campaign}{f', {Campaign.from_json(document).notice.purpose!a}' if document else ''}:"


def _line(entry: Entry) -> str:
    detail = ", ".join(f"{name} {_short(name, value)}" for name, value in entry.document["detail"].items())
    return f"{entry.sequence:>6}  {_hour(entry)}  {entry.actor:<12} {entry.action:<10} {detail}"


def _hour(entry: Entry) -> str:
    return f"{datetime.fromtimestamp(entry.hour, tz=UTC):%Y-%m-%dT%H:00Z}"


def _short(name: str, value: object) -> str:
    """Return a value in a line: the first digits of an id or a hash."""
    return str(value)[:12] if name in ("campaign", "sha256") else str(value)
