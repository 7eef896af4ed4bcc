"""`veilgraph fetch`, `randomize` and `submit`: draw a report on the person's own machine, and send it."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import typer

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign import Campaign
from veilgraph.campaign.report import check_node
from veilgraph.cli._common import echo, show_progress
from veilgraph.cli.options import CollectorOption, JsonOption, takes_groups
from veilgraph.cli.output import Facts, emit
from veilgraph.cli.receipt import DeviceFolder, default_device_folder, sum_in_words
from veilgraph.client import (
    DrawnReport,
    Fetched,
    Published,
    Receipt,
    answer,
    answer_neighbours,
    send,
    set_limit,
)
from veilgraph.client import fetch as fetch_published
from veilgraph.client import ledger as read_ledger
from veilgraph.client.campaign import read_campaign, read_question
from veilgraph.errors import GraphError, RunError, SendError
from veilgraph.graph.text_tables import from_cell, read_text, read_text_table
from veilgraph.privacy.plain_text import counted, quote
from veilgraph.privacy.strict_json import canonical_json, parse_json

T = TypeVar("T")


def fetch(
    url: CollectorOption,
    out: Annotated[
        Path, typer.Option(help="Folder for the campaign and all that is published for it; created if needed.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Get the campaign that is open, and all that is published for it, whole; nothing about you is sent."""
    with show_progress("fetch") as progress:
        found = fetch_published(url, out, progress=progress)
    place = found.question.asked.place
    document = {
        "id": found.question.id,
        "campaign": str(found.campaign),
        **{key: getattr(place, key, None) for key in ("series", "wave", "turns")},
        "table": None if found.table is None else str(found.table),
        "people": None if found.people is None else str(found.people),
    }
    emit(Facts(document, _fetched_in_words(found)), as_json=as_json)


def _fetched_in_words(found: Fetched) -> Iterator[str]:
    place = found.question.asked.place
    what = "Campaign" if place is None else f"Wave {place.wave} of series {place.series}: campaign"
    source = "--record record.json" if place is None else "--neighbours friends.txt"
    yield f"{what} {found.question.id} is in {found.campaign}; its id and its tables are in order."
    for path, content in ((found.table, "What is believed about everyone"), (found.people, "The file of people")):
        if path is not None:
            size = path.stat().st_size
            yield f"{content} is beside it, whole: {size:,} bytes, with the SHA-256 that it names."
    if place is not None and place.in_turns:
        turns = f"Each person answers one of {place.turns} waves"
        yield f"{turns}; if this one is not yours, 'randomize' says which one is."
    yield (
        f"Read it with 'veilgraph review {found.campaign}', and answer it with "
        f"'veilgraph randomize {found.campaign} {source} --node ID --out answer.json'."
    )


@dataclass(frozen=True, kw_only=True)
class _AnswerOptions:
    """Who answers, what they answer about, and where the report goes."""

    node: Annotated[str, typer.Option(help="The person's node in the public graph.")]
    out: Annotated[Path, typer.Option(help="The report file to write.")]
    record: Annotated[
        Path | None, typer.Option(help="The private record: a JSON object, or a row of a .csv table.")
    ] = None
    neighbours: Annotated[
        Path | None,
        typer.Option(
            help="For a wave about neighbours: their ids, one on each line, or a .csv table with the column id."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class _LimitOptions:
    """What a person accepts at most."""

    limit: Annotated[
        float | None,
        typer.Option(
            help="The largest epsilon that you accept for all reports in the store: user level (any two records; lists "
            "count where an answer protects whole lists). It is kept: later calls need not repeat it."
        ),
    ] = None
    entry_limit: Annotated[
        float | None,
        typer.Option(
            help="The largest epsilon that you accept for one entry of your neighbour list (two lists, one with a "
            "neighbour more), over all waves. It is kept. With it, answers that protect one entry alone are given."
        ),
    ] = None


@takes_groups
def randomize(
    campaign: Annotated[Path, typer.Argument(help="The campaign to answer, .json.", metavar="CAMPAIGN")],
    person: _AnswerOptions,
    limits: _LimitOptions,
    device_folder: DeviceFolder = None,
    shared_device: Annotated[
        bool,
        typer.Option("--shared-device", help="Another person answers a campaign that this device has answered."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Randomize a record with the operating system's randomness; a second call returns the same report."""
    folder = device_folder or default_device_folder()
    document = campaign.read_bytes()
    if (person.record is None) == (person.neighbours is None):
        raise RunError("give --record, or --neighbours for a wave about neighbours")
    if limits.limit is not None or limits.entry_limit is not None:
        set_limit(folder, limits.limit, entry_limit=limits.entry_limit)
    settings: dict[str, Any] = {"node": person.node, "store": folder, "shared_device": shared_device}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if person.record is not None:
            report = answer(document, _Record(person.record, person.node), **settings)
        else:
            friends = _Neighbours(cast(Path, person.neighbours))
            report = answer_neighbours(_published(campaign, document), friends, **settings)
    for warning in caught:
        echo(f"warning: {warning.message}", err=True)
    text = report.text + "\n"
    if person.out.exists() and person.out.read_bytes() != text.encode():
        raise RunError(f"{person.out} exists and holds something else: choose another --out")
    write_atomically(person.out, text)
    if report.unlisted:
        names = ", ".join(map(quote, report.unlisted))
        echo(
            f"Not among the people of the campaign, so that they add nothing to the answer: {names}. This is said here "
            "alone, and the answer stays as it is drawn; correct the list before the next wave.",
            err=True,
        )
    codes = report.get("label")
    sentences = [
        f"The report of {person.node} is in {person.out}; send it with 'submit'.",
        *(_set_in_words(Campaign.from_json(document), codes) if isinstance(codes, list) else []),
        sum_in_words(read_ledger(folder)),
    ]
    emit(Facts(report, sentences), as_json=as_json)


def _published(campaign: Path, document: bytes) -> Published:
    """Read the files that a wave about neighbours names, beside its document."""
    files = read_question(*read_campaign(document)).asked.files
    if not files:
        raise RunError(f"{campaign} does not ask about neighbours: give --record, or fetch the wave that is open")
    paths = {what: campaign.parent / file.name for what, file in files.items()}
    for path in paths.values():
        if not path.is_file():
            raise RunError(
                f"{path}, which wave {files['people'].wave} names, is not there: run 'veilgraph fetch', which puts "
                "what is published beside the campaign"
            )
    return Published(document, **{what: path.read_bytes() for what, path in paths.items()})


def _set_in_words(campaign: Campaign, codes: list[int]) -> list[str]:
    """Say which classes the report names, and what that means."""
    names = ", ".join(quote(campaign.schema.classes[code]) for code in codes)
    method = campaign.label_mechanism.method_in_words(quote(campaign.label_name)) if campaign.label_mechanism else ""
    return [f"{method} Nobody can tell from it which one is yours, or whether one is.", f"Named: {names}."]


class _Neighbours:
    """A neighbour list that is read from its file when it is gone through: after the wave was checked, or never."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[str]:
        if self._path.suffix == ".csv":
            yield from _readable(lambda: read_text_table(self._path).column("id", "it names the neighbours"))
        else:
            yield from (line.strip() for line in _readable(lambda: read_text(self._path)).splitlines() if line.strip())


class _Record(dict[str, Any]):
    """A record that is read from its file on first access: after the campaign was checked, or never."""

    def __init__(self, path: Path, node: str) -> None:
        super().__init__()
        self._path, self._node = path, node

    def __contains__(self, key: object) -> bool:
        if not self:
            self.update(_read(self._path, self._node))
        return super().__contains__(key)


def _read(path: Path, node: str) -> dict[str, Any]:
    return _readable(lambda: _row(path, node) if path.suffix == ".csv" else _json_object(path, read_text(path)))


def _readable(read: Callable[[], T]) -> T:
    """Read a private file; its errors name no cell, and the client lets this kind of error through."""
    try:
        return read()
    except GraphError as error:
        raise RunError(str(error)) from None


def _json_object(path: Path, text: str) -> dict[str, Any]:
    try:
        record = parse_json(text)
    except ValueError:
        record = None
    if not isinstance(record, dict) or not record:
        raise RunError(f"{path} is not a record: it must hold a JSON object with a value for each column")
    return record


def _row(path: Path, node: str) -> dict[str, Any]:
    """Return the only row, or the one whose `id` is the node; empty cells are missing values."""
    table = read_text_table(path)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    if "id" in table.columns:
        rows = [row for row in rows if row["id"] == node]
    if len(rows) != 1:
        raise RunError(f"{path} has {len(rows)} rows for node {node}: it must have 1 (a column 'id' names nodes)")
    return {name: value or None for name, value in rows[0].items()}


def submit(
    report: Annotated[list[Path], typer.Argument(help="Report files that `randomize` wrote.", metavar="REPORT...")],
    url: CollectorOption,
    token: Annotated[
        str | None, typer.Option(help="The node's token, for one report.", envvar="VEILGRAPH_TOKEN")
    ] = None,
    tokens: Annotated[
        Path | None, typer.Option(help="Table that 'veilgraph invite' wrote, with ids and tokens, for several reports.")
    ] = None,
    receipt: Annotated[
        Path | None, typer.Option(help="File to write the collector's receipt to, for one report.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Send although the collector holds a report: only this very one.")
    ] = False,
    device_folder: DeviceFolder = None,
    as_json: JsonOption = False,
) -> None:
    """Send reports to the collector, unless it holds one of the node. A busy collector is tried again."""
    if receipt is not None and len(report) > 1:
        raise RunError("--receipt is for one report: send them one by one, or take the receipts from --json")
    if receipt is not None and receipt.exists():
        raise RunError(f"{receipt} exists: choose another --receipt")
    folder = device_folder or default_device_folder()
    documents = [_read_document(path, folder) for path in report]
    token_of = _tokens(documents, token, tokens)
    deliver = functools.partial(send, url, again=again, store=folder)
    outcomes = []
    with show_progress("submit") as progress:
        for i, (path, document) in enumerate(zip(report, documents, strict=True)):
            progress(path.name, i, len(report))
            outcomes.append({"file": str(path), "node": document["node"]} | _send(deliver, document, token_of))
    if receipt is not None and "receipt" in outcomes[0]:
        write_atomically(receipt, canonical_json(outcomes[0]["receipt"]) + "\n")
    kept = [f"The receipt is in {receipt}."] if receipt is not None and receipt.exists() else []
    emit(Facts(outcomes, [*map(_in_words, outcomes), *kept]), as_json=as_json)
    if failed := [outcome for outcome in outcomes if outcome["status"] == "failed"]:
        raise SendError(f"not accepted: {len(failed)} of {counted(len(outcomes), 'report')} ({failed[0]['reason']})")


def _send(deliver: Callable[..., Receipt], document: DrawnReport, token_of: dict[str, str]) -> dict[str, Any]:
    try:
        receipt = deliver(document, token_of[document["node"]])
    except SendError as error:
        return {"status": "failed", "reason": str(error)}
    return {"status": "stored" if receipt.is_new else "stored before", "receipt": receipt.document}


def _in_words(outcome: dict[str, Any]) -> str:
    if "reason" in outcome:
        return f"{outcome['node']}: {outcome['status']}: {outcome['reason']}"
    receipt = outcome["receipt"]
    return (
        f"{outcome['node']}: {outcome['status']}, in the hour from {receipt['stored']}; "
        f"receipt {receipt['signature']} for the report with SHA-256 {receipt['report_sha256']}"
    )


def _read_document(path: Path, folder: Path) -> DrawnReport:
    """Read a report with the spaces after it, which give all reports of a campaign one length."""
    kinds = ({"campaign", "node", "features", "label"}, {"campaign", "node", "answer"})
    content = path.read_bytes()
    try:
        document = DrawnReport.read(content)
    except RunError:
        document = DrawnReport({}, 0)
    if set(document) - {"round"} not in kinds:
        raise RunError(f"{path} is not a report that 'randomize' wrote")
    check_node(document["node"])
    return DrawnReport.read(content, folder)


def _tokens(documents: list[DrawnReport], token: str | None, table: Path | None) -> dict[str, str]:
    nodes: list[str] = [document["node"] for document in documents]
    if table is None:
        if token is None or len(nodes) != 1:
            raise RunError("give --token (or VEILGRAPH_TOKEN) with one report, or --tokens with several")
        return {nodes[0]: token}
    held = read_text_table(table)
    columns = ([from_cell(cell) for cell in held.column(name, "it is no table of tokens")] for name in ("id", "token"))
    rows = dict(zip(*columns, strict=True))
    found = {node: rows[node] for node in nodes if node in rows}
    if missing := [node for node in nodes if node not in found]:
        raise RunError(f"{table} has no token for node {missing[0]}")
    return found
