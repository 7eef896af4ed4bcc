"""Validation of submitted reports, in the order that discloses least to a sender."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from veilgraph.campaign import Campaign
from veilgraph.campaign.report import Report
from veilgraph.collector.auth import Credentials
from veilgraph.collector.errors import Refusal, RefusalReason
from veilgraph.errors import ReportError
from veilgraph.privacy.strict_json import parse_json


@dataclass(kw_only=True, eq=False)
class ReportValidator:
    """Validation of the reports of one campaign.

    Args:
        campaign: the campaign that reports must answer, with its latest notice.
        nodes: names of the nodes that may report.
        credentials: signing keys of the nodes' tokens.
        clock: Unix time.
    """

    campaign: Campaign
    nodes: Set[str]
    credentials: Credentials
    clock: Callable[[], float]

    @property
    def is_open(self) -> bool:
        """Whether the campaign still accepts reports."""
        return self.campaign.is_open(datetime.fromtimestamp(self.clock(), tz=UTC))

    def check_open(self) -> None:
        """Refuse requests after the closing date, which is public."""
        if not self.is_open:
            raise Refusal(RefusalReason.CLOSED)

    def validate_body(self, node: str, body: bytes) -> Report:
        """Return the report in the body of a request whose path names the node."""
        return self._validate(parse_body(body), node)

    def validate_entry(self, line: bytes) -> Report:
        """Return the report in a line of a batch: {"token": ..., "report": {...}}."""
        node, document = self._open_entry(line)
        return self._validate(document, self._known(node))

    def check_sender(self, line: bytes) -> None:
        """Refuse the sender of a batch whose first line has no token of its node."""
        self._open_entry(line)

    def authenticate(self, node: object, token: object) -> str:
        """Return the node if the token is its own; no other refusal says anything about a node before this one."""
        return self._known(self._owner(node, token))

    def _open_entry(self, line: bytes) -> tuple[str, object]:
        """Return the node and the report of a line of a batch if the token is the node's own."""
        entry = parse_body(line)
        if not isinstance(entry, dict) or entry.keys() != {"token", "report"}:
            detail = "a line of a batch must have the keys 'token' and 'report', and no other"
            raise Refusal(RefusalReason.NOT_VALID, detail)
        document = entry["report"]
        return self._owner(document.get("node") if isinstance(document, dict) else None, entry["token"]), document

    def _owner(self, node: object, token: object) -> str:
        if (
            not isinstance(node, str)
            or not isinstance(token, str)
            or not self.credentials.opens_node(self.campaign.series, node, token)
        ):
            raise Refusal(RefusalReason.WRONG_TOKEN)
        return node

    def _known(self, node: str) -> str:
        if node not in self.nodes:
            raise Refusal(RefusalReason.UNKNOWN_NODE)
        return node

    def _validate(self, document: object, node: str) -> Report:
        self._refuse_earlier_document(document)
        try:
            report = Report.parse(document, self.campaign)
        except ReportError as error:
            raise Refusal(RefusalReason.NOT_VALID, str(error)) from None
        if report.node != node:
            raise Refusal(RefusalReason.ANOTHER_NODE)
        if not self.campaign.asked.is_round_open(report.number, self.campaign.notice.open_round):
            raise Refusal(RefusalReason.NOT_VALID, f"round {report.number} is not open yet")
        return report

    def _refuse_earlier_document(self, document: object) -> None:
        """Refuse a report that answers an earlier document of the collection, in a sentence of its own."""
        named = document.get("campaign") if isinstance(document, dict) else None
        if why := self.campaign.asked.documents.why_closed(named):
            raise Refusal(RefusalReason.EARLIER_WAVE, why)


def parse_body(body: bytes) -> Any:
    """Parse JSON; the refusal of anything else does not quote it."""
    try:
        return parse_json(body)
    except ValueError:
        raise Refusal(RefusalReason.NOT_JSON) from None
