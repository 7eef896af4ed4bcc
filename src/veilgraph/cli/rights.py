"""`veilgraph withdraw` and `veilgraph receipt`: what a person can do beside sending a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign.receipt import Receipt, read_receipt
from veilgraph.cli._common import check_new, confirm_withdrawal
from veilgraph.cli.options import AttemptsOption, CollectorOption, JsonOption, YesOption
from veilgraph.cli.output import Facts, emit
from veilgraph.client import check_receipt
from veilgraph.client import withdraw as send_withdrawal
from veilgraph.errors import SendError
from veilgraph.privacy.strict_json import canonical_json

receipt_app = typer.Typer(help="Check receipts of reports and withdrawals.")

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


def withdraw(
    node: Annotated[str, typer.Argument(help="Your node in the public graph.", metavar="NODE")],
    url: CollectorOption,
    token: Annotated[str, typer.Option(help="The node's token.", envvar="VEILGRAPH_TOKEN")],
    receipt: Annotated[Path | None, typer.Option(help="File to write the collector's receipt to.")] = None,
    attempts: AttemptsOption = 8,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Withdraw your report, or object before there is one: the collector stores none of this node again."""
    check_new(receipt, "--receipt")
    if not yes:
        confirm_withdrawal(node)
    confirmed = send_withdrawal(url, node, token, attempts=attempts)
    if receipt is not None:
        write_atomically(receipt, canonical_json(confirmed.document) + "\n")
    done = "is out of this campaign" if confirmed else "was out of this campaign before"
    status = "withdrawn" if confirmed else "withdrawn before"
    sentences = [
        f"Node {node} {done}, in the hour from {confirmed.withdrawn}: "
        "the collector has deleted what it held of it, and accepts no report.",
        "What this device drew stays here, and its cost still counts: a report may have been read or copied before.",
        f"Receipt: {confirmed.signature}" if receipt is None else f"The receipt is in {receipt}.",
    ]
    emit(Facts({"node": node, "status": status, "receipt": confirmed.document}, sentences), as_json=as_json)


@receipt_app.command()
def check(
    receipt: Annotated[
        Path, typer.Argument(help="A receipt, or what `submit --json` printed, .json.", metavar="RECEIPT")
    ],
    url: CollectorOption,
    attempts: AttemptsOption = 8,
    as_json: JsonOption = False,
) -> None:
    """Ask the collector whether it signed a receipt, and whether the report is stored now."""
    read = read_receipt(receipt.read_bytes())
    status = check_receipt(url, read.document, attempts=attempts)
    # A withdrawal receipt names no report: any that is stored contradicts it.
    kept = isinstance(read, Receipt) or status in ("withdrawn", "purged")
    document = {"signed": True, "status": status, "receipt": read.document}
    emit(Facts(document, [_STANDINGS[status] if kept else _WITHDRAWAL_UNDONE]), as_json=as_json)
    if not kept or status in ("missing", "another"):
        raise SendError(f"{receipt} is genuine, and the collector does not hold what it says (status '{status}')")
