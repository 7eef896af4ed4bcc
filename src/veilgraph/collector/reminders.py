"""Who is asked, and who has not answered yet: the nodes to remind, without those that withdrew or objected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from veilgraph.campaign import Campaign
from veilgraph.collector.store import ReportStore
from veilgraph.graph.text_tables import write_text_table


def nodes_asked(names: Iterable[str], campaign: Campaign) -> list[str]:
    """Return the nodes that a document asks, each once, in their order: in turns, those whose turn it is.

    Args:
        names: names of all nodes that may report.
        campaign: the campaign.
    """
    return list(filter(campaign.asked.documents.is_asked, dict.fromkeys(names)))


def nodes_to_remind(names: Iterable[str], store: ReportStore, campaign: Campaign) -> list[str]:
    """Return the nodes that neither reported nor withdrew nor objected, in their order; in a series, for what is open.

    In turns, nobody is reminded of the wave of others. After a purge nobody is reminded, and an error says so: who had
    withdrawn or objected is not known any more.

    Args:
        names: names of all nodes that may report.
        store: store of the reports.
        campaign: the campaign.
    """
    store.purges.check_kept(campaign.series)
    # Reports first: a node that withdraws in between is in one of the sets.
    reported = store.reports.nodes(campaign.series, wave=campaign.number_now)
    settled = reported | store.withdrawals.nodes(campaign.series)
    return [name for name in nodes_asked(names, campaign) if name not in settled]


def to_csv(nodes: Sequence[str]) -> str:
    """Return a table with the column `node`; a name that a spreadsheet would take for a formula is kept as text."""
    return write_text_table(["node"], ([node] for node in nodes))
