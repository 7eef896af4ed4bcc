"""`veilgraph review`: everything that is checked before people are asked, and whether a page is the published one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from veilgraph.campaign.assemble import check_graph
from veilgraph.campaign.information_duties import missing_in_words, missing_information
from veilgraph.campaign.notice import time_in_words
from veilgraph.cli._common import check_new, needs_extra
from veilgraph.cli.campaign_facts import facts_of
from veilgraph.cli.named_files import Place
from veilgraph.cli.options import JsonOption
from veilgraph.cli.output import Facts, emit
from veilgraph.cli.people import campaign_graph
from veilgraph.client import verify
from veilgraph.errors import RunError
from veilgraph.graph import read_table
from veilgraph.privacy.plain_text import counted
from veilgraph.privacy.public_columns import public_document
from veilgraph.privacy.schema import FeatureSchema, propose_schema

# Before every closing date: a closed campaign can be checked too.
_EARLIEST = datetime(1, 1, 1, tzinfo=UTC)


def review(
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="Folder of the collection; or its campaign, .json; a schema, .toml; or PUBLIC sample data, .csv or "
            ".parquet, from which --out gets the draft of a schema.",
            metavar="FOLDER",
        ),
    ] = None,
    page: Annotated[
        str | None, typer.Option(help="Address of a participant's page: is it the page of this version?")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the documents to sign, default: 'review' in FOLDER; of a draft, the schema."),
    ] = None,
    label: Annotated[str | None, typer.Option(help="Of sample data: the column that holds the class.")] = None,
    graph: Annotated[
        Path | None, typer.Option(help="Without FOLDER: check that the campaign is for this public graph.")
    ] = None,
    nodes: Annotated[
        Path | None, typer.Option(help="With --graph: node table with a column 'id', for nodes without edges.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check a collection, explain it, and write what is signed: summary, consent text and impact assessment.

    The guarantee is computed again from the integers that decide reports, by two implementations. A draft that is there
    stays as you completed it; each version of the notice has its own.
    """
    if folder is None and page is None:
        raise RunError("nothing to review: give FOLDER, or --page with the address of a participant's page")
    if label is not None:
        emit(_draft(folder, label, out), as_json=as_json)
        return
    if folder is not None and folder.suffix == ".toml":
        emit(_schema(FeatureSchema.load(folder)), as_json=as_json)
        return
    reviewed: dict[str, Any] = {}
    sentences: list[str] = []
    if folder is not None:
        document, said = _reviewed(folder, out, graph, nodes)
        reviewed |= document
        sentences += said
    differences = None if page is None else _compared(page)
    if differences is not None:
        reviewed["page"] = {"address": page, "differences": differences}
        sentences += [*differences, _VERDICTS[bool(differences)]]
    emit(Facts(reviewed, sentences), as_json=as_json)
    if differences:
        raise RunError(f"{page} is not the page of this version of veilgraph: do not answer there before you know why")


_VERDICTS = {
    False: "The page is that of this version of veilgraph, file by file, as it was sent to this machine.",
    True: "Compare with the SHA256SUMS of the version that the organisers say they run.",
}


def _compared(page: str) -> list[str]:
    with needs_extra("collector"):
        from veilgraph.collector.page_hashes import compare_page

    return compare_page(page)


def _reviewed(
    folder: Path, out: Path | None, graph: Path | None, nodes: Path | None
) -> tuple[dict[str, Any], list[str]]:
    """Check a collection and write its documents; return what was found, as JSON-ready values and in words."""
    place = Place.at(folder)
    campaign = place.campaign
    # Check it again with the client, whose code is independent.
    verify(place.document.path.read_bytes(), max_epsilon=float("inf"), now=_EARLIEST)
    if place.home is not None:
        if graph is not None or nodes is not None:
            raise RunError(f"{folder} has its graph: leave --graph and --nodes out")
        out = out or folder / "review"
        check_graph(campaign, place.home.graph)
    elif graph is not None:
        campaign_graph(campaign, graph, nodes)
    document = facts_of(campaign) | {"document": campaign.document}
    sentences = [
        f"Campaign {campaign.id} is unaltered, and its tables give what it states.",
        *([] if campaign.is_open(datetime.now(UTC)) else [f"It closed at {time_in_words(campaign.notice.closes)}."]),
        *missing_in_words(missing_information(campaign.notice.texts, campaign.notice.retention)),
        "",
        *campaign.in_words(width=shutil.get_terminal_size().columns),
    ]
    if out is not None:
        with needs_extra("collector"):
            from veilgraph.collection.drafts import write_drafts

        drafts = write_drafts(campaign, out)
        document |= {"written": [str(path) for path in drafts.written], "kept": [str(path) for path in drafts.kept]}
        sentences += [
            "",
            f"To sign: {', '.join(map(str, drafts.written))}. Complete what stands in square brackets.",
            *([f"Kept, as you may have completed them: {', '.join(map(str, drafts.kept))}."] if drafts.kept else []),
        ]
    return document, sentences


def _draft(sample: Path | None, label: str, out: Path | None) -> Facts:
    """Draft a schema from public sample data, for a person to review."""
    if sample is None or out is None:
        raise RunError("a schema is drafted from PUBLIC sample data: give its file, and --out for the schema")
    check_new(out)
    draft = propose_schema(read_table(sample).drop(columns="id", errors="ignore"), label=label)
    draft.save(out)
    shown = _schema(draft)
    return Facts(shown.document, [*shown.sentences, f"Written to {out}."])


def _schema(schema: FeatureSchema) -> Facts:
    features = dict(zip(schema.feature_names, schema.code_names, strict=True))
    document = {"classes": schema.classes, "features": features, "note": schema.note}
    document["public"] = public_document(schema.public)
    return Facts(document, _schema_in_words(schema))


def _schema_in_words(schema: FeatureSchema) -> Iterator[str]:
    asked = counted(schema.num_features, "feature") if schema.num_features else "The label alone"
    yield f"{asked}, {counted(schema.num_classes, 'class', 'classes')}: {', '.join(schema.classes)}"
    for name, codes in zip(schema.feature_names, schema.code_names, strict=True):
        yield f"  {name}: {', '.join(codes)}"
    if schema.public:
        yield f"Public, never asked: {', '.join(column.name for column in schema.public)}"
    if schema.note:
        yield schema.note
