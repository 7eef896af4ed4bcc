"""From a request to a report that may be stored: checked in the order that discloses least."""

from __future__ import annotations

import json
from collections.abc import Callable, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from veilgraph.campaign import Campaign
from veilgraph.campaign.report import Report
from veilgraph.collector.auth import Credentials
from veilgraph.collector.errors import Refusal
from veilgraph.collector.middleware import MOST_IN_A_BATCH
from veilgraph.errors import ReportError


@dataclass(frozen=True, kw_only=True, eq=False)
class Intake:
    """What the collector accepts.

    Args:
        campaign: the only one that it collects for.
        nodes: the nodes of the public graph.
        credentials: whose tokens count.
        clock: Unix time.
    """

    campaign: Campaign
    nodes: Set[str]
    credentials: Credentials
    clock: Callable[[], float]

    @property
    def is_open(self) -> bool:
        """Whether the campaign still takes reports."""
        return self.campaign.is_open(datetime.fromtimestamp(self.clock(), tz=UTC))

    def check_open(self) -> None:
        """Refuse after the closing date, which is public."""
        if not self.is_open:
            raise Refusal(410, "closed", "the campaign is closed: it takes no more reports")

    def check_sender(self, node: object, token: object) -> str:
        """The node, if the token is its own; only then anything about it is told."""
        if not isinstance(node, str) or not isinstance(token, str):
            raise _not_allowed()
        if not self.credentials.opens_node(self.campaign.id, node, token):
            raise _not_allowed()
        if node not in self.nodes:
            raise Refusal(404, "unknown_node", "the public graph has no such node")
        return node

    def check_report_of(self, node: str, token: str, body: bytes) -> Report:
        """The report in a request of its own, whose path names the node."""
        self.check_sender(node, token)
        return self.check_report(parse_json(body), node)

    def check_report(self, document: object, node: str) -> Report:
        """The report, if it is one for this campaign and node, to the last value."""
        try:
            report = Report.parse(document, self.campaign)
        except ReportError as error:
            raise Refusal(422, "not_valid", str(error)) from None
        if report.node != node:
            raise Refusal(422, "another_node", "the report names another node than the request")
        return report

    def check_entry(self, entry: object) -> Report:
        """A report out of many: {"token": ..., "report": {...}}."""
        if not isinstance(entry, dict) or entry.keys() != {"token", "report"}:
            raise Refusal(422, "not_valid", "an entry must have the keys 'token' and 'report', and no other")
        document = entry["report"]
        node = self.check_sender(document.get("node") if isinstance(document, dict) else None, entry["token"])
        return self.check_report(document, node)


def parse_json(body: bytes) -> Any:
    """JSON, or a refusal that does not quote it."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise Refusal(422, "not_json", "the request is not JSON") from None


def batch_entries(document: object) -> list[object]:
    """The entries of a request with many reports."""
    entries = document.get("reports") if isinstance(document, dict) and len(document) == 1 else None
    if not isinstance(entries, list):
        raise Refusal(422, "not_valid", "the request must have the key 'reports', a list, and no other")
    if len(entries) > MOST_IN_A_BATCH:
        raise Refusal(413, "too_large", f"{len(entries)} reports: send at most {MOST_IN_A_BATCH} at once")
    return entries


def _not_allowed() -> Refusal:
    return Refusal(401, "wrong_token", "the token is not this node's in this campaign")
