"""Verification of a campaign: its id, its integer tables, and the guarantee that they give."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from types import NoneType
from typing import Any

from veilgraph.client.epsilons import shown, slack
from veilgraph.client.neighbours import ListQuestion
from veilgraph.client.question import Asked, Notice, PublicGraph, Question
from veilgraph.client.reading import (
    are_distinct,
    canonical_json,
    content_id,
    read_date,
    read_entries,
    read_hash,
    read_json,
    read_object,
    read_text,
    read_whole,
)
from veilgraph.client.refusals import CampaignError
from veilgraph.client.rounds import read_record_questions
from veilgraph.client.schema import Schema

_NOTICE_KEYS = "closes contact language note purpose retention round texts version"
_PUBLIC_KINDS = (None, "number", "category", "date", "embedding", "link")
_TEXT_KEYS = (
    "purpose contact note controller data_protection_officer legal_basis recipients rights supervisory_authority "
    "questions"
)
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}")
_BOUND = {
    3: "features format graph guarantee label nonce rounds schema",
    4: "format graph guarantee neighbours schema",
}


def verify(campaign: str | bytes, *, max_epsilon: float, now: datetime | None = None) -> Question:
    """Verify a campaign; refuse one that is altered, closed, too revealing, or does not give its stated guarantee."""
    if isinstance(max_epsilon, bool) or not isinstance(max_epsilon, (int, float)) or not max_epsilon > 0:
        raise CampaignError("max_epsilon must be a number above 0: the largest epsilon that you accept")
    question = read_question(*read_campaign(campaign))
    now = now or datetime.now(UTC)
    if now.tzinfo is None:
        raise CampaignError("now must have a time zone")
    if now >= question.notice.closes:
        raise CampaignError(
            f"the campaign closed at {question.notice.closes:%Y-%m-%d %H:%M:%S} UTC, and this device's clock says "
            f"{now.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC: set the clock if it is wrong"
        )
    if question.epsilon > Decimal(max_epsilon) + slack(Decimal(max_epsilon)):
        raise CampaignError(
            f"a report would cost epsilon {shown(question.epsilon)} (user level, any two records), "
            f"which is above your limit of {max_epsilon:g}"
        )
    return question


def read_campaign(campaign: str | bytes) -> tuple[dict[str, Any], Notice]:
    """Read a campaign in its canonical form: what reports are bound to, and the notice."""
    try:
        document = read_json(campaign)
        text = campaign.decode() if isinstance(campaign, bytes) else campaign
    except CampaignError:
        raise
    except ValueError:
        raise CampaignError("the campaign is not readable as JSON") from None
    if text.removesuffix("\n") != canonical_json(document):
        raise CampaignError("the campaign is not in its canonical form, so two readers could understand it differently")
    return _checked_parts(document)


def _checked_parts(document: object) -> tuple[dict[str, Any], Notice]:
    """Return the part that reports are bound to, which the id names, and the notice."""
    version = document.get("format") if isinstance(document, dict) else None
    if type(version) is not int or version not in _BOUND:
        raise CampaignError("the campaign's format is not 3 or 4: this client is too old, or it is not a campaign")
    whole = read_object(document, "bound format id notice", "the campaign")
    begins = version == 3 and isinstance(whole["bound"], dict) and "neighbours" in whole["bound"]
    bound = read_object(whole["bound"], _BOUND[version] + " neighbours" * begins, "bound")
    if type(bound["format"]) is not int or bound["format"] != version:
        raise CampaignError("the campaign has another format inside")
    if whole["id"] != content_id(bound):
        raise CampaignError("the campaign was altered: its content is not what its id says")
    if "nonce" in bound and not re.fullmatch("[0-9a-f]{32}", read_text(bound["nonce"], "nonce")):
        raise CampaignError("nonce must be 32 hexadecimal digits")
    read_object(bound["schema"], "columns group label", "schema")
    graph = read_object(bound["graph"], "nodes sha256", "graph")
    read_whole(graph["nodes"], "graph.nodes")
    read_hash(graph["sha256"], "graph.sha256")
    stated = whole["notice"]
    has_public = isinstance(stated, dict) and "public" in stated
    notice = read_object(stated, f"{_NOTICE_KEYS} public" if has_public else _NOTICE_KEYS, "notice")
    return {**bound, "id": whole["id"]}, _notice(notice, content_id(notice))


def _notice(stated: Mapping[str, Any], hashed: str) -> Notice:
    notice = Notice(
        version=read_whole(stated["version"], "notice.version"),
        sha256=hashed,
        purpose=read_text(stated["purpose"], "purpose"),
        contact=read_text(stated["contact"], "contact"),
        closes=read_date(stated["closes"], "closes"),
        retention=None if stated["retention"] is None else read_date(stated["retention"], "retention"),
        note=read_text(stated["note"], "note", min_length=0),
        round=None if stated["round"] is None else read_whole(stated["round"], "round"),
        texts=stated["texts"],
        language=stated["language"],
        public=_public(stated["public"]) if "public" in stated else {},
    )
    languages = dict(read_entries(notice.texts, "texts"))
    if not isinstance(notice.language, (str, NoneType)) or notice.language not in (languages or (None,)):
        raise CampaignError("notice.language must be one of the languages of the texts; null if there are none")
    if notice.retention is not None and notice.retention < notice.closes:
        raise CampaignError("the campaign deletes its reports before it closes")
    return notice


def _public(stated: object) -> Mapping[str, str | None]:
    """Return the kinds of the public columns, by name."""
    columns = dict(read_entries(stated, "public"))
    if not columns or not all(kind in _PUBLIC_KINDS for kind in columns.values()):
        raise CampaignError("notice.public must name a kind for each column that is known without asking")
    for name in columns:
        read_text(name, "a public column")
    return columns


_ASKED: dict[int, Callable[[Mapping[str, Any], Schema], Asked]] = {
    3: read_record_questions,
    4: ListQuestion.read,
}


def read_question(bound: dict[str, Any], notice: Notice) -> Question:
    """Return the questions of a campaign, if its tables give every epsilon that it states."""
    schema = Schema.read(bound["schema"])
    asked = _ASKED[bound["format"]](bound, schema)
    asked.check_notice(notice.round)
    _check_texts(notice.texts, schema.answers)
    if not are_distinct([*schema.answers, *notice.public]):
        raise CampaignError("a column is asked and public, or two look alike: what is asked must be private")
    return Question(bound["id"], PublicGraph(**bound["graph"]), schema, asked, notice)


def _check_texts(texts: object, answers: Mapping[str, Sequence[str]]) -> None:
    """Refuse texts by language that are not about these questions, or show two answers alike."""
    for language, parts in read_entries(texts, "texts"):
        if not _LANGUAGE.fullmatch(language):
            raise CampaignError("texts: a language must be a tag such as 'de' or 'pt-BR'")
        for key, value in read_entries(parts, "texts", _TEXT_KEYS):
            if key != "questions":
                read_text(value, f"a translated {key}")
                continue
            for name, question in read_entries(value, "questions", answers):
                _check_question_texts(question, answers[name])


def _check_question_texts(question: object, values: Sequence[str]) -> None:
    for key, text in read_entries(question, "a question's texts", "text help answers"):
        if key != "answers":
            read_text(text, f"a question's {key}")
            continue
        shown = {value: value for value in values}
        for value, label in read_entries(text, "answers", shown):
            shown[value] = read_text(label, "an answer")
        if not are_distinct(list(shown.values())):
            raise CampaignError("the texts show two answers alike")
