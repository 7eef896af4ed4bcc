"""Export of all reports to a Parquet file."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from veilgraph.campaign import Campaign
from veilgraph.campaign.report import Report
from veilgraph.errors import MissingExtraError

_ROW_GROUP = 10_000


def write_parquet(campaign: Campaign, reports: Iterable[Report], path: Path) -> int:
    """Write one row for each report, with the campaign in the file's metadata.

    Args:
        campaign: campaign of the reports.
        reports: its reports; one row group is in memory at a time.
        path: file to write.

    Returns:
        Number of reports.
    """
    try:
        # Neither has type stubs.
        pa: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtraError(error.name or "pyarrow", "collector") from None
    fields = [("node", pa.string()), ("features", pa.list_(pa.uint16())), ("label", pa.uint16())]
    schema = pa.schema(fields, metadata={"veilgraph.campaign": campaign.to_json()})
    written, remaining = 0, iter(reports)
    with parquet.ParquetWriter(path, schema) as writer:
        while group := list(islice(remaining, _ROW_GROUP)):
            columns = [[r.node for r in group], [r.features for r in group], [r.label for r in group]]
            writer.write_table(pa.table(columns, schema=schema))
            written += len(group)
    return written
