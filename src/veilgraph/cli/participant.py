"""`veilgraph fetch`, `randomize`, `submit` and `ledger`: draw a report on the person's own machine, send it, add up."""

from __future__ import annotations

import functools
import math
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign import Campaign
from veilgraph.campaign.report import check_node
from veilgraph.cli._common import echo, show_progress
from veilgraph.cli.options import AttemptsOption, CollectorOption, JsonOption, takes_groups
from veilgraph.cli.output import Facts, emit
from veilgraph.client import (
    Answered,
    DrawnReport,
    Fetched,
    Ledger,
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
from veilgraph.privacy.epsilon import ListRelation, NeighbourRelation, Relation, json_epsilon, show_epsilon
from veilgraph.privacy.plain_text import counted, quote
from veilgraph.privacy.strict_json import canonical_json, parse_json

T = TypeVar("T")

DeviceFolder = Annotated[
    Path | None, typer.Option(help="Folder that keeps reports, so that none is drawn twice; default: in your home.")
]


def fetch(
    url: CollectorOption,
    out: Annotated[
        Path, typer.Option(help="Folder for the campaign and all that is published for it; created if needed.")
    ],
    attempts: AttemptsOption = 8,
    as_json: JsonOption = False,
) -> None:
    """Get the campaign that is open, and all that is published for it, whole; nothing about you is sent."""
    with show_progress("fetch") as progress:
        found = fetch_published(url, out, attempts=attempts, progress=progress)
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
        f"Read it with 'veilgraph campaign show {found.campaign}', and answer it with "
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
class _PublishedOptions:
    """Files that a wave about neighbours names."""

    table: Annotated[
        Path | None,
        typer.Option(
            help="For a wave about neighbours: the published belief table, if it has one; default: beside it."
        ),
    ] = None
    people: Annotated[
        Path | None, typer.Option(help="For a wave about neighbours: the published file of people; default: beside it.")
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
    max_epsilon: Annotated[
        float | None, typer.Option(help="The same for this call alone; it never raises the limit that is kept.")
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
    published: _PublishedOptions,
    limits: _LimitOptions,
    store: DeviceFolder = None,
    shared_device: Annotated[
        bool,
        typer.Option("--shared-device", help="Another person answers a campaign that this device has answered."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Randomize a record with the operating system's randomness; a second call returns the same report."""
    folder = store or _default_store()
    document = campaign.read_bytes()
    if (person.record is None) == (person.neighbours is None):
        raise RunError("give --record, or --neighbours for a wave about neighbours")
    if limits.limit is not None or limits.entry_limit is not None:
        set_limit(folder, limits.limit, entry_limit=limits.entry_limit)
    settings: dict[str, Any] = {"node": person.node, "store": folder, "max_epsilon": limits.max_epsilon}
    settings["shared_device"] = shared_device
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if person.record is not None:
            report = answer(document, _Record(person.record, person.node), **settings)
        elif person.neighbours is not None:
            wave = _published(campaign, document, published)
            report = answer_neighbours(wave, _Neighbours(person.neighbours), **settings)
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
        _sum_in_words(read_ledger(folder), limits.max_epsilon),
    ]
    emit(Facts(report, sentences), as_json=as_json)


def _published(campaign: Path, document: bytes, given: _PublishedOptions) -> Published:
    """Read the files that a wave about neighbours names: those that are given, or those beside its document."""
    files = read_question(*read_campaign(document)).asked.files
    if not files:
        raise RunError(f"{campaign} does not ask about neighbours: give --record, or fetch the wave that is open")
    paths = {what: getattr(given, what) or campaign.parent / file.name for what, file in files.items()}
    if given.table is not None:
        paths["table"] = given.table  # one that the wave does not have is refused
    for path in paths.values():
        if not path.is_file():
            raise RunError(
                f"{path}, which wave {files['people'].wave} names, is not there: run 'veilgraph fetch', which takes "
                "what is published, or say where it is (--table, --people)"
            )
    return Published(document, **{what: path.read_bytes() for what, path in paths.items()})


def _sum_in_words(kept: Ledger, max_epsilon: float | None = None) -> str:
    """Say what all reports cost together, what that is about, and of which limit."""
    total = _epsilon_in_words(NeighbourRelation.USER_LEVEL, kept.spent, among=kept.relation)
    limits = [float(limit) for limit in (kept.limit, max_epsilon) if limit is not None]
    of = f", of your limit of {min(limits):g}" if limits else "; you have set no limit"
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


def ledger(
    store: DeviceFolder = None,
    limit: Annotated[
        float | None,
        typer.Option(
            help="Set the largest epsilon that you accept for all reports: user level (any two records; lists count "
            "where an answer protects whole lists)."
        ),
    ] = None,
    entry_limit: Annotated[
        float | None,
        typer.Option(
            help="Set the largest epsilon that you accept for one entry of your neighbour list: two lists, one with a "
            "neighbour more."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List everything that this device has answered, what it cost, and your limit."""
    folder = store or _default_store()
    if limit is not None or entry_limit is not None:
        set_limit(folder, limit, entry_limit=entry_limit)
    kept = read_ledger(folder)
    emit(Facts(_ledger_document(kept), _ledger_in_words(kept)), as_json=as_json)


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
    yield _sum_in_words(kept)


def _cost_in_words(one: Answered) -> str:
    """Say what a report costs, with every relation that it has."""
    if one.list_cost is None:
        return _epsilon_in_words(NeighbourRelation.USER_LEVEL, one.epsilon)
    costs = {ListRelation.ANY_LISTS: one.list_cost.any_lists, ListRelation.ONE_ENTRY: one.list_cost.one_entry}
    return "; ".join(_epsilon_in_words(relation, cost) for relation, cost in costs.items())


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


def _default_store() -> Path:
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "veilgraph" / "reports"


def submit(
    report: Annotated[list[Path], typer.Argument(help="Report files that `randomize` wrote.", metavar="REPORT...")],
    url: CollectorOption,
    token: Annotated[
        str | None, typer.Option(help="The node's token, for one report.", envvar="VEILGRAPH_TOKEN")
    ] = None,
    tokens: Annotated[
        Path | None, typer.Option(help="Table with the columns node and token, for several reports.")
    ] = None,
    receipt: Annotated[
        Path | None, typer.Option(help="File to write the collector's receipt to, for one report.")
    ] = None,
    attempts: AttemptsOption = 8,
    again: Annotated[
        bool, typer.Option("--again", help="Send although the collector holds a report: only this very one.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Send reports to the collector, unless it holds one of the node. A busy collector is tried again."""
    if receipt is not None and len(report) > 1:
        raise RunError("--receipt is for one report: send them one by one, or take the receipts from --json")
    if receipt is not None and receipt.exists():
        raise RunError(f"{receipt} exists: choose another --receipt")
    documents = [_read_document(path) for path in report]
    token_of = _tokens(documents, token, tokens)
    deliver = functools.partial(send, url, again=again, attempts=attempts)
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


def _read_document(path: Path) -> DrawnReport:
    """Read a report with the spaces after it, which give all reports of a campaign one length."""
    kinds = ({"campaign", "node", "features", "label"}, {"campaign", "node", "answer"})
    try:
        document = DrawnReport.read(path.read_bytes())
    except RunError:
        document = DrawnReport({}, 0)
    if set(document) - {"round"} not in kinds:
        raise RunError(f"{path} is not a report that 'randomize' wrote")
    check_node(document["node"])
    return document


def _tokens(documents: list[DrawnReport], token: str | None, table: Path | None) -> dict[str, str]:
    nodes: list[str] = [document["node"] for document in documents]
    if table is None:
        if token is None or len(nodes) != 1:
            raise RunError("give --token (or VEILGRAPH_TOKEN) with one report, or --tokens with several")
        return {nodes[0]: token}
    held = read_text_table(table)
    columns = (
        [from_cell(cell) for cell in held.column(name, "it is no table of tokens")] for name in ("node", "token")
    )
    rows = dict(zip(*columns, strict=True))
    found = {node: rows[node] for node in nodes if node in rows}
    if missing := [node for node in nodes if node not in found]:
        raise RunError(f"{table} has no token for node {missing[0]}")
    return found
