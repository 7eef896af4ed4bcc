"""`veilgraph campaign role-token`, `withdraw`, `withdrawals`, `purge` and `audit-log`: what an owner administers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign import Campaign
from veilgraph.campaign.report import check_node
from veilgraph.cli._common import confirm_withdrawal, echo, needs_extra
from veilgraph.cli.named_files import Place
from veilgraph.cli.options import CampaignArgument, JsonOption, StoreOption, YesOption
from veilgraph.cli.output import Facts, emit
from veilgraph.errors import RunError
from veilgraph.privacy.plain_text import counted

if TYPE_CHECKING:
    from veilgraph.collector.audit_log import Entry
    from veilgraph.collector.store import ReportStore

CampaignFile = Annotated[Path, typer.Option(help="The campaign, .json.")]
# Digits of a campaign's id that confirm a purge before its date.
_CONFIRMED_DIGITS = 8


def role_token(
    out: Annotated[Path, typer.Option(help="File to write: the owner's token alone, or a .toml to add the role to.")],
    role: Annotated[
        Literal["owner", "viewer", "auditor", "scraper"], typer.Argument(help="Whose token.", metavar="ROLE")
    ] = "owner",
) -> None:
    """Make a token for 'serve': the owner's for --admin-token-file, or another role's for --roles-file."""
    with needs_extra("collector"):
        from veilgraph.collector.auth import Role, new_role_token, read_role_tokens

    made = new_role_token(Role(role))
    if role == "owner":
        if out.exists():
            raise RunError(f"{out} exists: choose another --out, or remove it to replace the token")
        write_atomically(out, made + "\n")
    else:
        before = read_role_tokens(out) if out.exists() else {}
        if Role(role) in before:
            raise RunError(f"{out} holds a token of the {role}: remove its line to replace it")
        lines = {known.value: token for known, token in before.items()} | {role: made}
        write_atomically(out, "".join(f'{name} = "{token}"\n' for name, token in lines.items()))
    echo(f"A token of the {role} is in {out}. Keep it secret.")


def withdraw_node(
    campaign: Annotated[
        Path,
        typer.Option(help="The folder of the collection, whose people NODE must be one of; or its campaign, .json."),
    ],
    node: Annotated[
        str | None, typer.Argument(help="The node whose reports are deleted.", metavar="NODE", show_default=False)
    ] = None,
    listed: Annotated[
        Path | None,
        typer.Option(help="Instead of NODE: a list that 'campaign withdrawals' wrote; withdraw again who is missing."),
    ] = None,
    objection: Annotated[
        bool,
        typer.Option("--objection", help="Record that NODE objects, who has not answered: no report, no reminder."),
    ] = False,
    store: Annotated[
        str | None, typer.Option(help="Store of the reports; default: that of the folder of the collection.")
    ] = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Delete the reports of a person who asked you to, or record their objection; none of this node is stored again."""
    if (node is None) == (listed is None):
        raise RunError("who withdraws is missing or given twice: give NODE, or --listed with a list of withdrawals")
    place = Place.at(campaign)
    asked, url = place.campaign, place.store(store)
    if listed is not None:
        emit(_withdraw_again(asked, url, listed), as_json=as_json)
    elif node is not None:
        name = check_node(node)
        if place.home is not None and name not in place.home.graph.names:
            raise RunError(
                f"node {name!a} is not among the people of {campaign}: check its name; for a person who joined later, "
                "give the campaign, .json, in place of the folder"
            )
        with closing(_open(url)) as opened:
            if opened.reports.standing(asked.series, name).value == "missing" and not objection:
                raise RunError(
                    f"the store holds no report of node {name!a} in this campaign: check its name, and give "
                    "--objection if the person has not answered and does not want to"
                )
            if not yes:
                confirm_withdrawal(name)
            done = _withdraw_one(opened, asked, name)
        emit(done, as_json=as_json)


def _withdraw_again(asked: Campaign, store: str, listed: Path) -> Facts:
    """Withdraw every node of a list that the store, an older backup, does not know as withdrawn."""
    opened = _open(store)
    try:
        from veilgraph.collector.withdrawal_list import read_list

        nodes = read_list(listed, asked.series)
        again = sorted(nodes - opened.withdrawals.nodes(asked.series))
        for name in again:
            opened.withdrawals.withdraw(asked.series, name, now=time.time(), actor="owner")
        total = _Gone.of(opened, asked)
    finally:
        opened.close()
    sentences = [
        f"{counted(len(nodes), 'node')} of this campaign in the list; withdrawn again: {len(again)}.",
        f"The campaign has {total}.",
    ]
    return Facts({"listed": len(nodes), "withdrawn": len(again), **total._asdict()}, sentences)


def list_withdrawals(
    campaign: CampaignFile,
    store: StoreOption,
    out: Annotated[Path, typer.Option(help="The list, .csv. Names are added to a list that exists.")],
    as_json: JsonOption = False,
) -> None:
    """Add who withdrew to a list in a file, which survives the loss of the database; after a purge, remove them."""
    asked = Campaign.from_json(campaign.read_bytes())
    opened = _open(store)
    try:
        from veilgraph.collector.withdrawal_list import add_to_list, remove_from_list

        nodes = opened.withdrawals.nodes(asked.series)
        is_purged = opened.purges.hour(asked.series) is not None
        removed = remove_from_list(out, asked.series) if is_purged else 0
        added = 0 if is_purged else add_to_list(out, asked.series, nodes)
        if added:
            detail = {"campaign": asked.series, "added": added}
            opened.audit_log.record("list withdrawals", detail, now=time.time(), actor="owner")
    finally:
        opened.close()
    document = {"campaign": asked.id, "withdrawals": len(nodes), "added": added, "removed": removed, "out": str(out)}
    sentence = (
        f"The campaign is purged: {counted(removed, 'name')} removed from {out}. Delete older copies yourself."
        if is_purged
        else f"{counted(added, 'withdrawal')} added to {out}. It names people: keep it secret, and on another disk."
    )
    emit(Facts(document, [sentence]), as_json=as_json)


def _withdraw_one(opened: ReportStore, asked: Campaign, name: str) -> Facts:
    _, is_new = opened.withdrawals.withdraw(asked.series, name, now=time.time(), actor="owner")
    total = _Gone.of(opened, asked)
    sentences = [
        f"Node {name!a}: what was stored of it is deleted, and nothing is stored again. It is not reminded."
        if is_new
        else f"Node {name!a} withdrew or objected before.",
        f"The campaign has {total}. Models that were trained before hold what was withdrawn: train again.",
    ]
    status = "withdrawn" if is_new else "withdrawn before"
    return Facts({"node": name, "status": status, **total._asdict()}, sentences)


class _Gone(NamedTuple):
    """How many people withdrew what they had reported, and how many objected before they reported anything."""

    withdrawals: int
    objections: int

    @classmethod
    def of(cls, store: ReportStore, campaign: Campaign) -> _Gone:
        """Count those of a campaign."""
        return cls(store.withdrawals.count(campaign.series), store.withdrawals.objections(campaign.series))

    def __str__(self) -> str:
        return f"{counted(self.withdrawals, 'withdrawal')} and {counted(self.objections, 'objection')}"


def purge(
    campaign: CampaignArgument,
    store: StoreOption,
    at_once: Annotated[bool, typer.Option("--now", help="Do not wait for the campaign's retention date.")] = False,
    confirm: Annotated[
        str | None, typer.Option(help="With --now: the beginning of the campaign's id, to confirm.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Delete all reports of a campaign after its retention date; it accepts none again."""
    asked = Campaign.from_json(campaign.read_bytes())
    is_due = asked.notice.retention is not None and datetime.now(UTC) >= asked.notice.retention
    if not is_due and not at_once:
        if asked.notice.retention is None:
            raise RunError("the campaign announces no retention date: give --now to delete its reports at once")
        raise RunError(
            f"the campaign keeps its reports until {asked.notice.retention:%Y-%m-%d %H:%M:%S} UTC: wait until then, "
            "or give --now to delete them at once"
        )
    opened = _open(store)
    try:
        if not is_due and not (len(confirm or "") >= _CONFIRMED_DIGITS and asked.id.startswith(confirm or "")):
            stored = counted(opened.reports.count(asked.series), "report")
            raise RunError(
                f"this would delete {stored} of {asked.notice.purpose!a} for ever: "
                f"if you mean it, repeat the command with --confirm {asked.id[:_CONFIRMED_DIGITS]}"
            )
        deleted = opened.purges.purge(asked, now=time.time(), actor="owner")
    finally:
        opened.close()
    sentences = [
        f"{counted(deleted, 'report')} deleted. The campaign accepts none again, and the audit log says so.",
        "Models that were trained before hold copies of reports: delete their folders, and old backups. 'campaign "
        "withdrawals' takes the names off a list of withdrawals.",
    ]
    emit(Facts({"campaign": asked.id, "deleted": deleted}, sentences), as_json=as_json)


def audit_log(
    store: Annotated[str | None, typer.Option(help="Store of the reports: sqlite:///FILE or postgresql://...")] = None,
    file: Annotated[
        Path | None, typer.Option(help="Instead of --store: what an auditor downloaded from /v1/audit-log, .json.")
    ] = None,
    campaign: Annotated[Path | None, typer.Option(help="Only this campaign, .json; default: all of them.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Check that no entry was changed, removed or moved.")] = False,
    head: Annotated[
        list[str] | None,
        typer.Option(help="Hash that you noted before: entries removed since then are noticed. May be repeated."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show who did what with the reports: exports, sign-ins, withdrawals, purges; or check that it is unaltered."""
    asked = None if campaign is None else Campaign.from_json(campaign.read_bytes())
    documents: dict[str, str] = {}
    if store is not None and file is None:
        opened = _open(store)
        try:
            logs = (
                opened.audit_log.by_campaign()
                if asked is None
                else {asked.series: opened.audit_log.entries(asked.series)}
            )
            documents = opened.documents.newest()
        finally:
            opened.close()
    elif file is not None and store is None:
        logs = _downloaded(file)
        if asked is not None and asked.series not in logs:
            raise RunError(f"{file} holds the audit log of another campaign than {campaign}")
    else:
        raise RunError("give either --store, or --file with what an auditor downloaded from /v1/audit-log")
    logs = logs or {"": []}
    noted = [each.strip().lower() for each in head or []]
    heads = _checked(logs, noted) if check or noted else None
    emit(ShownLogs(logs, heads, frozenset(noted), documents), as_json=as_json)


@dataclass(frozen=True)
class ShownLogs:
    """Audit logs, of one campaign or of several.

    Attributes:
        logs: entries by campaign.
        heads: hash of the last entry of each log; None if the logs were not checked.
        noted: hashes that were noted before.
        documents: documents of campaigns by their ids.
    """

    logs: Mapping[str, Sequence[Entry]]
    heads: Mapping[str, str] | None
    noted: frozenset[str]
    documents: Mapping[str, str]

    @property
    def document(self) -> dict[str, object]:
        """All entries as JSON-ready values, and the heads if the logs were checked."""
        entries = [entry.document | {"hour": _hour(entry)} for log in self.logs.values() for entry in log]
        if self.heads is None:
            return {"entries": entries}
        only = {"head": next(iter(self.heads.values()))} if len(self.heads) == 1 else {}
        return {"entries": entries, "unaltered": True, "heads": self.heads} | only

    @property
    def sentences(self) -> Iterator[str]:
        """A line for each entry; or what was found about each log if the logs were checked."""
        for name, log in self.logs.items():
            if len(self.logs) > 1:
                yield _heading(name, self.documents.get(name))
            if self.heads is None:
                yield from (_line(entry) for entry in log)
                continue
            found = ", and it holds the one that you noted." if {entry.hash for entry in log} & self.noted else "."
            yield f"The audit log is unaltered: {counted(len(log), 'entry', 'entries')}{found}"
            yield f"Head: {self.heads[name]}"
        if self.heads is not None:
            yield (
                "Note each head outside of this machine: --head finds out later whether entries were removed at the "
                "end."
            )


def _open(store: str) -> ReportStore:
    with needs_extra("collector"):
        from veilgraph.collector.store import ReportStore

    return ReportStore.administer(store)


def _downloaded(path: Path) -> dict[str, list[Entry]]:
    with needs_extra("collector"):
        from veilgraph.collector.audit_log import parse

    entries = parse(path.read_bytes())
    return {str(entries[0].document["detail"].get("campaign", "")): entries} if entries else {}


def _checked(logs: Mapping[str, Sequence[Entry]], noted: Sequence[str]) -> dict[str, str]:
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
