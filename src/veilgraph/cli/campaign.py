"""`veilgraph campaign`: make, explain and check campaigns, and make their tokens."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

import typer

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign import Campaign
from veilgraph.campaign.acceptance import acceptance_in_words
from veilgraph.campaign.budget import CampaignBudget
from veilgraph.campaign.information_duties import missing_in_words, missing_information
from veilgraph.campaign.neighbours.next_wave import begin_series
from veilgraph.campaign.notice import Notice, missing_texts, read_time, time_in_words
from veilgraph.campaign.plan import CampaignPlan
from veilgraph.campaign.report import check_node
from veilgraph.campaign.tokens import new_key, read_keys, token_for
from veilgraph.cli._common import echo, needs_extra
from veilgraph.cli.campaign_facts import facts_of
from veilgraph.cli.options import CampaignArgument, JsonOption, takes_groups
from veilgraph.cli.output import Facts, emit
from veilgraph.cli.people import campaign_graph, counts_in_words, counts_of, looks_like_people, people_of
from veilgraph.client import verify
from veilgraph.errors import CampaignError, RunError
from veilgraph.graph import Graph
from veilgraph.graph.shards import read_graph
from veilgraph.graph.text_tables import write_text_table
from veilgraph.privacy.budget import RoundBudget
from veilgraph.privacy.plain_text import counted
from veilgraph.privacy.schema import FeatureSchema

campaign_app = typer.Typer(help="Make, explain and check campaigns, and make their tokens.")

_A_TIME = "2027-01-31 (the end of that day), or 2027-01-31T18:00:00, with an offset or in --zone"
Zone = Annotated[str, typer.Option(help="Time zone of dates and times without an offset, such as Europe/Berlin.")]
Nodes = Annotated[Path | None, typer.Option(help="Node table with a column 'id', if some nodes have no edge.")]

# Before every closing date: a closed campaign can be checked too.
_EARLIEST = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class _NoticeOptions:
    """What participants are told."""

    purpose: Annotated[str, typer.Option(help="Purpose of the reports, in words for participants.")]
    contact: Annotated[str, typer.Option(help="Contact for participants.")]
    closes: Annotated[str, typer.Option(help=f"Time until which reports are accepted: {_A_TIME}.")]


@dataclass(frozen=True, kw_only=True)
class _AskedOptions:
    """What is asked of whom, and what a report may reveal: by a plan, or by schema, graph and budget."""

    plan: Annotated[
        Path | None, typer.Option(help="A plan of 'veilgraph plan --out': schema, graph, mechanisms and label.")
    ] = None
    schema: Annotated[Path | None, typer.Option(help="Schema of the features and the label, .toml.")] = None
    graph: Annotated[Path | None, typer.Option(help="The public graph: edge table, .csv or .parquet.")] = None
    epsilon_x: Annotated[
        float | None, typer.Option(help="Budget of each sampled feature; without it, no features are collected.")
    ] = None
    sampled: Annotated[int | None, typer.Option(help="Number of features that each person samples.")] = None
    epsilon_y: Annotated[float | None, typer.Option(help="Budget of the label; without it, no label is collected.")] = (
        None
    )
    label: Annotated[str | None, typer.Option(help="Name of the label; default: 'label'.")] = None


@dataclass(frozen=True, kw_only=True)
class _SeriesOptions:
    """How often everything is asked."""

    rounds: Annotated[int | None, typer.Option(help="Make it a series: ask everything in this number of rounds.")] = (
        None
    )
    values: Annotated[
        int, typer.Option(help="Series: different values of a person that are answered, for each question.")
    ] = 2
    round_epsilon: Annotated[
        float | None,
        typer.Option(help="Series: budget of the label in a round's report; default: half of --epsilon-y."),
    ] = None
    round_epsilon_x: Annotated[
        float | None,
        typer.Option(help="Series: budget of a feature in a round's report; default: half of --epsilon-x."),
    ] = None

    @property
    def budget(self) -> RoundBudget:
        """The budget of the rounds."""
        return RoundBudget(**asdict(self))


@dataclass(frozen=True, kw_only=True)
class _NeighbourOptions:
    """Whether answers about private neighbours follow, and which."""

    private_neighbours: Annotated[
        bool,
        typer.Option(
            "--private-neighbours",
            help="Begin a series about private neighbours: the label alone; --graph is a table with the column id.",
        ),
    ] = False
    answer: Annotated[
        str | None,
        typer.Option(
            help="Private neighbours: the answer that follows: histogram, class or list.", show_default="histogram"
        ),
    ] = None

    @property
    def follows(self) -> str | None:
        """The answer that follows; None if none does."""
        if self.answer is not None and not self.private_neighbours:
            raise CampaignError("--answer is about private neighbours: give --private-neighbours, or leave it out")
        return (self.answer or "histogram") if self.private_neighbours else None


@dataclass(frozen=True, kw_only=True)
class _RetentionOptions:
    """When reports are deleted, and the zone of all times."""

    retention: Annotated[str | None, typer.Option(help=f"Time after which you delete the reports: {_A_TIME}.")] = None
    zone: Zone = "UTC"


@campaign_app.command()
@takes_groups
def new(
    notice: _NoticeOptions,
    out: Annotated[Path, typer.Option(help="The campaign file to write.")],
    asked: _AskedOptions,
    series: _SeriesOptions,
    about: _NeighbourOptions,
    times: _RetentionOptions,
    nodes: Nodes = None,
    as_json: JsonOption = False,
) -> None:
    """Write a campaign: everything that a device needs to answer. Its id is the hash of what reports are bound to."""
    if out.exists():
        raise CampaignError(f"{out} exists: choose another --out")
    follows = about.follows
    schema = None if asked.schema is None else FeatureSchema.load(asked.schema)
    said = Notice(
        purpose=notice.purpose,
        contact=notice.contact,
        closes=read_time(notice.closes, zone=times.zone),
        retention=_retention(times.retention, times.zone),
    )
    graph = None if asked.graph is None else read_graph(asked.graph, nodes=nodes)
    if asked.plan is not None:
        if follows is not None or not series.budget.asks_once:
            raise CampaignError(
                "a plan is for a single report: leave out --rounds and --private-neighbours, or the plan"
            )
        if nodes is not None and graph is None:
            raise CampaignError("--nodes needs --graph; the plan knows its graph: leave both out, or give both")
        made = _planned(asked.plan, asked, schema, graph, said)
    elif schema is None or graph is None:
        raise CampaignError("give --schema and --graph, or --plan with a plan of 'veilgraph plan --out'")
    else:
        budget = CampaignBudget(
            epsilon_x=asked.epsilon_x, sampled=asked.sampled, epsilon_y=asked.epsilon_y, rounds=series.budget
        )
        about_all: dict[str, Any] = {
            "schema": schema,
            "notice": said,
            "budget": budget,
            "label": asked.label or "label",
        }
        if follows is None:
            made = Campaign.new(graph=graph, **about_all)
        else:
            made = begin_series(people=graph, followed_by=_series_kind(follows), **about_all)
    if not made.is_open(datetime.now(UTC)):
        raise CampaignError(f"closes is {notice.closes}, which is in the past: give a later time")
    write_atomically(out, made.to_json() + "\n", public=True)
    if graph is not None and follows is None:
        _warn_of_missing_links(graph, asked.graph, nodes)
    _warn_of_missing_texts(made)
    counts = {"people": made.nodes} if graph is None else counts_of(graph)
    emit(Facts(facts_of(made) | counts, _made_in_words(made, counts, nodes, out, follows)), as_json=as_json)


def _planned(
    plan: Path, asked: _AskedOptions, schema: FeatureSchema | None, graph: Graph | None, said: Notice
) -> Campaign:
    """Return the campaign of a plan, which is for the schema, graph and label that are given too."""
    if any(given is not None for given in (asked.epsilon_x, asked.sampled, asked.epsilon_y)):
        raise CampaignError("the plan says how to spend epsilon: leave out --epsilon-x, --sampled and --epsilon-y")
    planned = CampaignPlan.from_json(plan.read_bytes())
    planned.check(schema=schema, graph=graph, label=asked.label)
    made = planned.campaign(said)
    return made if schema is None else replace(made, notice=replace(made.notice, texts=schema.texts))


def _made_in_words(
    made: Campaign, counts: Mapping[str, int], nodes: Path | None, out: Path, follows: str | None
) -> list[str]:
    lines = [
        f"Campaign {made.id}",
        *counts_in_words(counts, nodes),
        *made.asked.words.methods,
        *made.asked.words.guarantee_when_made,
        acceptance_in_words(made.guarantee),
        f"Open until {time_in_words(made.notice.closes)}. Written to {out}.",
    ]
    if follows is not None:
        lines.append(
            "It begins a series: serve it with --tables FOLDER, and open each wave with 'veilgraph open-round'."
        )
    return lines


def _retention(text: str | None, zone: str) -> datetime | None:
    return None if text is None else read_time(text, zone=zone, name="retention")


def _warn_of_missing_links(graph: Graph, path: Path | None, nodes: Path | None) -> None:
    """Say that a table has no links, or reads like one with a row for each person, if it does."""
    if not graph.num_edges:
        echo(
            f"warning: {path} has no links, so nothing is learned about a person from others: give such a table as "
            "--nodes, and the links as --graph",
            err=True,
        )
    if nodes is None and looks_like_people(graph):
        echo(
            f"warning: each link of {path} is the only one of one of its ends, as in a table with a row for each "
            "person: give such a table as --nodes, and the links as --graph",
            err=True,
        )


def _warn_of_missing_texts(made: Campaign) -> None:
    """Say which texts a language lacks, and which language people of all others see."""
    label = None if made.label_mechanism is None else made.label_name
    for language, missing in missing_texts(made.schema.texts, made.schema, label).items():
        more = f", and {len(missing) - 3} more" if len(missing) > 3 else ""
        echo(
            f"warning: texts.{language} lacks {'; '.join(missing[:3])}{more}: people see these as the schema has them",
            err=True,
        )
    if first := made.notice.document["language"]:
        echo(
            f"People whose language has no texts see those in '{first}', the campaign's first language. What it "
            "lacks is shown in the words of the schema.",
            err=True,
        )


def _series_kind(answer: str) -> Literal["waves", "lists"]:
    """Return what follows the first document of a series, which decides how the label is randomized."""
    if answer not in ("histogram", "class", "list"):
        raise CampaignError(f"answer is '{answer}': choose histogram, class or list")
    return "lists" if answer == "list" else "waves"


@campaign_app.command()
def show(campaign: CampaignArgument, as_json: JsonOption = False) -> None:
    """Explain a campaign in plain words: first the guarantee, last the organiser's texts, quoted."""
    read = _read(campaign)
    sentences = read.in_words(width=shutil.get_terminal_size().columns)
    emit(Facts(facts_of(read) | {"document": read.document}, sentences), as_json=as_json)


@campaign_app.command()
def check(
    campaign: CampaignArgument,
    graph: Annotated[
        Path | None, typer.Option(help="Also check that the campaign was made for this public graph.")
    ] = None,
    nodes: Nodes = None,
    as_json: JsonOption = False,
) -> None:
    """Check that a campaign is unaltered and that its tables give the guarantee that it states."""
    text = campaign.read_bytes()
    read = Campaign.from_json(text)
    # Check it again with the client, whose code is independent.
    verify(text, max_epsilon=float("inf"), now=_EARLIEST)
    if graph is not None:
        campaign_graph(read, graph, nodes)
    sentences = [
        f"Campaign {read.id} is unaltered, and its tables give what it states.",
        *read.asked.words.guarantee_in_brief,
        *([] if read.is_open(datetime.now(UTC)) else [f"It closed at {time_in_words(read.notice.closes)}."]),
        *missing_in_words(missing_information(read.notice.texts, read.notice.retention)),
    ]
    emit(Facts(facts_of(read), sentences), as_json=as_json)


@campaign_app.command()
def tokens(
    campaign: CampaignArgument,
    keys_file: Annotated[
        Path, typer.Option(help="File of secret keys, one per line; the first signs. With --new-key it is made.")
    ],
    out: Annotated[
        Path, typer.Option(help="Table of nodes and tokens to write. Secret: give each person only their own.")
    ],
    graph: Annotated[Path | None, typer.Option(help="Make tokens for every node of this edge table.")] = None,
    nodes: Annotated[
        Path | None,
        typer.Option(
            help="Make tokens for the column 'id' of this node table; with --graph, it has those without links."
        ),
    ] = None,
    make_key: Annotated[
        bool, typer.Option("--new-key", help="Make the file of keys, for a new campaign. It must not exist.")
    ] = False,
    url: Annotated[
        str | None, typer.Option(help="The collector's address; adds a link to the participant's page to each row.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a token for each node, which authorizes its owner to send a report."""
    read = _read(campaign)
    if out.exists():
        raise RunError(f"{out} exists: choose another --out")
    names, counts = people_of(read, graph, nodes)
    for name in names:
        check_node(name)
    if make_key:
        if keys_file.exists():
            raise RunError(f"{keys_file} exists: leave out --new-key to sign with its first key")
        write_atomically(keys_file, new_key() + "\n")
    elif not keys_file.exists():
        raise RunError(
            f"{keys_file} does not exist: correct its name, because tokens of another key open nothing; for a new "
            "campaign give --new-key, which makes it"
        )
    key = read_keys(keys_file)[0]
    write_atomically(out, _table([(name, token_for(key, read.series, name)) for name in names], url))
    sentences = [
        f"{counted(len(names), 'token')} written to {out}. Keep it and {keys_file} secret.",
        *counts_in_words(counts, nodes),
    ]
    emit(Facts({"campaign": read.id, "tokens": len(names), "out": str(out)} | counts, sentences), as_json=as_json)


@campaign_app.command()
def summary(
    campaign: CampaignArgument,
    out: Annotated[Path, typer.Option(help="The document to write: .html for the page, .md for a draft.")],
    template: Annotated[
        str, typer.Option(help="page, dpia (data-protection impact assessment) or consent (text for participants).")
    ] = "page",
    language: Annotated[str, typer.Option(help="Language of the campaign's own texts, where it has them.")] = "en",
    as_json: JsonOption = False,
) -> None:
    """Write one printable page for the person who signs, or a draft that is filled in from the campaign."""
    with needs_extra("collector"):
        from veilgraph.pages.campaign_summary import TEMPLATES, render_summary

    chosen = next((name for name in TEMPLATES if name == template), None)
    if chosen is None:
        raise RunError(f"template is '{template}': choose one of {', '.join(TEMPLATES)}")
    suffix = ".html" if chosen == "page" else ".md"
    if out.suffix != suffix:
        raise RunError(f"{out} does not end in {suffix}: the {chosen} is written as {suffix}")
    if out.exists():
        raise RunError(f"{out} exists: choose another --out")
    read = _read(campaign)
    write_atomically(out, render_summary(read, template=chosen, language=language), public=True)
    sentence = (
        f"Written to {out}: one page, which a browser prints on A4."
        if chosen == "page"
        else f"Written to {out}. Complete what stands in square brackets, and have it reviewed."
    )
    emit(Facts({"campaign": read.id, "template": chosen, "out": str(out)}, [sentence]), as_json=as_json)


def _table(rows: list[tuple[str, str]], url: str | None) -> str:
    if url is None:
        return write_text_table(["node", "token"], rows)
    # Browsers do not send the fragment, so the token appears in no server's log.
    page = f"{url.rstrip('/')}/#node="
    linked = ((node, token, f"{page}{quote(node, safe='')}&token={token}") for node, token in rows)
    return write_text_table(["node", "token", "link"], linked)


def _read(path: Path) -> Campaign:
    return Campaign.from_json(path.read_bytes())
