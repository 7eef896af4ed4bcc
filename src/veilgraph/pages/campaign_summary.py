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
from veilgraph.campaign.asked_words import Exposure
from veilgraph.campaign.information_duties import DUTIES, information
from veilgraph.campaign.notice import shown_answers, time_in_words
from veilgraph.errors import MissingExtraError
from veilgraph.pages.spoken import spoken
from veilgraph.privacy.epsilon import short_epsilon, state_epsilon
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
        language: language of the campaign's own texts, where it has them. Summary and consent text are in this
            language as a whole, if the participants' page speaks it. The impact assessment speaks English around them.
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
    return environment.get_template(_file(campaign, template, language)).render(**_values(campaign, language))


def _file(campaign: Campaign, template: Template, language: str) -> str:
    """Return the file of a document: the consent text has one for each language."""
    words = spoken(campaign, language)
    if words is None or template == "dpia":
        return _FILES[template]
    return "campaign_summary.spoken.html" if template == "page" else f"campaign_consent.{words.language}.md"


def _values(campaign: Campaign, language: str) -> dict[str, Any]:
    texts = _texts(campaign, language)
    asked, label = list(questions(campaign, language)), label_text(campaign, language)
    words = spoken(campaign, language)
    shown = asked if len(asked) <= _QUESTIONS_ON_PAGE else asked[: _QUESTIONS_ON_PAGE - 1]
    return {
        "campaign": campaign,
        "spoken": words,
        "purpose": texts.get("purpose", campaign.notice.purpose),
        "contact": texts.get("contact", campaign.notice.contact),
        "told": dict.fromkeys(DUTIES) | information(campaign.notice.texts, language),
        "note": texts.get("note", campaign.schema.note),
        "closes": time_in_words(campaign.notice.closes),
        "retention": None if campaign.notice.retention is None else time_in_words(campaign.notice.retention),
        "public": [words.known(column) if words else column.name for column in campaign.notice.public],
        "people": counted(campaign.nodes, "person", "people"),
        "questions": asked,
        "shown": shown,
        "hidden": len(asked) - len(shown),
        "rounds": campaign.guarantee.rounds,
        "series": campaign.asked.documents if campaign.asked.documents.earlier else None,
        "steps": campaign.asked.words.steps(label),
        "published": campaign.asked.words.published,
        "not_covered": NOT_COVERED,
        "methods": campaign.asked.words.page_methods(label),
        "leaving_out": _leaving_out(campaign, language),
        "exposures": campaign.asked.words.exposures(label),
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
    has_label = campaign.asked.collected_label is not None
    named = [(campaign.label_name, schema.classes, "label")] if has_label else []
    if campaign.feature_mechanism is not None:
        named += [(column.name, column.code_names, "feature") for column in schema.columns]
    for name, values, kind in named:
        words = written.get(name, {})
        shown = shown_answers(schema.texts, name, values, language=language)
        answers = tuple(text.replace("..", " to ") if text in values else text for text in shown)
        yield Question(text=words.get("text", name), help=words.get("help", ""), answers=answers, kind=kind)


def label_text(campaign: Campaign, language: str) -> str:
    """Return the question about the label as people see it."""
    name = campaign.label_name
    return str(_texts(campaign, language).get("questions", {}).get(name, {}).get("text", name))


def _leaving_out(campaign: Campaign, language: str) -> str:
    """Say which questions a person may leave out, and whether that shows; empty if the label alone is asked."""
    if campaign.feature_mechanism is None:
        return ""
    shows = (
        "" if campaign.label_mechanism is None else f", except for “{label_text(campaign, language)}”, where it shows"
    )
    return f"A person may leave out any question, and nobody can tell{shows}."


def comparison(campaign: Campaign) -> list[dict[str, Any]]:
    """Return this campaign among the known deployments, ordered by epsilon."""
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
            "name": campaign.asked.words.title,
            "value": epsilon if math.isinf(epsilon) else state_epsilon(epsilon),
            "epsilon": Exposure.of("", epsilon, unit).epsilon,
            "unit": unit,
            "model": "local",
            "own": True,
        }
        for epsilon, unit in campaign.asked.words.compared
    ]
    return sorted(rows, key=lambda row: row["value"])


def _markdown(value: object) -> object:
    """Escape what Markdown would read as its own signs; texts of a campaign are shown as they are."""
    return _MARKDOWN.sub(r"\\\1", escape(value)) if isinstance(value, str) else value


def _source(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
