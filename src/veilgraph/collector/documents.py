"""Documents of the campaigns that collectors served from a database: the newest of each, in the order of a series."""

from __future__ import annotations

import hashlib

from sqlalchemy import Connection, select, text

from veilgraph.campaign import Campaign
from veilgraph.campaign.asked import documents_before
from veilgraph.collector import audit_log
from veilgraph.collector.database import Database
from veilgraph.collector.tables import campaigns
from veilgraph.errors import CampaignError, StoreError


class Documents:
    """The newest document of each campaign.

    Args:
        database: the database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def register(self, campaign: Campaign, *, now: float, actor: str = "collector") -> None:
        """Keep the newest document of a campaign; the audit log says when its notice is new.

        An older notice than the stored one is refused: devices refuse it too, and its retention date may be later. So
        are public columns that people were not told, and a wave about neighbours whose earlier documents were not
        served from this database.
        """
        with self._database.writing() as connection:
            _lock(connection)
            stored = connection.execute(select(campaigns.c.document).where(campaigns.c.id == campaign.id)).scalar()
            newest = campaign.notice if stored is None else Campaign.from_json(stored).notice
            if campaign.notice.version < newest.version:
                raise StoreError(
                    f"the campaign file holds notice {campaign.notice.version}, and notice {newest.version} was served "
                    "before: put the newest file back"
                )
            try:
                campaign.notice.check_public(newest)
            except CampaignError as error:
                raise StoreError(str(error)) from None
            if self.write(connection, campaign):
                detail = {
                    "campaign": campaign.series,
                    "notice": campaign.notice.version,
                    "sha256": hashlib.sha256(campaign.to_json().encode()).hexdigest(),
                }
                audit_log.append(connection, now=now, actor=actor, action="notice", detail=detail)

    def write(self, connection: Connection, campaign: Campaign) -> bool:
        """Write a document in a transaction, and return whether it was not there; refuse one of another series."""
        _check_series(connection, campaign)
        insert = self._database.insert(campaigns)
        statement = insert.on_conflict_do_update(
            index_elements=[campaigns.c.id],
            set_={"document": insert.excluded.document},
            where=campaigns.c.document != insert.excluded.document,
        ).returning(campaigns.c.id)
        row = {"id": campaign.id, "document": campaign.to_json(), "withdrawals": 0}
        return connection.execute(statement, row).first() is not None

    def newest(self) -> dict[str, str]:
        """Return the newest document of each campaign that a collector of this database served, by id."""
        with self._database.reading() as connection:
            rows = connection.execute(select(campaigns.c.id, campaigns.c.document).order_by(campaigns.c.id))
            return {row.id: row.document for row in rows}

    def check_newest(self, campaign: Campaign) -> None:
        """Refuse a document of a series about neighbours after which a wave was opened: that closed it for good."""
        later = [before for before in map(documents_before, self.newest().values()) if campaign.id in before]
        if later:
            raise StoreError(
                f"wave {max(map(len, later))} of this series was opened before: give the folder with its "
                "document, or the document itself"
            )


def _check_series(connection: Connection, campaign: Campaign) -> None:
    """Refuse a wave about neighbours that does not continue a series of this database."""
    before = documents_before(campaign.to_json())
    if not before:
        return
    known = set(connection.execute(select(campaigns.c.id).where(campaigns.c.id.in_(before))).scalars())
    if missing := [each for each in before if each not in known]:
        raise StoreError(
            f"wave {len(before)} is of another series: the store never served its document {missing[0]}; "
            "give the store of the series, and serve every document of it"
        )
    for served, document in connection.execute(select(campaigns.c.id, campaigns.c.document)):
        if served != campaign.id and documents_before(document) == before:
            raise StoreError(f"another wave {len(before)} of this series was served before, {served}: serve that one")


def _lock(connection: Connection) -> None:
    """Let others that register a campaign wait, so that two collectors cannot open different waves of a series."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("LOCK TABLE campaigns IN SHARE ROW EXCLUSIVE MODE"))
