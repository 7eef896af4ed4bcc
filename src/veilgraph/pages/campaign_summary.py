r"""A campaign on paper: one page for the person who signs it, and drafts of two documents that go with it.

The drafts are a data-protection impact assessment and a consent text. What a campaign states is filled in; what only
the organiser knows stands in square brackets.

An epsilon is also given as a guess. Someone who holds two records for equally likely before a report is right with
probability :math:`e^\epsilon / (1 + e^\epsilon)` at most afterwards.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal, get_args

import veilgraph
from veilgraph.campaign import Campaign
from veilgraph.campaign.notice import shown_answers, time_in_words
from veilgraph.errors import MissingExtraError
from veilgraph.pages.exposures import Exposure, series_exposures, series_steps
from veilgraph.privacy.epsilon import HistoryRelation, NeighbourRelation, add_epsilons, short_epsilon, state_epsilon
from veilgraph.privacy.plain_text import counted, escape

try:
    from jinja2 import Environment, FunctionLoader, StrictUndefined, select_autoescape
except ImportError:
    raise MissingExtraError("jinja2", "collector") from None

Template = Literal["page", "dpia", "consent"]
QuestionKind = Literal["label", "feature"]
TEMPLATES: tuple[Template, ...] = get_args(Template)
_FILES = {"page": "campaign_summary.html", "dpia": "campaign_dpia.md", "consent": "campaign_consent.md"}
NOT_COVERED = (
    "This bounds what a person’s own reports add. It does not bound what the reports of others tell: a class is "
    "computed from these for every person by name, also for those who do not take part or have withdrawn."
)
"""What no figure about a person's own reports covers."""
# More questions than these stand on a page of their own, so that the summary stays on one.
_QUESTIONS_ON_PAGE = 5
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~])")


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """A known deployment of differential privacy.

    Attributes:
        name: who uses it, and for what.
        epsilon: its published epsilon.
        unit: what the epsilon protects: the neighbour relation.
        model: "local" if devices randomize, "central" if a trusted server sees all records.
        source: where the figure is published.
    """

    name: str
    epsilon: float
    unit: str
    model: Literal["local", "central"]
    source: str


_APPLE = "Apple, Differential Privacy Overview (2017)"

DEPLOYMENTS = (
    Deployment(name="Apple, health types", epsilon=2.0, unit="one day of one user", model="local", source=_APPLE),
    Deployment(
        name="Google, community mobility",
        epsilon=2.64,
        unit="one day of one user",
        model="central",
        source="Aktay et al., arXiv 2004.04145 (2020)",
    ),
    Deployment(name="Apple, emoji", epsilon=4.0, unit="one day of one user", model="local", source=_APPLE),
    Deployment(
        name="Google, RAPPOR in Chrome",
        epsilon=4 * math.log(3),
        unit="one value of one user, reported for ever",
        model="local",
        source="Erlingsson et al., arXiv 1407.6981, Theorem 1 with f = 1/2 and h = 2 (2014)",
    ),
    Deployment(
        name="Apple, new words",
        epsilon=16.0,
        unit="one day of one user, two reports of 8",
        model="local",
        source=_APPLE,
    ),
    Deployment(
        name="US Census 2020, redistricting data",
        epsilon=19.61,
        unit="one person or household; delta = 1e-10",
        model="central",
        source="US Census Bureau, 9 June 2021",
    ),
)
"""Published epsilons, lowest first. Their units differ, so comparisons between them are rough."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question as the participant's page shows it.

    Attributes:
        text: the question, or the name of the column.
        help: explanation; empty if there is none.
        answers: possible answers.
        kind: "label" or "feature".
    """

    text: str
    help: str
    answers: Sequence[str]
    kind: QuestionKind


def render_summary(campaign: Campaign, *, template: Template = "page", language: str = "en") -> str:
    """Return a document about a campaign: HTML for "page", Markdown for "dpia" and "consent".

    Args:
        campaign: campaign of any format. Of a wave about private neighbours it is the whole series, up to this wave.
        template: which document.
        language: language of the campaign's own texts, where it has them; our own words are English.
    """
    environment = Environment(
        autoescape=select_autoescape(["html"]),
        finalize=None if template == "page" else _markdown,
        loader=FunctionLoader(_source),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(_FILES[template]).render(**_values(campaign, language))


def _values(campaign: Campaign, language: str) -> dict[str, Any]:
    texts = _texts(campaign, language)
    asked = list(questions(campaign, language))
    shown = asked if len(asked) <= _QUESTIONS_ON_PAGE else asked[: _QUESTIONS_ON_PAGE - 1]
    return {
        "campaign": campaign,
        "language": language,
        "purpose": texts.get("purpose", campaign.purpose),
        "contact": texts.get("contact", campaign.contact),
        "note": texts.get("note", campaign.schema.note),
        "closes": time_in_words(campaign.closes),
        "retention": None if campaign.retention is None else time_in_words(campaign.retention),
        "people": counted(campaign.nodes, "person", "people"),
        "questions": asked,
        "shown": shown,
        "hidden": len(asked) - len(shown),
        "waves": None if campaign.guarantee.series is None else campaign.guarantee.series.waves,
        "series": campaign.neighbours,
        "steps": []
        if campaign.neighbours is None
        else series_steps(campaign.neighbours, _label_text(campaign, language)),
        "published": published(campaign),
        "not_covered": NOT_COVERED,
        "methods": list(methods(campaign, language)),
        "leaving_out": _leaving_out(campaign, language),
        "exposures": exposures(campaign, language),
        "comparison": comparison(campaign),
        "sources": list(dict.fromkeys(each.source for each in DEPLOYMENTS)),
        "version": veilgraph.__version__,
    }


def _texts(campaign: Campaign, language: str) -> dict[str, Any]:
    """Return the campaign's texts in a language."""
    return dict(campaign.schema.texts.get(language, {}))


def questions(campaign: Campaign, language: str = "en") -> Iterator[Question]:
    """Yield the questions of a campaign, the label first, in the words that people see."""
    written, schema = _texts(campaign, language).get("questions", {}), campaign.schema
    named: list[tuple[str, Sequence[str], QuestionKind]]
    has_label = campaign.label_mechanism is not None or campaign.neighbours is not None
    named = [(campaign.label, schema.classes, "label")] if has_label else []
    if campaign.feature_mechanism is not None:
        named += [(column.name, column.code_names, "feature") for column in schema.columns]
    for name, values, kind in named:
        words = written.get(name, {})
        shown = shown_answers(schema.texts, name, values, language=language)
        answers = tuple(text.replace("..", " to ") if text in values else text for text in shown)
        yield Question(text=words.get("text", name), help=words.get("help", ""), answers=answers, kind=kind)


def methods(campaign: Campaign, language: str = "en") -> Iterator[str]:
    """Yield sentences that say how a device randomizes the answers."""
    label, features = campaign.label_mechanism, campaign.feature_mechanism
    if campaign.neighbours is not None:
        label = campaign.neighbours.label
    if label is not None:
        yield label.method_in_words(f"“{_label_text(campaign, language)}”")
    if campaign.neighbours is not None:
        yield campaign.neighbours.answer.method_in_words("the people in one's list")
        if campaign.neighbours.turns is not None:
            yield f"Each person answers one of {campaign.neighbours.turns} waves, which a hash of the id decides."
    if features is not None:
        yield features.method_in_words(
            counted(features.num_features, "question" if label is None else "other question")
        )


def _label_text(campaign: Campaign, language: str) -> str:
    return str(_texts(campaign, language).get("questions", {}).get(campaign.label, {}).get("text", campaign.label))


def exposures(campaign: Campaign, language: str = "en") -> list[Exposure]:
    """Return what the whole report, its parts and one answer reveal at most, with the relation of each epsilon."""
    if campaign.neighbours is not None:
        return series_exposures(campaign.neighbours)
    name = _label_text(campaign, language)
    guarantee, user = campaign.guarantee, str(NeighbourRelation.USER_LEVEL)
    whole, level = "The whole report", str(NeighbourRelation.ATTRIBUTE_LEVEL)
    if guarantee.series is not None:
        whole = f"All {guarantee.series.waves} reports together"
        user = f"{NeighbourRelation.USER_LEVEL.title} ({_any_two(campaign)})"
        level = level.replace("records", "histories")
    found = [Exposure.of(whole, guarantee.total_user_level, user)]
    if guarantee.label is not None and guarantee.features is not None:
        found.append(Exposure.of(f"The answer to “{name}” alone", guarantee.label_user_level, user))
        found.append(Exposure.of("All other answers together", guarantee.features_user_level, user))
    if guarantee.features is not None:
        part = "One of the other answers, for someone who knows all the rest"
        if guarantee.label is None:
            part = "One answer, for someone who knows all the rest"
        found.append(Exposure.of(part, max(guarantee.features.attribute_level), level))
    if guarantee.series is not None:
        part, never = f"The answers to “{name}”, if they never change", HistoryRelation.UNCHANGED.value
        if guarantee.features is not None:
            part, never = "All answers of all rounds, if none of them ever changes", never.replace("values", "records")
        found.append(Exposure.of(part, guarantee.series.total.unchanged, never))
    return found


def published(campaign: Campaign) -> list[str]:
    """Return what is published between the waves of a series about private neighbours; other campaigns publish none."""
    if campaign.neighbours is None:
        return []
    people = counted(campaign.nodes, "person", "people")
    if campaign.neighbours.asks_for_lists:
        return [
            f"Before the wave one file is published for everyone, whole: by it everyone can check whether an id is "
            f"among the {people}. Nothing else about them is published. What was published cannot be taken back."
        ]
    return [
        f"Before each wave two files are published for everyone, whole: one by which everyone can check whether an id "
        f"is among the {people}, and one that says for each of them what the reports so far make likely about their "
        "class.",
        "Everyone who reads the second sees by name who has taken part, and what was reported for them, changed at "
        "random as it was. It is computed from such reports alone, so the figures here hold for all who read it. "
        "What was published cannot be taken back.",
        "Both are given out whole, so that nobody learns whom a device looks up.",
    ]


def _any_two(campaign: Campaign) -> str:
    """Return the relation of the user level in words: the record of a series is a history."""
    if campaign.neighbours is not None:
        return "any two records with any two lists"
    return str((NeighbourRelation.USER_LEVEL if campaign.waves is None else HistoryRelation.ANY_HISTORIES).value)


def _leaving_out(campaign: Campaign, language: str) -> str:
    """Say which questions a person may leave out, and whether that shows; empty if the label alone is asked."""
    if campaign.feature_mechanism is None:
        return ""
    shows = (
        "" if campaign.label_mechanism is None else f", except for “{_label_text(campaign, language)}”, where it shows"
    )
    return f"A person may leave out any question, and nobody can tell{shows}."


def comparison(campaign: Campaign) -> list[dict[str, Any]]:
    """Return this campaign among the known deployments, ordered by epsilon."""
    total = campaign.guarantee.total_user_level
    own = [(total, f"all that one person reports: {_any_two(campaign)}")]
    if campaign.neighbours is not None:
        lists = campaign.guarantee.neighbours
        entry = 0.0 if lists is None else lists.total.one_entry
        unit = "all that one person reports: any two labels, and lists that differ in one entry"
        own.append((add_epsilons(campaign.guarantee.label_user_level, entry), unit))
    rows = [
        {
            "name": each.name,
            "value": each.epsilon,
            "epsilon": short_epsilon(each.epsilon) if each.epsilon == round(each.epsilon, 2) else f"{each.epsilon:.2f}",
            "unit": each.unit,
            "model": each.model,
            "own": False,
        }
        for each in DEPLOYMENTS
    ]
    rows += [
        {
            "name": "This campaign" if campaign.neighbours is None else "This series so far",
            "value": epsilon if math.isinf(epsilon) else state_epsilon(epsilon),
            "epsilon": Exposure.of("", epsilon, unit).epsilon,
            "unit": unit,
            "model": "local",
            "own": True,
        }
        for epsilon, unit in own
    ]
    return sorted(rows, key=lambda row: row["value"])


def _markdown(value: object) -> object:
    """Escape what Markdown would read as its own signs; texts of a campaign are shown as they are."""
    return _MARKDOWN.sub(r"\\\1", escape(value)) if isinstance(value, str) else value


def _source(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
