"""Retention: a running collector deletes a campaign's reports after the date that its newest notice announces.

It does so for all campaigns in its database, whether it serves them or not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Set
from datetime import UTC, datetime

from veilgraph.campaign import Campaign
from veilgraph.collector.store import ReportStore
from veilgraph.errors import StoreError, StoreFullError, StoreUnavailableError

logger = logging.getLogger("veilgraph.collector")


def is_due(campaign: Campaign, now: float) -> bool:
    """Return whether the campaign's retention date has passed; one without a date is never due."""
    return campaign.notice.retention is not None and datetime.fromtimestamp(now, tz=UTC) >= campaign.notice.retention


def purge_if_due(campaign: Campaign, store: ReportStore, *, now: float) -> int:
    """Delete the campaign's reports if its retention date has passed, and return their number."""
    if not is_due(campaign, now) or (
        store.purges.hour(campaign.series) is not None and store.reports.count(campaign.series) == 0
    ):
        return 0
    deleted = store.purges.purge(campaign, now=now, actor="collector")
    if deleted:
        logger.info("the retention date has passed: deleted %d reports of campaign %s", deleted, campaign.id)
    return deleted


async def maintain_regularly(
    campaign: Callable[[], Campaign],
    store: ReportStore,
    *,
    clock: Callable[[], float],
    counted: Callable[[int], None],
    unavailable: Callable[[], None],
    seconds: float = 60.0,
) -> None:
    """Keep a new notice, purge when the date passes, and count reports, until cancelled.

    Args:
        campaign: returns the campaign with its newest notice.
        store: store of the reports.
        clock: Unix time.
        counted: takes the number of stored reports.
        unavailable: called when the database does not answer or is full; it is tried again.
        seconds: time between two looks at the clock, which is also looked at when the retention date comes.
    """
    while True:
        try:
            await asyncio.to_thread(store.documents.register, campaign(), now=clock())
            await asyncio.to_thread(purge_if_due, campaign(), store, now=clock())
            counted(
                await asyncio.to_thread(store.reports.count, campaign().series, wave=campaign().asked.stored_number)
            )
        except (StoreUnavailableError, StoreFullError):
            unavailable()
        except StoreError as error:
            logger.warning("the notice and its retention date could not be attended to: %s", type(error).__name__)
        await asyncio.sleep(_until_next_look(campaign(), clock(), seconds))


def _until_next_look(campaign: Campaign, now: float, seconds: float) -> float:
    """Return the time to sleep: until the retention date if that is soon, else as usual."""
    left = seconds if campaign.notice.retention is None else campaign.notice.retention.timestamp() - now
    return left if 0 < left < seconds else seconds


async def purge_unserved_regularly(
    store: ReportStore, served: Set[str], *, clock: Callable[[], float], seconds: float = 60.0
) -> None:
    """Purge campaigns of the database that this process does not serve, when their dates pass, until cancelled.

    What a campaign announced holds also after it was taken out of the collector's configuration.

    Args:
        store: store of the reports.
        served: ids of the campaigns that are served; `maintain_regularly` attends to them.
        clock: Unix time.
        seconds: time between two looks at the clock.
    """
    while True:
        try:
            await asyncio.to_thread(_purge_unserved, store, served, clock())
        except StoreError as error:
            logger.debug("retention dates could not be attended to: %s", type(error).__name__)
        await asyncio.sleep(seconds)


def _purge_unserved(store: ReportStore, served: Set[str], now: float) -> None:
    for campaign_id, document in store.documents.newest().items():
        if campaign_id not in served:
            purge_if_due(Campaign.from_json(document), store, now=now)
