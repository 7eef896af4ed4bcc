"""`veilgraph receipt`: what this device has answered and what it cost, and whether a receipt is genuine."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer

from veilgraph.campaign.receipt import Receipt, WithdrawalReceipt, read_receipt
from veilgraph.campaign.tokens import read_keys
from veilgraph.cli.options import CollectorOption, JsonOption
from veilgraph.cli.output import Facts, emit
from veilgraph.client import Answered, Ledger, check_receipt
from veilgraph.client import ledger as read_ledger
from veilgraph.errors import ReportError, RunError, SendError
from veilgraph.privacy.epsilon import ListRelation, NeighbourRelation, Relation, json_epsilon, show_epsilon
from veilgraph.privacy.plain_text import quote

DeviceFolder = Annotated[
    Path | None, typer.Option(help="Folder that keeps reports, so that none is drawn twice; default: in your home.")
]


_STANDINGS = {
    "stored": "The collector signed it, and the report is stored now.",
    "withdrawn": "The collector signed it. The report was withdrawn: it is deleted, and none is stored again.",
    "purged": "The collector signed it. All reports of the campaign were deleted.",
    "missing": "The collector signed it, and the report is not stored now: send the same report again.",
    "another": "The collector signed it, and another report of this node is stored now: ask the campaign's contact.",
}
_WITHDRAWAL_UNDONE = (
    "The collector signed it, and does not remember the withdrawal: an older copy of its store was restored. "
    "Withdraw again."
)


def receipt(
    receipt: Annotated[
        Path | None,
        typer.Argument(
            help="A receipt, or what `submit --json` printed, .json; with --url or --keys-file.", metavar="RECEIPT"
        ),
    ] = None,
    url: CollectorOption | None = None,
    keys_file: Annotated[
        Path | None, typer.Option(help="For the organiser: file of the collector's secret keys.")
    ] = None,
    device_folder: DeviceFolder = None,
    as_json: JsonOption = False,
) -> None:
    """List everything that this device has answered, what it cost, and your limit; with RECEIPT, check that receipt.

    The collector at --url says whether it signed the receipt, and whether it stores the report now. --keys-file checks
    the signature alone, without a collector.
    """
    if receipt is None:
        if url is not None or keys_file is not None:
            raise RunError("which receipt? give its file, or leave out --url and --keys-file to list what was answered")
        kept = read_ledger(device_folder or default_device_folder())
        emit(Facts(_ledger_document(kept), _ledger_in_words(kept)), as_json=as_json)
        return
    if (url is None) == (keys_file is None):
        raise RunError("who signed it? give --url, the collector's address, or as the organiser --keys-file")
    read = read_receipt(receipt.read_bytes())
    if keys_file is not None:
        if not read.is_signed_by(read_keys(keys_file)):
            raise ReportError(f"no key in {keys_file} signed {receipt}: it is altered, or another collector's")
        emit(Facts(read.document, [_signed_in_words(read)]), as_json=as_json)
    elif url is not None:
        _check_at(url, receipt, read, as_json=as_json)


def _signed_in_words(read: Receipt | WithdrawalReceipt) -> str:
    if isinstance(read, Receipt):
        return (
            f"The collector stored the report with SHA-256 {read.report_sha256} of node {read.node!a} "
            f"in campaign {read.campaign}, in the hour from {read.stored}."
        )
    return f"The collector deleted what node {read.node!a} sent in campaign {read.campaign}, as of {read.withdrawn}."


def _check_at(url: str, path: Path, read: Receipt | WithdrawalReceipt, *, as_json: bool) -> None:
    """Ask the collector whether it signed a receipt, and whether the report is stored now."""
    status = check_receipt(url, read.document)
    # A withdrawal receipt names no report: any that is stored contradicts it.
    kept = isinstance(read, Receipt) or status in ("withdrawn", "purged")
    document = {"signed": True, "status": status, "receipt": read.document}
    emit(Facts(document, [_STANDINGS[status] if kept else _WITHDRAWAL_UNDONE]), as_json=as_json)
    if not kept or status in ("missing", "another"):
        raise SendError(f"{path} is genuine, and the collector does not hold what it says (status '{status}')")


def _ledger_document(kept: Ledger) -> dict[str, Any]:
    answered = [
        {
            "campaign": one.campaign,
            "node": one.node,
            "epsilon_user_level": _rounded_up(one.epsilon),
            "relation_user_level": one.relation,
            "lists": None
            if one.list_cost is None
            else {key: json_epsilon(_rounded_up(value)) for key, value in one.list_cost._asdict().items()},
            "notices": [notice._asdict() for notice in one.notices],
        }
        for one in kept.entries
    ]
    return {
        "spent_user_level": json_epsilon(_rounded_up(kept.spent)),
        "relation_user_level": kept.relation,
        "spent_same_list": json_epsilon(_rounded_up(kept.spent_with_same_list)),
        "limit_user_level": None if kept.limit is None else float(kept.limit),
        "spent_one_entry": json_epsilon(_rounded_up(kept.spent_on_one_entry)),
        "limit_one_entry": None if kept.entry_limit is None else float(kept.entry_limit),
        "protects_lists": kept.protects_lists,
        "answered": answered,
    }


def _ledger_in_words(kept: Ledger) -> Iterator[str]:
    for one in kept.entries:
        yield f"Campaign {one.campaign}, as {quote(one.node)}. {_cost_in_words(one)}."
        for notice in one.notices[:1]:
            deleted = "" if notice.retention is None else f", to be deleted after {notice.retention}"
            yield f"  Agreed on {notice.seen} to notice {notice.version}, SHA-256 {notice.sha256}{deleted}."
            yield f"  Purpose: {quote(notice.purpose)}"
        if len(one.notices) > 1:
            yield f"  Seen since: notice {one.notices[-1].version}, on {one.notices[-1].seen}."
    yield sum_in_words(kept)


def _cost_in_words(one: Answered) -> str:
    """Say what a report costs, with every relation that it has."""
    if one.list_cost is None:
        return _epsilon_in_words(NeighbourRelation.USER_LEVEL, one.epsilon)
    costs = {ListRelation.ANY_LISTS: one.list_cost.any_lists, ListRelation.ONE_ENTRY: one.list_cost.one_entry}
    return "; ".join(_epsilon_in_words(relation, cost) for relation, cost in costs.items())


def sum_in_words(kept: Ledger) -> str:
    """Say what all reports cost together, what that is about, and of which limit."""
    total = _epsilon_in_words(NeighbourRelation.USER_LEVEL, kept.spent, among=kept.relation)
    of = "; you have set no limit" if kept.limit is None else f", of your limit of {float(kept.limit):g}"
    return f"Reports of this device so far: {len(kept.entries)}. {total} together{of}.{_lists_in_words(kept)}"


def _lists_in_words(kept: Ledger) -> str:
    """Say what all answers about the neighbour list cost together; nothing if there is none."""
    if not any(entry.list_cost for entry in kept.entries):
        return ""
    spent = _epsilon_in_words(ListRelation.ONE_ENTRY, kept.spent_on_one_entry)
    of = "" if kept.entry_limit is None else f", of your limit of {float(kept.entry_limit):g}"
    whole = "Whole lists are counted above." if kept.protects_lists else "Whole lists are not protected."
    return f" Your neighbour list: {spent[0].lower()}{spent[1:]}{of}. {whole}"


def _epsilon_in_words(relation: Relation, exact: Decimal, *, among: str | None = None) -> str:
    """Write an epsilon, rounded up, with its relation; a zero is 0.

    Args:
        relation: the relation.
        exact: the epsilon.
        among: the pairs that it protects from each other, if they are others than those of the relation.
    """
    shown = show_epsilon(_rounded_up(exact)) if exact else "0"
    return f"{relation.title.capitalize()}, {among or relation.value}: epsilon = {shown}"


def _rounded_up(exact: Decimal) -> float:
    return math.nextafter(float(exact), math.inf) if exact else 0.0


def default_device_folder() -> Path:
    """Return the folder in the person's home that keeps reports."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "veilgraph" / "reports"
