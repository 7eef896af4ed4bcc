"""List of withdrawals in a file of its own: after an older backup is restored, it says who had withdrawn since.

The list names people, as the tombstones in the store do. It only grows: a store that lost tombstones takes no name off.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Set
from pathlib import Path

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign.report import check_node
from veilgraph.errors import ReportError, RunError
from veilgraph.graph.io import from_cell, to_cell

_COLUMNS = ["campaign", "node"]


def read_list(path: Path, campaign_id: str) -> set[str]:
    """Return the nodes that withdrew from a campaign."""
    return {node for campaign, node in _read(path) if campaign == campaign_id}


def add_to_list(path: Path, campaign_id: str, nodes: Set[str]) -> int:
    """Add nodes to the list, whose file is created if it does not exist; return how many are new."""
    before = _read(path) if path.exists() else set()
    rows = before | {(campaign_id, node) for node in nodes}
    if rows != before or not path.exists():
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(_COLUMNS)
        writer.writerows((campaign, to_cell(node)) for campaign, node in sorted(rows))
        write_atomically(path, text.getvalue())
    return len(rows) - len(before)


def _read(path: Path) -> set[tuple[str, str]]:
    try:
        header, *rows = csv.reader(io.StringIO(path.read_text(encoding="utf-8"), newline=""))
        if header != _COLUMNS:
            raise ValueError
        return {(campaign, check_node(from_cell(node))) for campaign, node in rows}
    except (OSError, ValueError, ReportError):
        raise RunError(f"{path} is no list of withdrawals: give a file that 'campaign withdrawals' wrote") from None
