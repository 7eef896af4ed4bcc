"""List of withdrawals in a file of its own: after an older backup is restored, it says who had withdrawn since.

The list names people, as the tombstones in the store do. A store that lost tombstones takes no name off. A purge does,
as it deletes the tombstones: no report of the campaign is stored again.
"""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign.report import check_node
from veilgraph.errors import GraphError, ReportError, RunError
from veilgraph.graph.text_tables import from_cell, read_text_table, write_text_table

_COLUMNS = ["campaign", "node"]


def read_list(path: Path, campaign_id: str) -> set[str]:
    """Return the nodes that withdrew from a campaign."""
    return {node for campaign, node in _read(path) if campaign == campaign_id}


def add_to_list(path: Path, campaign_id: str, nodes: Set[str]) -> int:
    """Add nodes to the list, whose file is created if it does not exist; return how many are new."""
    before = _read(path) if path.exists() else set()
    rows = before | {(campaign_id, node) for node in nodes}
    if rows != before or not path.exists():
        write_atomically(path, write_text_table(_COLUMNS, sorted(rows)))
    return len(rows) - len(before)


def remove_from_list(path: Path, campaign_id: str) -> int:
    """Remove everybody of a campaign from the list; return how many were in it."""
    before = _read(path) if path.exists() else set()
    kept = {(campaign, node) for campaign, node in before if campaign != campaign_id}
    if kept != before:
        write_atomically(path, write_text_table(_COLUMNS, sorted(kept)))
    return len(before) - len(kept)


def _read(path: Path) -> set[tuple[str, str]]:
    try:
        table = read_text_table(path)
        campaigns, nodes = (table.column(name, "campaigns and nodes that withdrew") for name in _COLUMNS)
        return {(campaign, check_node(from_cell(node))) for campaign, node in zip(campaigns, nodes, strict=True)}
    except (GraphError, ReportError):
        raise RunError(f"{path} is no list of withdrawals: give a file that 'veilgraph backup' wrote") from None
