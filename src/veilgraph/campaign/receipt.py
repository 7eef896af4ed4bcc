"""Receipts that the collector signs: for a report that it stored, and for a withdrawal.

A receipt holds no value of the report. Its signature is an HMAC: a holder of a signing key can check it, and could also
have made it. A person checks a receipt by asking the collector, which then also says whether the report is stored now.
A receipt settles whether a report was lost between a person and an honest organiser. It proves nothing to others, and
does not bind an organiser who lies.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, ClassVar, Self

from veilgraph.campaign.report import Report
from veilgraph.campaign.tokens import signature_of
from veilgraph.errors import ReportError
from veilgraph.privacy.strict_json import TIME_FORMAT, canonical_json, parse_json


@dataclass(frozen=True, kw_only=True)
class SignedReceipt:
    """What every receipt holds.

    Attributes:
        campaign: id of the campaign.
        node: name of the node.
        signature: HMAC-SHA256 of everything else, as base64url without padding.
    """

    purpose: ClassVar[bytes]
    """Text that separates receipts of a kind from others, and from node tokens, which the same keys sign."""

    campaign: str
    node: str
    signature: str

    @classmethod
    def _signed(cls, key: str, **content: str) -> Self:
        return cls(**content, signature=cls._signature(key, content))

    @classmethod
    def _signature(cls, key: str, content: dict[str, str]) -> str:
        """Return the HMAC-SHA256 of purpose, a null character, and canonical JSON of everything but the signature."""
        return signature_of(key, cls.purpose + b"\0" + canonical_json(content).encode())

    def is_signed_by(self, keys: Iterable[str]) -> bool:
        """Return whether one of the keys signed exactly this receipt; every key is tried, in constant time."""
        content = self.document
        given = content.pop("signature").encode(errors="replace")
        matches = [hmac.compare_digest(self._signature(key, content).encode(), given) for key in keys]
        return any(matches)

    @property
    def document(self) -> dict[str, str]:
        """The receipt as JSON values."""
        return dict(vars(self))


@dataclass(frozen=True, kw_only=True)
class Receipt(SignedReceipt):
    """What the collector stored, and its signature.

    The same report has the same receipt whenever it is sent again, as long as the signing key is the same.

    Attributes:
        report_sha256: SHA-256 of the report's canonical JSON, in hexadecimal digits.
        stored: UTC time of the hour in which the report was stored. The collector keeps no more precise time.
    """

    purpose: ClassVar[bytes] = b"veilgraph receipt 1"

    report_sha256: str
    stored: str

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
        return cls._signed(
            key,
            campaign=report.campaign,
            node=report.node,
            report_sha256=hashlib.sha256(report.to_json().encode()).hexdigest(),
            stored=_time(hour),
        )


@dataclass(frozen=True, kw_only=True)
class WithdrawalReceipt(SignedReceipt):
    """That the collector deleted a node's reports, and its signature.

    Attributes:
        withdrawn: UTC time of the hour from which nothing of the node is stored.
    """

    purpose: ClassVar[bytes] = b"veilgraph withdrawal receipt 1"

    withdrawn: str

    @classmethod
    def sign(cls, key: str, campaign_id: str, node: str, *, hour: int) -> WithdrawalReceipt:
        """Return the receipt of a withdrawal.

        >>> WithdrawalReceipt.sign("k" * 43, "5f7f", "u17", hour=7200).withdrawn
        '1970-01-01T02:00:00Z'
        """
        return cls._signed(key, campaign=campaign_id, node=node, withdrawn=_time(hour))


def read_receipt(text: str | bytes) -> Receipt | WithdrawalReceipt:
    """Parse a receipt of either kind, the collector's answer that contains it, or what `submit --json` printed."""
    try:
        document: Any = parse_json(text)
    except ValueError:
        raise ReportError("the receipt is not readable as JSON") from None
    if isinstance(document, list) and len(document) == 1:
        document = document[0]
    return parse_receipt(document.get("receipt", document) if isinstance(document, dict) else document)


def parse_receipt(document: object) -> Receipt | WithdrawalReceipt:
    """Validate JSON values as a receipt; whether it is signed is another question."""
    for kind in (Receipt, WithdrawalReceipt):
        if (
            isinstance(document, dict)
            and document.keys() == {field.name for field in fields(kind)}
            and all(isinstance(value, str) for value in document.values())
        ):
            return kind(**document)
    raise ReportError(
        "a receipt must have the keys campaign, node and signature, and either report_sha256 and stored or withdrawn; "
        "all of them texts"
    )


@lru_cache(maxsize=8)
def _time(hour: int) -> str:
    return datetime.fromtimestamp(hour, tz=UTC).strftime(TIME_FORMAT)
