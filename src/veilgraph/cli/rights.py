"""`veilgraph withdraw`: a person takes back a report or objects before there is one, or the owner does so for them."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign.report import check_node
from veilgraph.cli._common import check_new, confirm_withdrawal
from veilgraph.cli.named_files import Place, administered
from veilgraph.cli.options import CollectorOption, JsonOption, StoreOption, YesOption, takes_groups
from veilgraph.cli.output import Facts, emit
from veilgraph.cli.receipt import DeviceFolder, default_device_folder
from veilgraph.client import withdraw as send_withdrawal
from veilgraph.errors import RunError
from veilgraph.privacy.plain_text import counted
from veilgraph.privacy.strict_json import canonical_json

_WHO = "give FOLDER and NODE as the owner of the collection, or NODE with --url and --token as the person"


@dataclass(frozen=True, kw_only=True)
class _OwnOptions:
    """What a person gives who withdraws."""

    url: CollectorOption | None = None
    token: Annotated[str | None, typer.Option(help="With --url: the node's token.", envvar="VEILGRAPH_TOKEN")] = None
    receipt: Annotated[Path | None, typer.Option(help="With --url: file to write the collector's receipt to.")] = None
    device_folder: DeviceFolder = None


@takes_groups
def withdraw(
    who: Annotated[
        list[str],
        typer.Argument(
            help="Your node, with --url. The owner: folder of the collection, and the person's node.",
            metavar="[FOLDER] NODE",
        ),
    ],
    own: _OwnOptions,
    objection: Annotated[
        bool,
        typer.Option("--objection", help="Owner: NODE has not answered, and objects: no report, no reminder."),
    ] = False,
    store: StoreOption = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Delete the reports of a person, who withdraws or objects: none of this node is stored or reminded again.

    The person does so with --url and their token. The owner, whom they ask, gives the folder of the collection.
    """
    if len(who) == 2 and own.url is None and own.receipt is None:
        emit(_for_a_person(Path(who[0]), who[1], store, objection=objection, yes=yes), as_json=as_json)
        return
    if len(who) != 1 or own.url is None or objection or store is not None:
        raise RunError(f"who withdraws is not clear: {_WHO}")
    if own.token is None:
        raise RunError("the token is missing: give --token, or VEILGRAPH_TOKEN")
    emit(_by_the_person(own.url, who[0], own.token, own, yes=yes), as_json=as_json)


def _by_the_person(url: str, node: str, token: str, own: _OwnOptions, *, yes: bool) -> Facts:
    receipt = own.receipt
    check_new(receipt, "--receipt")
    if not yes:
        confirm_withdrawal(node)
    confirmed = send_withdrawal(url, node, token, store=own.device_folder or default_device_folder())
    if receipt is not None:
        write_atomically(receipt, canonical_json(confirmed.document) + "\n")
    done = "is out of this campaign" if confirmed else "was out of this campaign before"
    status = "withdrawn" if confirmed else "withdrawn before"
    sentences = [
        f"Node {node} {done}, in the hour from {confirmed.withdrawn}: "
        "the collector has deleted what it held of it, and accepts no report.",
        "This device deletes the true answers that it kept for later rounds. What it drew first stays here, and its "
        "cost still counts: a report may have been read or copied before.",
        f"Receipt: {confirmed.signature}" if receipt is None else f"The receipt is in {receipt}.",
    ]
    return Facts({"node": node, "status": status, "receipt": confirmed.document}, sentences)


def _for_a_person(folder: Path, node: str, store: str | None, *, objection: bool, yes: bool) -> Facts:
    place, name = Place.at(folder), check_node(node)
    campaign = place.campaign
    if place.home is not None and name not in (*place.home.graph.names, *place.home.optional.names_joined):
        raise RunError(f"node {name!a} is not among the people of {folder}: check its name")
    with closing(administered(place.store(store))) as opened:
        if opened.reports.standing(campaign.series, name).value == "missing" and not objection:
            raise RunError(
                f"the store holds no report of node {name!a} in this campaign: check its name, and give "
                "--objection if the person has not answered and does not want to"
            )
        if not yes:
            confirm_withdrawal(name)
        _, is_new = opened.withdrawals.withdraw(campaign.series, name, now=time.time(), actor="owner")
        gone = {
            "withdrawals": opened.withdrawals.count(campaign.series),
            "objections": opened.withdrawals.objections(campaign.series),
        }
    total = f"{counted(gone['withdrawals'], 'withdrawal')} and {counted(gone['objections'], 'objection')}"
    sentences = [
        f"Node {name!a}: what was stored of it is deleted, and nothing is stored again. It is not reminded."
        if is_new
        else f"Node {name!a} withdrew or objected before.",
        f"The campaign has {total}. Models that were trained before hold what was withdrawn: train again.",
    ]
    return Facts({"node": name, "status": "withdrawn" if is_new else "withdrawn before", **gone}, sentences)
