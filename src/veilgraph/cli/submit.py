"""`veilgraph submit`: hand reports over to the collector."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from veilgraph.cli.progress import show_progress
from veilgraph.client import send
from veilgraph.errors import RunError, SendError
from veilgraph.report import check_node


def submit(
    report: Annotated[list[Path], typer.Argument(help="Reports that `randomize` wrote.", metavar="REPORT...")],
    url: Annotated[str, typer.Option(help="The collector's address: https, or http on this machine.")],
    token: Annotated[
        str | None, typer.Option(help="The node's token, for one report.", envvar="VEILGRAPH_TOKEN")
    ] = None,
    tokens: Annotated[Path | None, typer.Option(help="Table with the columns node and token, for many.")] = None,
    attempts: Annotated[
        int, typer.Option(help="How often to try a collector that is busy or out of reach.", min=1)
    ] = 8,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Hand reports in; a busy or absent collector is tried again, and handing in twice changes nothing."""
    documents = [_read(path) for path in report]
    token_of = _tokens(documents, token, tokens)
    outcomes = []
    with show_progress("submit") as progress:
        for i, (path, document) in enumerate(zip(report, documents, strict=True)):
            progress(path.name, i, len(report))
            outcomes.append({"file": str(path), "node": document["node"]} | _send(url, document, token_of, attempts))
    if as_json:
        typer.echo(json.dumps(outcomes, indent=2))
    else:
        for outcome in outcomes:
            typer.echo(
                f"{outcome['node']}: {outcome['status']}{': ' + outcome['reason'] if 'reason' in outcome else ''}"
            )
    if failed := [outcome for outcome in outcomes if outcome["status"] == "failed"]:
        raise SendError(f"{len(failed)} of {len(outcomes)} reports were not accepted ({failed[0]['reason']})")


def _send(url: str, document: dict[str, Any], token_of: dict[str, str], attempts: int) -> dict[str, str]:
    try:
        stored = send(url, document, token_of[document["node"]], attempts=attempts)
    except SendError as error:
        return {"status": "failed", "reason": str(error)}
    return {"status": "stored" if stored else "stored before"}


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or set(document) != {"campaign", "node", "features", "label"}:
        raise RunError(f"{path} is not a report that 'randomize' wrote")
    check_node(document["node"])
    return document


def _tokens(documents: list[dict[str, Any]], token: str | None, table: Path | None) -> dict[str, str]:
    nodes: list[str] = [document["node"] for document in documents]
    if table is None:
        if token is None or len(nodes) != 1:
            raise RunError("give --token (or VEILGRAPH_TOKEN) with one report, or --tokens with several")
        return {nodes[0]: token}
    with table.open(encoding="utf-8", newline="") as file:
        rows = {row.get("node"): row.get("token") for row in csv.DictReader(file)}
    found = {node: held for node in nodes if (held := rows.get(node))}
    if missing := [node for node in nodes if node not in found]:
        raise RunError(f"{table} has no token for node {missing[0]}")
    return found
