"""The reports as a Parquet file, for whoever analyses them elsewhere."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from veilgraph.campaign import Campaign
from veilgraph.campaign.report import Report
from veilgraph.errors import MissingExtraError

_ROWS = 10_000


def write_parquet(campaign: Campaign, reports: Iterable[Report], path: Path) -> int:
    """Write a row per report, with the campaign in the file's metadata; a part in memory at a time.

    Args:
        campaign: what was collected.
        reports: its reports.
        path: the file.

    Returns:
        How many reports were written.
    """
    try:
        # Neither has types.
        pa: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtraError(error.name or "pyarrow", "collector") from None
    fields = [("node", pa.string()), ("features", pa.list_(pa.uint16())), ("label", pa.uint16())]
    schema = pa.schema(fields, metadata={"veilgraph.campaign": campaign.to_json()})
    written, remaining = 0, iter(reports)
    with parquet.ParquetWriter(path, schema) as writer:
        while part := list(islice(remaining, _ROWS)):
            columns = [[r.node for r in part], [r.features for r in part], [r.label for r in part]]
            writer.write_table(pa.table(columns, schema=schema))
            written += len(part)
    return written
