"""Stored reports: each node's first report counts, and is on disk before it is acknowledged.

All reports of a series about private neighbours are stored under the id of its first document, each with the number of
its wave, 0 for the label. So a withdrawal, a purge and the audit log are about the whole series.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence, Set
from enum import Enum
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, func, select, text, tuple_

from veilgraph.campaign import Campaign
from veilgraph.campaign.report import Report
from veilgraph.collector.database import Database
from veilgraph.collector.deletions import purged_at, withdrawn_at
from veilgraph.collector.tables import hour_of, reports

# A report is stored unless its node withdrew, its campaign was purged, or the node has one. All rows are one parameter
# in JSON: parameters for each row, or an array for each column, would take the drivers far longer.
_INSERT_ROWS = {
    "sqlite": text("""
        INSERT INTO reports (campaign, node, wave, content, hour)
        SELECT *, :hour FROM (
            SELECT json_extract(value, '$[0]') AS campaign, json_extract(value, '$[1]') AS node,
                json_extract(value, '$[2]'), json_extract(value, '$[3]')
            FROM json_each(:rows)
        ) AS new
        WHERE NOT EXISTS (SELECT 1 FROM withdrawals WHERE campaign = new.campaign AND node = new.node)
            AND NOT EXISTS (SELECT 1 FROM campaigns WHERE id = new.campaign AND purged IS NOT NULL)
        ON CONFLICT DO NOTHING RETURNING campaign, node, wave
    """),
    # FOR KEY SHARE makes it wait for a withdrawal that has begun, and then see it: `_lock_withdrawals`.
    "postgresql": text("""
        INSERT INTO reports (campaign, node, wave, content, hour)
        SELECT *, CAST(:hour AS bigint) FROM (
            SELECT value ->> 0 AS campaign, value ->> 1 AS node, CAST(value ->> 2 AS bigint), value ->> 3
            FROM json_array_elements(CAST(:rows AS json))
        ) AS new
        WHERE NOT EXISTS (
                SELECT 1 FROM withdrawals WHERE campaign = new.campaign AND node = new.node FOR KEY SHARE
            ) AND NOT EXISTS (SELECT 1 FROM campaigns WHERE id = new.campaign AND purged IS NOT NULL)
        ON CONFLICT DO NOTHING RETURNING campaign, node, wave
    """),
}

Key = tuple[str, str, int]
"""Campaign, node and wave of a report."""


class Outcome(Enum):
    """Outcome of writing a report: stored now or before, in conflict with the stored one, or not wanted any more."""

    STORED = "stored"
    SAME = "same"
    CONFLICT = "conflict"
    WITHDRAWN = "withdrawn"
    PURGED = "purged"


class PutResult(NamedTuple):
    """Outcome of writing a report, and when the node's report that counts was stored.

    Attributes:
        outcome: what became of the submitted report.
        hour: Unix time of the hour in which the report that counts was stored, now or before, or was deleted.
    """

    outcome: Outcome
    hour: int


class Standing(Enum):
    """What a store holds of a node: this report, another one, one of another wave, or none; and why there is none."""

    STORED = "stored"
    ANOTHER = "another"
    EARLIER = "earlier"
    MISSING = "missing"
    WITHDRAWN = "withdrawn"
    PURGED = "purged"


class Reports:
    """One report for each node, wave and campaign. Writing is idempotent: a report may be sent again after any error.

    Args:
        database: the database.
        page_size: number of reports that one query reads.
    """

    def __init__(self, database: Database, *, page_size: int = 2000) -> None:
        self._database, self._page_size = database, page_size

    def put(self, submitted: Sequence[Report], *, now: float) -> list[PutResult]:
        """Store the reports of nodes that have none, in one transaction.

        Args:
            submitted: valid reports.
            now: Unix time; only its hour is kept.

        Returns:
            The outcome of each report and its hour, in order.
        """
        contents = [(_key(report), report.to_json()) for report in submitted]
        first = dict(reversed(contents))
        hour = hour_of(now)
        # Sorted, so that two collectors on one database cannot deadlock.
        rows = [(*key, content) for key, content in sorted(first.items())]
        with self._database.writing() as connection:
            fresh = _insert_missing(connection, rows, hour)
            others = [key for key in first if key not in fresh]
            before = self._stored(connection, others)
            gone = _gone(connection, {key for key in others if key not in before}, hour)
        results = []
        for key, content in contents:
            if key in gone:
                results.append(gone[key])
                continue
            standing, stored_hour = before.get(key, (first[key], hour))
            agrees = Outcome.SAME if content == standing else Outcome.CONFLICT
            results.append(PutResult(Outcome.STORED if key in fresh else agrees, stored_hour))
            fresh.discard(key)  # of several reports of a node, only the first was stored
        return results

    def _stored(self, connection: Connection, keys: Sequence[Key]) -> dict[Key, tuple[str, int]]:
        """Return the content and the hour of stored reports, by their key."""
        found: dict[Key, tuple[str, int]] = {}
        for campaign in {campaign for campaign, _, _ in keys}:
            nodes = list({node for c, node, _ in keys if c == campaign})
            for start in range(0, len(nodes), self._page_size):
                query = select(reports.c.node, reports.c.wave, reports.c.content, reports.c.hour).where(
                    reports.c.campaign == campaign, reports.c.node.in_(nodes[start : start + self._page_size])
                )
                rows = connection.execute(query)
                found.update({(campaign, node, wave): (content, hour) for node, wave, content, hour in rows})
        return found

    def count(self, campaign_id: str, *, wave: int | None = None) -> int:
        """Return the number of reports, of all waves or of one; without waves, of nodes that reported."""
        query = select(func.count()).select_from(reports).where(_is_of(campaign_id, wave))
        with self._database.reading() as connection:
            return int(connection.execute(query).scalar_one())

    def by_hour(self, campaign_id: str, *, wave: int | None = None) -> list[tuple[int, int]]:
        """Return the Unix time of each hour with reports, of all waves or of one, and their number; earliest first."""
        query = select(reports.c.hour, func.count()).where(_is_of(campaign_id, wave))
        query = query.group_by(reports.c.hour).order_by(reports.c.hour)
        with self._database.reading() as connection:
            return [(hour, count) for hour, count in connection.execute(query)]

    def iterate(self, campaign: Campaign) -> Iterator[Report]:
        """Iterate over the reports of a campaign by node and wave, validated again.

        One page is in memory at a time.

        Args:
            campaign: campaign of the reports; of a series about neighbours, its own wave is read.
        """
        key = [reports.c.node, reports.c.wave]
        query = select(reports.c.content, *key).where(_is_of(campaign.series, campaign.asked.stored_number))
        query = query.order_by(*key).limit(self._page_size)
        last: Sequence[Any] = ("", 0)
        while True:
            with self._database.reading() as connection:
                page = connection.execute(query.where(tuple_(*key) > tuple_(*last))).all()
            if not page:
                return
            for row in page:
                yield Report.parse(json.loads(row[0]), campaign)
            last = page[-1][1:]

    def nodes(self, campaign_id: str, *, wave: int | None = None) -> set[str]:
        """Return the names of the nodes that reported, in any wave or in one."""
        query = select(reports.c.node).where(_is_of(campaign_id, wave))
        with self._database.reading() as connection:
            return set(connection.execute(query).scalars())

    def standing(self, campaign_id: str, node: str, *, report_sha256: str | None = None) -> Standing:
        """Return the standing of a node: whether a report is stored, and if not, why.

        Args:
            campaign_id: the campaign.
            node: name of the node.
            report_sha256: hash of the report in question; without it, every report of the node counts as another.
        """
        of_node = select(reports.c.content).where(reports.c.campaign == campaign_id, reports.c.node == node)
        with self._database.reading() as connection:
            hashes = {hashlib.sha256(content.encode()).hexdigest() for (content,) in connection.execute(of_node)}
            gone = _deleted(connection, campaign_id, node)
        if report_sha256 in hashes:
            return gone or Standing.STORED
        return gone or (Standing.ANOTHER if hashes else Standing.MISSING)

    def has_reported(self, campaign_id: str, node: str, *, wave: int | None) -> tuple[Standing, list[int]]:
        """Return whether a node has reported: `STORED` in this wave, `EARLIER` in others only, or why it has not.

        Beside it, the waves of a series of which reports of the node are stored.

        Args:
            campaign_id: the campaign.
            node: name of the node.
            wave: the wave that is asked now; None if none is.
        """
        of_node = select(reports.c.wave).where(reports.c.campaign == campaign_id, reports.c.node == node)
        with self._database.reading() as connection:
            answered = set(connection.execute(of_node).scalars())
            gone = _deleted(connection, campaign_id, node)
        if gone:
            return gone, []
        reported = Standing.STORED if wave in answered else Standing.EARLIER if answered else Standing.MISSING
        return reported, sorted(answered - {0})


def _is_of(campaign_id: str, wave: int | None) -> ColumnElement[bool]:
    """Return the condition that a report is of a campaign, and of a wave if one is given."""
    of_campaign = reports.c.campaign == campaign_id
    return of_campaign if wave is None else of_campaign & (reports.c.wave == wave)


def _insert_missing(connection: Connection, rows: list[tuple[str, str, int, str]], hour: int) -> set[Key]:
    if not rows:
        return set()
    statement = _INSERT_ROWS[connection.dialect.name]
    inserted = connection.execute(statement, {"rows": json.dumps(rows), "hour": hour})
    return {(campaign, node, wave) for campaign, node, wave in inserted}


def _key(report: Report) -> Key:
    return report.series or report.campaign, report.node, report.number or 0


def _deleted(connection: Connection, campaign_id: str, node: str) -> Standing | None:
    """Return why no report of a node is stored any more; None if one may be."""
    if purged_at(connection, campaign_id) is not None:
        return Standing.PURGED
    return None if withdrawn_at(connection, campaign_id, node) is None else Standing.WITHDRAWN


def _gone(connection: Connection, keys: Set[Key], hour: int) -> dict[Key, PutResult]:
    """Return why reports that are neither stored now nor before are not wanted."""
    found: dict[Key, PutResult] = {}
    for campaign, node, wave in keys:
        withdrawn = withdrawn_at(connection, campaign, node)
        outcome = Outcome.PURGED if withdrawn is None else Outcome.WITHDRAWN
        found[campaign, node, wave] = PutResult(outcome, hour if withdrawn is None else withdrawn)
    return found
