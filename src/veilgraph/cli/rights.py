"""`veilgraph withdraw`: a person takes back a report, or objects before there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veilgraph.atomic_files import write_atomically
from veilgraph.cli._common import check_new, confirm_withdrawal
from veilgraph.cli.options import AttemptsOption, CollectorOption, JsonOption, YesOption
from veilgraph.cli.output import Facts, emit
from veilgraph.client import Patience
from veilgraph.client import withdraw as send_withdrawal
from veilgraph.privacy.strict_json import canonical_json


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
    confirmed = send_withdrawal(url, node, token, patience=Patience(attempts=attempts))
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
