"""Export of all reports of a campaign as one Parquet file."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from veilgraph.campaign import Campaign
from veilgraph.campaign.report import Report
from veilgraph.graph.arrow import arrow, column_type

# Reports of one row group.
_ROW_GROUP = 10_000


def write_parquet(campaign: Campaign, reports: Iterable[Report], path: Path) -> int:
    """Write one row for each report, in a series with its round, and the campaign in the file's metadata.

    Args:
        campaign: campaign of the reports.
        reports: its reports; one row group is in memory at a time.
        path: file to write.

    Returns:
        Number of reports.
    """
    pa, parquet = arrow(), arrow("parquet")
    fields = [("node", pa.string()), *((part, column_type(each)) for part, each in campaign.asked.report_parts.items())]
    schema = pa.schema(fields, metadata={"veilgraph.campaign": campaign.to_json()})
    written, remaining = 0, iter(reports)
    with parquet.ParquetWriter(path, schema) as writer:
        while group := list(islice(remaining, _ROW_GROUP)):
            documents = [report.document for report in group]
            columns = [[document[name] for document in documents] for name, _ in fields]
            writer.write_table(pa.table(columns, schema=schema))
            written += len(group)
    return written
