"""Sending and withdrawing reports, and the collector's receipts."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from veilgraph.client.connection import (
    PATIENT,
    REASONS,
    Patience,
    deliver,
    make_request,
    place_of,
    read_answer,
    read_json_object,
)
from veilgraph.client.question import DrawnReport
from veilgraph.client.reading import canonical_json
from veilgraph.client.refusals import SendError
from veilgraph.client.rounds import forget

_PLAIN = re.compile(r"[!-~]{1,1000}")


@dataclass(frozen=True, kw_only=True)
class _Statement:
    """What the collector signed about a node; true if it happened now, and not before.

    The signature is the collector's: only a holder of its keys can check it, and could also have made it. So it helps
    to find a report that was lost, and proves nothing to others.
    """

    campaign: str
    node: str
    signature: str
    is_new: bool

    def __bool__(self) -> bool:
        return self.is_new

    @property
    def document(self) -> dict[str, str]:
        """The receipt as JSON values, to keep."""
        return {key: value for key, value in vars(self).items() if key != "is_new"}


@dataclass(frozen=True, kw_only=True)
class Receipt(_Statement):
    """The collector's signed statement that it stored a report; true if the report was stored now, not before."""

    report_sha256: str
    stored: str
    """The hour in which the report was stored, such as 2027-01-31T17:00:00Z."""


@dataclass(frozen=True, kw_only=True)
class WithdrawalReceipt(_Statement):
    """The collector's signed statement that it deleted a node's reports; true if that was now, and not before."""

    withdrawn: str
    """The hour from which nothing of the node is stored, such as 2027-01-31T17:00:00Z."""


def send(
    url: str,
    report: DrawnReport,
    token: str,
    *,
    again: bool = False,
    store: str | os.PathLike[str] | None = None,
    patience: Patience = PATIENT,
) -> Receipt:
    """Send a report to the collector, unless the collector already holds one of this node.

    The collector is asked first, by `has_reported`. A second draw, from another device or after the store was lost,
    would be refused on arrival, and those who run the server would have seen it: so it does not leave this device.
    Nor does a report of a series from permanent answers that were drawn anew, because the device does not remember a
    round that was reported. Where the first answer was lost, `again` sends the same report once more, which changes
    nothing.

    An answer counts only if its receipt names this campaign, this node and the hash of this report. So the login page
    of a network, which answers everything, is not taken for the collector.

    An overloaded, restarting or unreachable collector is tried again, after the time that it requests and at least
    0.5, 1, 2, ... seconds. Each pause is shortened at random by up to half, so that many devices do not return at once.

    Args:
        url: the collector's address: https, or http on this machine, because the token must not be sent unencrypted.
        report: the result of `answer` or `answer_neighbours`, or what `DrawnReport.read` made of its `text`. Other
            values are refused: their length would tell what they say.
        token: the node's token.
        again: send although the collector holds a report of this node: only this very report, from this store.
        store: the device's folder: if the collector says that the node has withdrawn, its true answers are deleted.
        patience: how often and how long to try.

    Returns:
        The collector's receipt; it is true if the report was stored now, false if it had been stored before.
    """
    if not isinstance(report, DrawnReport):
        raise SendError("the report has no length: send what `answer` returned, or DrawnReport.read of its text")
    if not again:
        standing, held = _reported(url, report["node"], token, patience)
        if standing == "withdrawn" and store is not None:
            forget(store, report["campaign"], report["node"])
        if standing not in ("missing", "earlier"):
            raise SendError(f"{REASONS[standing]}; nothing was sent")
        lost = sorted(held - report.rounds) if "round" in report else []
        if lost:
            raise SendError(
                f"the collector holds what this node reported in round {', '.join(map(str, lost))}, and this device "
                "does not remember what it drew then: a second draw would reveal more. Restore the newest copy of the "
                "device's folder, and answer again from it; nothing was sent"
            )
    request = make_request(url, place_of(report["node"]), token, "PUT", report.text.encode())
    remedy = "the report is stored: send the same one again later"
    status, answer = deliver(request, patience, remedy, read_answer)
    return _receipt(answer, report, is_new=status == 201)


def has_reported(
    url: str,
    node: str,
    token: str,
    *,
    patience: Patience = PATIENT,
) -> str:
    """Ask the collector whether a node has reported. Nothing of a report is sent.

    Args:
        url: the collector's address: https, or http on this machine, because the token must not be sent unencrypted.
        node: name of the node in the public graph.
        token: the node's token.
        patience: how often and how long to try.

    Returns:
        `stored`, `earlier` (in another round of the series only), `missing`, `withdrawn`, or `purged` (with the whole
        campaign).
    """
    return _reported(url, node, token, patience)[0]


def _reported(url: str, node: str, token: str, patience: Patience) -> tuple[str, set[int]]:
    """Return whether a node has reported, and in which rounds of a series."""
    request = make_request(url, place_of(node), token, "GET")
    remedy = "nothing was sent, and what this device drew stays here: try again later"
    _, answer = deliver(request, patience, remedy, read_answer)
    standing, held = _standing(answer, "earlier", "rounds"), read_json_object(answer).get("rounds")
    if not isinstance(held, list) or not all(type(number) is int for number in held):
        raise _no_standing()
    return standing, set(held)


def withdraw(
    url: str,
    node: str,
    token: str,
    *,
    store: str | os.PathLike[str] | None = None,
    patience: Patience = PATIENT,
) -> WithdrawalReceipt:
    """Withdraw a node's reports, or object before there is one: the collector stores none of this node again.

    This needs no report on this device, cannot be undone, and works after the campaign has closed. Withdrawing again,
    after a failure or by mistake, changes nothing. This device keeps what it drew first, and counts its epsilon for
    ever, because nobody can tell who has seen the report. The true answers that it kept for later rounds are deleted
    from `store`, and no later round is answered. A busy collector is tried again, as by `send`.

    Args:
        url: the collector's address: https, or http on this machine, because the token must not be sent unencrypted.
        node: name of the node in the public graph.
        token: the node's token.
        store: the device's folder, if the node has answered from this device.
        patience: how often and how long to try.

    Returns:
        The collector's receipt; it is true if the reports were withdrawn now, false if they had been before.
    """
    request = make_request(url, place_of(node), token, "DELETE")
    _, answer = deliver(request, patience, "withdraw again later", read_answer)
    document = read_json_object(answer)
    stated = document.get("receipt")
    if not _is_receipt(stated, "campaign node withdrawn signature", {"node": node}):
        raise SendError("what answered did not confirm the withdrawal: it may be the login page of a network")
    receipt = WithdrawalReceipt(**stated, is_new=document.get("status") == "withdrawn")
    if store is not None:
        forget(store, receipt.campaign, node)
    return receipt


def check_receipt(
    url: str,
    receipt: Mapping[str, str],
    *,
    patience: Patience = PATIENT,
) -> str:
    """Ask the collector whether it signed a receipt, and what it holds of the receipt's node now.

    Args:
        url: the collector's address: https, or http on this machine.
        receipt: the document of a receipt that `send` or `withdraw` returned.
        patience: how often and how long to try.

    Returns:
        `stored`, `another` (another report of this node), `missing`, `withdrawn`, or `purged` (with the whole
        campaign). A receipt that the collector did not sign raises an error.
    """
    content = canonical_json(dict(receipt)).encode()
    request = make_request(url, "receipts", "", "POST", content)
    _, answer = deliver(request, patience, "check it again later", read_answer)
    return _standing(answer, "another")


def _standing(answer: bytes, other: str, *more: str) -> str:
    """Return what the collector says that it holds of a node: `other`, or one of four words that all routes know."""
    document = read_json_object(answer)
    status = document.get("status")
    if set(document) != {"status", *more} or status not in ("stored", other, "missing", "withdrawn", "purged"):
        raise _no_standing()
    return str(status)


def _no_standing() -> SendError:
    return SendError(
        "what answered did not say what the collector holds: it may be the login page of a network, or another "
        "collector"
    )


def _receipt(answer: bytes, report: Mapping[str, Any], *, is_new: bool) -> Receipt:
    """Return the receipt in the collector's answer if it confirms this report."""
    stated = read_json_object(answer).get("receipt")
    expected = {
        "campaign": report["campaign"],
        "node": report["node"],
        "report_sha256": hashlib.sha256(canonical_json(dict(report)).encode()).hexdigest(),
    }
    if not _is_receipt(stated, "campaign node report_sha256 stored signature", expected):
        raise SendError(
            "what answered did not confirm this report: it may be the login page of a network, or another collector. "
            "The report is stored on this device: send the same one again later"
        )
    return Receipt(**stated, is_new=is_new)


def _is_receipt(stated: object, keys: str, expected: Mapping[str, str]) -> TypeGuard[dict[str, str]]:
    """Return whether this is a receipt with exactly these keys and values; the others are plain characters."""
    return (
        isinstance(stated, dict)
        and set(stated) == set(keys.split())
        and all(stated[key] == value for key, value in expected.items())
        and all(
            isinstance(value, str) and _PLAIN.fullmatch(value) for key, value in stated.items() if key not in expected
        )
    )
