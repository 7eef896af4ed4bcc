"""Receipt: the collector's signed statement that it stored a report. It holds no value of the report.

The signature is an HMAC: a holder of a signing key can check it, and could also have made it. A receipt settles whether
a report was lost between a person and an honest organiser. It does not bind an organiser who lies.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import hmac
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from veilgraph.campaign.report import Report
from veilgraph.campaign.strict_json import TIME_FORMAT, canonical_json
from veilgraph.errors import ReportError

_PURPOSE = b"veilgraph receipt 1"


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What the collector stored, and its signature.

    The same report has the same receipt whenever it is sent again, as long as the signing key is the same.

    Attributes:
        campaign: id of the campaign.
        node: name of the node.
        report_sha256: SHA-256 of the report's canonical JSON, in hexadecimal digits.
        stored: UTC time of the hour in which the report was stored. The collector keeps no more precise time.
        signature: HMAC-SHA256 of all this, as base64url without padding.
    """

    campaign: str
    node: str
    report_sha256: str
    stored: str
    signature: str

    @classmethod
    def sign(cls, key: str, report: Report, *, hour: int) -> Receipt:
        """Return the receipt of a stored report.

        Args:
            key: signing key of the collector, the newest of several.
            report: the stored report.
            hour: Unix time of the hour in which it was stored.

        >>> report = Report(campaign="5f7f", node="u17", features=(0, 1), label=None)
        >>> receipt = Receipt.sign("k" * 43, report, hour=7200)
        >>> receipt.stored, receipt.is_signed_by(["k" * 43]), receipt.is_signed_by(["l" * 43])
        ('1970-01-01T02:00:00Z', True, False)
        """
        content = {
            "campaign": report.campaign,
            "node": report.node,
            "report_sha256": hashlib.sha256(report.to_json().encode()).hexdigest(),
            "stored": datetime.fromtimestamp(hour, tz=UTC).strftime(TIME_FORMAT),
        }
        return cls(**content, signature=_signature(key, content))

    @classmethod
    def from_json(cls, text: str | bytes) -> Receipt:
        """Parse a receipt, or the collector's whole answer that contains it."""
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            raise ReportError("the receipt is not readable as JSON") from None
        if isinstance(document, dict):
            document = document.get("receipt", document)
        names = {field.name for field in dataclasses.fields(cls)}
        if (
            not isinstance(document, dict)
            or document.keys() != names
            or not all(isinstance(value, str) for value in document.values())
        ):
            raise ReportError(f"a receipt must have the keys {', '.join(sorted(names))}, all of them texts")
        return cls(**document)

    def is_signed_by(self, keys: Iterable[str]) -> bool:
        """Return whether one of the keys signed exactly this receipt; every key is tried, in constant time."""
        content = self.document
        given = content.pop("signature").encode(errors="replace")
        matches = [hmac.compare_digest(_signature(key, content).encode(), given) for key in keys]
        return any(matches)

    @property
    def document(self) -> dict[str, str]:
        """The receipt as JSON values."""
        return dict(vars(self))


def _signature(key: str, content: dict[str, str]) -> str:
    """Return the HMAC-SHA256 of purpose, a null character, and canonical JSON of everything but the signature.

    The purpose separates it from node tokens, which the same keys sign.
    """
    digest = hmac.digest(key.encode(), _PURPOSE + b"\0" + canonical_json(content).encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
