"""`veilgraph init`: begin a collection in a folder, or take up what its owner changed."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilgraph.campaign.acceptance import acceptance_in_words
from veilgraph.campaign.information_duties import missing_in_words, missing_information
from veilgraph.campaign.notice import missing_texts, read_time, time_in_words
from veilgraph.campaign.plan import CampaignPlan
from veilgraph.cli._common import echo, needs_extra, show_progress
from veilgraph.cli.expected import Expected
from veilgraph.cli.options import CollectionArgument, JsonOption, takes_groups
from veilgraph.cli.options import Settings as SetOptions
from veilgraph.cli.output import emit
from veilgraph.cli.people import counts_in_words, counts_of, looks_like_people
from veilgraph.collection import Collection, Settings, begin, revise
from veilgraph.collection.begin import check, check_free
from veilgraph.collection.folder import CAMPAIGN
from veilgraph.collection.notice_file import languages_of
from veilgraph.collection.settings import read_settings
from veilgraph.errors import CampaignError, RunError
from veilgraph.graph import Graph, read_public
from veilgraph.privacy.epsilon import json_epsilon, state_epsilon
from veilgraph.privacy.plain_text import quote

if TYPE_CHECKING:
    from veilgraph.experiments.budget_planner import Plan


@dataclass(frozen=True, kw_only=True)
class _AskedOptions:
    """Who is asked what."""

    people: Annotated[
        Path | None,
        typer.Option(help="Table of the people, .csv or .parquet, with a column 'id'.", show_default="all in --links"),
    ] = None
    links: Annotated[
        Path | None, typer.Option(help="Table of who is linked with whom; its first two columns have ids.")
    ] = None
    question: Annotated[str | None, typer.Option(help="The question, such as 'Have you had the flu?'.")] = None
    answers: Annotated[
        list[str] | None, typer.Option("--answer", help="A possible answer; give it for each of them.")
    ] = None
    schema: Annotated[
        Path | None, typer.Option(help="Instead of --answer: answers as classes, and further questions, .toml.")
    ] = None
    epsilon: Annotated[
        float | None,
        typer.Option(help="Epsilon of all that a person answers, user level (any two records).", show_default="2"),
    ] = None
    plan: Annotated[
        Path | None,
        typer.Option(help="Instead of --answer, --schema and --epsilon: a plan of 'veilgraph plan', .json."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class _ToldOptions:
    """What people are told."""

    purpose: Annotated[str | None, typer.Option(help="Why you ask, in words for participants.")] = None
    contact: Annotated[str | None, typer.Option(help="Whom participants can ask.")] = None
    closes: Annotated[
        str | None, typer.Option(help="Last day of the collection, 2027-01-31, or a time, 2027-01-31T18:00:00.")
    ] = None
    retention: Annotated[str | None, typer.Option(help="Day after which you delete the reports.")] = None


@dataclass(frozen=True, kw_only=True)
class _Rare(SetOptions):
    """What fewer collections need."""

    contacts: Annotated[
        str | None,
        typer.Option(help="Instead of --links, if only people know their contacts: histogram, class or list."),
    ] = None
    languages: Annotated[
        list[str] | None, typer.Option(help="Languages of the texts, the question is in the first; default: en.")
    ] = None
    zone: Annotated[str | None, typer.Option(help="Time zone of dates, such as Europe/Berlin; default: UTC.")] = None
    rounds: Annotated[int | None, typer.Option(help="Number of times that the same is asked.")] = None
    values: Annotated[int | None, typer.Option(help="Rounds: different values of a person; default: 2.")] = None
    epsilon_y: Annotated[float | None, typer.Option(help="Epsilon of the question, instead of --epsilon.")] = None
    epsilon_x: Annotated[float | None, typer.Option(help="Epsilon of each sampled further question.")] = None
    sampled: Annotated[int | None, typer.Option(help="Number of further questions that a device samples.")] = None
    round_epsilon: Annotated[
        float | None, typer.Option(help="Rounds: epsilon of the question in one report; default: half.")
    ] = None
    round_epsilon_x: Annotated[
        float | None, typer.Option(help="Rounds: epsilon of a further question in one report; default: half.")
    ] = None


@takes_groups
def init(
    folder: CollectionArgument,
    asked: _AskedOptions,
    told: _ToldOptions,
    rare: _Rare,
    file: Annotated[
        Path | None, typer.Option("--from", help="The same answers in a file, .toml; options come before it.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Begin a collection in a folder. On a folder that has one, take up what you changed in its notice.toml."""
    given = {name: value for name, value in (asdict(asked) | asdict(told) | asdict(rare)).items() if value is not None}
    if given.keys() & {"epsilon", "plan"} and given.keys() & {"epsilon_x", "epsilon_y", "sampled"}:
        raise RunError("the epsilon is given twice: leave out --epsilon, or --set epsilon_y and the others like it")
    if (folder / CAMPAIGN).is_file():
        emit(_taken_up(folder, given, file), as_json=as_json)
        return
    check_free(folder)
    said = ({} if file is None else read_settings(file)) | {
        name: tuple(value) if isinstance(value, list) else value for name, value in given.items()
    }
    settings = Settings.make(said if file or not sys.stdin.isatty() else _completed(said))
    graph = settings.read_graph()
    _check_links(settings, graph)
    check(settings, graph)
    plan, spent = _plan(settings, graph), settings.read_plan()
    if spent is not None:
        spent.check(graph=graph, label=settings.question)
    if plan is not None:
        best, schema = plan.recommended, settings.read_schema()
        spent = CampaignPlan.new(
            schema=schema if best.features else schema.label_alone,
            graph=graph,
            label=settings.question,
            feature_mechanism=best.features,
            label_mechanism=best.label,
        )
    collection = begin(folder, settings, graph, plan=spent)
    left_out = set(settings.read_schema().columns).difference(collection.campaign.schema.columns)
    unasked = tuple(sorted(column.name for column in left_out))
    expected = None if plan is None else _expected(plan, collection)
    emit(Standing(collection, expected, settings.languages, unasked=unasked), as_json=as_json)


def _expected(plan: Plan, collection: Collection) -> Expected:
    """Return what to expect of a plan; public columns say how closely something follows the links."""
    with needs_extra("lab"):
        from veilgraph.experiments.budget_planner import UNKNOWN
        from veilgraph.experiments.stand_ins import stand_ins

    graph = collection.graph
    public = read_public(collection.campaign.schema.public, collection.people_file, graph)
    return Expected(plan, UNKNOWN.label_share, tuple(stand_ins(graph, public)))


def _plan(settings: Settings, graph: Graph) -> Plan | None:
    """Return how an epsilon is best spent on a question that is asked once on known links, and what to expect."""
    if settings.links is None or settings.plan or settings.rounds or settings.budget:
        return None
    with needs_extra("lab"):
        from veilgraph.experiments.budget_planner import Beliefs, plan_collection

    schema = settings.read_schema()
    beliefs = Beliefs(public=read_public(schema.public, settings.people, graph))
    with show_progress("init") as progress:
        return plan_collection(graph, schema, total_epsilon=settings.epsilon, beliefs=beliefs, progress=progress)


def _check_links(settings: Settings, graph: Graph) -> None:
    """Refuse a table that has no links, and warn of one that reads like a table with a row for each person."""
    if settings.links is None:
        return
    if not graph.num_edges:
        raise RunError(
            f"{settings.links} has no links: give such a table as --people, and the links as --links, or --set "
            "contacts=... if only people know theirs"
        )
    if settings.people is None and looks_like_people(graph):
        echo(
            f"warning: each link of {settings.links} is the only one of one of its ends, as in a table with a row for "
            "each person: give such a table as --people, and the links as --links",
            err=True,
        )


_QUESTIONS = {
    "people": "Table of the people (.csv or .parquet, with a column 'id')",
    "links": "Table of links (its first two columns have ids)",
    "question": "Question",
    "answers": "Possible answers, separated by semicolons",
    "purpose": "Why do you ask, in words for participants",
    "contact": "Whom can participants ask",
    "closes": "Last day, such as 2027-01-31",
}


def _completed(said: dict[str, Any]) -> dict[str, Any]:
    """Ask at the terminal for what is missing."""
    whole = dict(said)
    for name, question in _QUESTIONS.items():
        instead = {"answers": ("schema", "plan"), "links": ("contacts",), "question": ("plan",)}.get(name, ())
        if name in said or said.keys() & set(instead):
            continue
        whole[name] = typer.prompt(question, err=True, value_proc=partial(_read_answer, name))
    return whole


def _read_answer(name: str, typed: str) -> Any:
    """Read what was typed; what cannot be is asked again."""
    answer = typed.strip()
    if name == "answers":
        return tuple(part.strip() for part in answer.split(";") if part.strip())
    if name in ("people", "links"):
        if not Path(answer).is_file():
            raise typer.BadParameter(f"there is no file {answer}: give a path from {Path.cwd()}")
        return Path(answer)
    if name == "closes":
        try:
            read_time(answer)
        except CampaignError as error:
            raise typer.BadParameter(str(error)) from None
    return answer


def _taken_up(folder: Path, given: dict[str, Any], file: Path | None) -> Standing:
    """Take up a changed notice; refuse options, which could contradict what reports are bound to."""
    if given or file is not None:
        first = "from" if file is not None else next(iter(given)).replace("_", "-")
        raise RunError(
            f"{folder} has a collection, and reports are bound to what it asks: leave --{first} out and edit "
            f"{folder / 'notice.toml'}, or begin another collection"
        )
    collection = Collection.open(folder)
    revised = revise(collection)
    languages = languages_of(collection.notice_file)
    return Standing(Collection.open(folder), None, languages, changed=revised is not None)


@dataclass(frozen=True)
class Standing:
    """A collection that was begun, or whose notice was taken up.

    Attributes:
        collection: the collection.
        expected: the plan that spends its epsilon, and what it lets expect; None if there is none.
        languages: languages of its texts.
        changed: whether a changed notice was taken up; None for a new collection.
        unasked: columns of the owner's schema that are not asked.
    """

    collection: Collection
    expected: Expected | None
    languages: tuple[str, ...]
    changed: bool | None = None
    unasked: tuple[str, ...] = ()

    @property
    def document(self) -> dict[str, Any]:
        """The collection as JSON-ready values, with what to expect and the next command."""
        campaign = self.collection.campaign
        unknown = dict.fromkeys(("expected_accuracy", "largest_class", "by_assortativity", "public_columns"))
        return {
            "folder": str(self.collection.folder),
            "campaign": campaign.id,
            "notice": campaign.notice.version,
            **counts_of(self.collection.graph),
            "epsilon_user_level": json_epsilon(state_epsilon(campaign.guarantee.total_user_level)),
            "guarantee": campaign.guarantee.as_dict(),
            **(unknown if self.expected is None else self.expected.document),
            "not_asked": list(self.unasked),
            "missing_texts": self._missing,
            "missing_information": self._untold,
            "next": self._next,
        }

    @property
    def sentences(self) -> Iterator[str]:
        """The collection in words, and the next command."""
        campaign, folder = self.collection.campaign, self.collection.folder
        if self.changed:
            yield (
                f"Notice {campaign.notice.version} is taken up. It is the same collection: who has answered is not "
                "asked again. To ask everybody anew, begin one in another folder with 'veilgraph init'."
            )
        elif self.changed is not None:
            yield "Nothing changed."
        yield f"{folder}: {counts_in_words(counts_of(self.collection.graph))}"
        yield f"Question: {quote(campaign.label_name)}, open until {time_in_words(campaign.notice.closes)}."
        if self.unasked:
            questions = ", ".join(map(quote, self.unasked))
            yield f"Not asked: {questions}. All of the epsilon is for the question, from which most can be learned."
        yield from campaign.public_in_words
        yield from campaign.asked.words.guarantee_in_brief
        yield acceptance_in_words(campaign.guarantee)
        if self.expected is not None:
            yield from self.expected.sentences
        for language, missing in self._missing.items():
            yield f"Texts in '{language}' lack {'; '.join(missing)}: fill them in in {self.collection.notice_file}."
        for sentence in missing_in_words(self._untold):
            yield f"{sentence} Write it into {self.collection.notice_file}."
        yield f"Next: {self._next}"

    @property
    def _untold(self) -> list[str]:
        notice = self.collection.campaign.notice
        return missing_information(notice.texts, notice.retention)

    @property
    def _missing(self) -> dict[str, list[str]]:
        schema = self.collection.campaign.schema
        texts = {language: schema.texts.get(language, {}) for language in self.languages}
        return missing_texts(texts, schema, self.collection.campaign.label_name)

    @property
    def _next(self) -> str:
        return f"veilgraph rehearse {shlex.quote(str(self.collection.folder))}"
