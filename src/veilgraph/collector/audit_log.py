"""The audit log of each campaign: administrative acts, in the order in which they happened, chained by SHA-256.

A chain for each campaign, and not one for all: an auditor of one can check it whole, and sees nothing of the others,
not even how much happened there. Each entry holds the hash of the one before it, so that a changed, removed or
reordered entry breaks the chain. Entries removed at the end leave a chain that is whole: they are found by comparing
with a hash that someone noted before.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, func, insert, select, text

from veilgraph.collector import tables
from veilgraph.collector.database import Database
from veilgraph.errors import StoreError
from veilgraph.privacy.strict_json import canonical_json, content_id, parse_json

FIRST = "0" * 64
"""Hash before the first entry."""

# Key of the advisory lock: two collectors on one database append one after the other.
_LOCK = 7_239_114_002


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One administrative act.

    Attributes:
        sequence: number of the entry in its campaign's log, from 1.
        hour: Unix time of the hour of the act. A more precise time is not kept, as for reports.
        actor: who acted: `owner`, `collector`, `participant`, or the name that a proxy gave.
        action: what was done: one word, such as `export`.
        detail: canonical JSON of an object with what it was done to. It names no participant.
        previous: hash of the entry before it.
        hash: SHA-256 of the canonical JSON of all the other values, in hexadecimal digits.

    >>> entry = Entry.after(None, hour=7200, actor="owner", action="export", detail={"reports": 3})
    >>> entry.sequence, entry.detail, entry.hash == entry.expected_hash
    (1, '{"reports":3}', True)
    """

    sequence: int
    hour: int
    actor: str
    action: str
    detail: str
    previous: str
    hash: str

    @classmethod
    def after(cls, last: Entry | None, *, hour: int, actor: str, action: str, detail: Mapping[str, Any]) -> Entry:
        """Return the entry that follows `last`, which is None for the first one."""
        content: dict[str, Any] = {
            "sequence": 1 if last is None else last.sequence + 1,
            "hour": hour,
            "actor": actor,
            "action": action,
            "detail": canonical_json(detail),
            "previous": FIRST if last is None else last.hash,
        }
        return cls(**content, hash=content_id(content))

    @property
    def expected_hash(self) -> str:
        """The hash that the other values have."""
        return content_id({name: value for name, value in vars(self).items() if name != "hash"})

    @property
    def document(self) -> dict[str, Any]:
        """The entry as JSON values, with the detail as an object."""
        return vars(self) | {"detail": json.loads(self.detail)}


def parse(text: str | bytes) -> list[Entry]:
    """Return the entries of a campaign's log as `GET /v1/audit-log` answers it, unchecked.

    >>> entry = Entry.after(None, hour=7200, actor="owner", action="export", detail={"reports": 3})
    >>> parse(json.dumps({"entries": [entry.document]})) == [entry]
    True
    """
    try:
        return [_parse_entry(**entry) for entry in parse_json(text)["entries"]]
    except (ValueError, TypeError, KeyError):
        raise StoreError("this is no audit log: give the answer of GET /v1/audit-log, unchanged") from None


def _parse_entry(*, sequence: object, hour: object, detail: object, **texts: object) -> Entry:
    if not (isinstance(sequence, int) and isinstance(hour, int) and isinstance(detail, dict)):
        raise TypeError
    content: dict[str, Any] = {name: str(value) for name, value in texts.items()}
    return Entry(**content, sequence=sequence, hour=hour, detail=canonical_json(detail))


class AuditLog:
    """The audit logs of a database.

    Args:
        database: the database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def record(self, action: str, detail: Mapping[str, Any], *, now: float, actor: str) -> None:
        """Append an administrative act to the log of the campaign that its detail names."""
        with self._database.writing() as connection:
            append(connection, now=now, actor=actor, action=action, detail=detail)

    def entries(self, campaign: str) -> list[Entry]:
        """Return all entries of a campaign's log, in their order."""
        with self._database.reading() as connection:
            return _read(connection, campaign)

    def by_campaign(self) -> dict[str, list[Entry]]:
        """Return the log of each campaign, by id."""
        column = tables.audit_log.c.campaign
        with self._database.reading() as connection:
            campaigns = connection.execute(select(column).distinct().order_by(column)).scalars().all()
            return {campaign: _read(connection, campaign) for campaign in campaigns}


def append(connection: Connection, *, now: float, actor: str, action: str, detail: Mapping[str, Any]) -> Entry:
    """Append an entry in the connection's transaction, so that it is stored if and only if the act is.

    It goes to the log of the campaign that the detail names.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    table, campaign = tables.audit_log, str(detail.get("campaign", ""))
    newest = _entries(campaign).order_by(table.c.sequence.desc()).limit(1)
    last = next((Entry(**row) for row in connection.execute(newest).mappings()), None)
    entry = Entry.after(last, hour=tables.hour_of(now), actor=actor, action=action, detail=detail)
    connection.execute(insert(table).values(campaign=campaign, **vars(entry)))
    return entry


def count(connection: Connection, campaign: str, action: str) -> int:
    """Return how often an act happened in a campaign."""
    table = tables.audit_log
    query = select(func.count()).where(table.c.campaign == campaign, table.c.action == action)
    return int(connection.execute(query).scalar_one())


def _read(connection: Connection, campaign: str) -> list[Entry]:
    rows = connection.execute(_entries(campaign).order_by(tables.audit_log.c.sequence)).mappings()
    return [Entry(**row) for row in rows]


def _entries(campaign: str) -> Select[Any]:
    columns = [column for column in tables.audit_log.c if column.name != "campaign"]
    return select(*columns).where(tables.audit_log.c.campaign == campaign)


def check(entries: Iterable[Entry]) -> str:
    """Return the hash of the last entry if the chain is whole; refuse a log that was tampered with.

    Entries removed at the end are noticed against a hash that was noted before: `check_all`.

    Args:
        entries: all entries of a campaign, in the order of their numbers.
    """
    last = FIRST
    for numbered, entry in enumerate(entries, start=1):
        if entry.sequence != numbered:
            raise StoreError(f"the audit log was altered: entry {numbered} is missing, and {entry.sequence} follows")
        if entry.previous != last:
            raise StoreError(f"the audit log was altered: entry {numbered} does not follow the entry before it")
        if entry.hash != entry.expected_hash:
            raise StoreError(f"the audit log was altered: entry {numbered} is not what was written")
        last = entry.hash
    return last


def check_all(logs: Mapping[str, Sequence[Entry]], *, heads: Iterable[str] = ()) -> dict[str, str]:
    """Return the hash of the last entry of each campaign's log; refuse logs that were tampered with.

    Args:
        logs: entries of each campaign, by id.
        heads: hashes of entries that were noted before, each of any of the campaigns.
    """
    for campaign, entries in logs.items():
        if campaign and any(entry.document["detail"].get("campaign") != campaign for entry in entries):
            raise StoreError(f"the audit log was altered: the log of {campaign} holds an entry of another campaign")
    last = {campaign: check(entries) for campaign, entries in logs.items()}
    known = {FIRST} | {entry.hash for entries in logs.values() for entry in entries}
    for head in heads:
        if head not in known:
            raise StoreError(
                f"no entry has the hash that was noted, {head[:16]!a}: compare it with your note. If it is right, the "
                f"audit log was altered: entries at the end were removed, or a whole log (entries here: "
                f"{sum(map(len, logs.values()))})"
            )
    return last
