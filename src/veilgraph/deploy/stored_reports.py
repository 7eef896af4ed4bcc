"""Reports of a campaign, read from a store one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING

from veilgraph.campaign import Campaign
from veilgraph.campaign.report import Report
from veilgraph.errors import MissingExtraError, StoreError
from veilgraph.progress import Progress, Watch, unwatched

if TYPE_CHECKING:
    from veilgraph.collector.store import ReportStore
    from veilgraph.deploy.model_folder import Model

_PROGRESS_STEP = 1000


@contextmanager
def stored_reports(store: str, campaign: Campaign, *, watch: Watch = unwatched) -> Iterator[Iterator[Report]]:
    """Open a store and yield the reports of a campaign, which are read one at a time.

    Public columns that the notice served last did not name are refused: people were not told.

    Args:
        store: URL of the store: `sqlite:///FILE` or `postgresql://...`.
        campaign: the campaign.
        watch: shows the progress of reading.
    """
    with _opened(store) as opened:
        total = opened.reports.count(campaign.series)
        opened.purges.check_kept(campaign.series)
        if (served := opened.documents.newest().get(campaign.id)) is not None:
            campaign.notice.check_public(Campaign.from_json(served).notice)
        if total == 0:
            raise StoreError(
                f"the store holds no report of the campaign {campaign.id}: give its store and its campaign"
            )
        with watch("read reports") as progress:
            documents = _documents(opened, campaign)
            yield _counted(chain.from_iterable(map(opened.reports.iterate, documents)), total, progress)


def series_documents(store: str, campaign: Campaign) -> tuple[Campaign, ...]:
    """Return all documents of the series of a wave about neighbours, as the store served them, this one last."""
    with _opened(store) as opened:
        return _documents(opened, campaign)


def _documents(opened: ReportStore, campaign: Campaign) -> tuple[Campaign, ...]:
    earlier = campaign.asked.documents.earlier
    known = opened.documents.newest() if earlier else {}
    if missing := [each for each in earlier if each not in known]:
        raise StoreError(
            f"the store never served {missing[0]}, a document of this series: give the store of the series"
        )
    return (*(Campaign.from_json(known[each]) for each in earlier), campaign)


def count_withdrawals(store: str, campaign: Campaign) -> int:
    """Return how many people took back what they had reported; the number never becomes smaller."""
    with _opened(store) as opened:
        return opened.withdrawals.count(campaign.series)


def withdrawn_people(store: str, campaign: Campaign) -> set[str]:
    """Return the names of the people who have withdrawn from a campaign, or objected to it."""
    with _opened(store) as opened:
        return opened.withdrawals.nodes(campaign.series)


def withdrawn_since(store: str, model: Model) -> int:
    """Return how many people withdrew after a model was trained; their reports are in it."""
    return count_withdrawals(store, model.campaign) - int(model.facts.get("withdrawals", 0))


@contextmanager
def _opened(store: str) -> Iterator[ReportStore]:
    try:
        from veilgraph.collector.store import ReportStore
    except ImportError as error:
        raise MissingExtraError(error.name or "a library", "collector") from error
    opened = ReportStore.open(store, create=False)
    try:
        yield opened
    finally:
        opened.close()


def _counted(reports: Iterator[Report], total: int, progress: Progress) -> Iterator[Report]:
    for number, report in enumerate(reports, start=1):
        yield report
        if number % _PROGRESS_STEP == 0:
            progress("", number, total)
