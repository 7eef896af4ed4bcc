"""Verification of a campaign: its id, its integer tables, and the guarantee that they give."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, localcontext
from itertools import pairwise
from types import NoneType
from typing import Any

from veilgraph.client.epsilons import shown, slack
from veilgraph.client.mechanisms import JointFeatures, LabelTable, SampledFeatures, read_features, read_label
from veilgraph.client.neighbours import (
    BELIEF_CODES,
    ListCost,
    RandomizedList,
    WaveQuestion,
    read_list_mechanism,
    read_table_hash,
    read_turns,
)
from veilgraph.client.question import Notice, PublicGraph, Question
from veilgraph.client.reading import (
    are_distinct,
    canonical_json,
    content_id,
    read_date,
    read_entries,
    read_hash,
    read_json,
    read_list,
    read_number,
    read_object,
    read_text,
    read_whole,
)
from veilgraph.client.refusals import CampaignError
from veilgraph.client.series import MAX_WAVES, Series, SeriesFeatures, read_series

_NOTICE_KEYS = "closes contact language note purpose retention texts version wave"
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}")
_BOUND = {
    3: "features format graph guarantee label nonce schema waves",
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
    if now >= question.closes:
        raise CampaignError(
            f"the campaign closed at {question.closes:%Y-%m-%d %H:%M:%S} UTC, and this device's clock says "
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
    bound = read_object(whole["bound"], _BOUND[version], "bound")
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
    notice = read_object(whole["notice"], _NOTICE_KEYS, "notice")
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
        wave=None if stated["wave"] is None else read_whole(stated["wave"], "wave"),
        texts=stated["texts"],
        language=stated["language"],
    )
    languages = dict(read_entries(notice.texts, "texts"))
    if not isinstance(notice.language, (str, NoneType)) or notice.language not in (languages or (None,)):
        raise CampaignError("notice.language must be one of the languages of the texts; null if there are none")
    if notice.retention is not None and notice.retention < notice.closes:
        raise CampaignError("the campaign deletes its reports before it closes")
    return notice


def _wave_question(campaign: dict[str, Any], notice: Notice) -> Question:
    """Return the question of a wave about neighbours, if its integers give every epsilon that is stated."""
    schema = campaign["schema"]
    label = read_object(schema["label"], "classes name", "schema.label")
    classes = tuple(read_text(name, "a class") for name in read_list(label["classes"], "schema.label.classes"))
    if schema["columns"] != [] or type(schema["group"]) is not int or schema["group"] != 1 or notice.wave is not None:
        raise CampaignError("a wave about neighbours asks for nothing else")
    if not are_distinct(classes) or not 2 <= len(classes) < BELIEF_CODES:
        raise CampaignError("the campaign declares a class twice, or two that look alike, or fewer than two")
    name = read_text(label["name"], "schema.label.name")
    _check_texts(notice.texts, {name: classes})
    parts = read_object(campaign["neighbours"], "answers documents label people table turns", "neighbours")
    documents = tuple(
        read_hash(document, "neighbours.documents")
        for document in read_list(parts["documents"], "neighbours.documents")
    )
    response = read_label(parts["label"], len(classes))
    people = campaign["graph"]["nodes"]
    waves = [
        read_list_mechanism(entry, len(classes), people) for entry in read_list(parts["answers"], "neighbours.answers")
    ]
    if response is None or len(waves) != len(documents) or len(documents) > MAX_WAVES:
        raise CampaignError(f"a series has a label, and an answer for each of at most {MAX_WAVES} waves")
    if len(set(documents)) < len(documents):
        raise CampaignError("neighbours.documents names a document twice")
    if len(waves) > 1 and any(isinstance(mechanism, RandomizedList) for mechanism in waves):
        raise CampaignError("a randomized neighbour list is the only wave of its series, and this one has more")
    turns = read_turns(parts["turns"], waves)
    with localcontext(prec=60):
        costs = [mechanism.cost for mechanism in waves]
        # In turns a person answers one wave, and the document does not say whose: the dearest one bounds them all.
        columns = zip(*costs, strict=True)
        so_far = ListCost(*(sum(column, Decimal(0)) if turns is None else max(column) for column in columns))
        _check_wave_guarantee(campaign["guarantee"], costs[-1], so_far, response.user_level)
    return Question(
        id=campaign["id"],
        graph=PublicGraph(**campaign["graph"]),
        columns=(),
        group=1,
        label_name=name,
        classes=classes,
        features=None,
        label=None,
        notice=notice,
        epsilon=costs[-1].any_lists if costs[-1].any_lists.is_finite() else Decimal(0),
        neighbours=WaveQuestion(
            documents,
            waves[-1],
            people,
            read_hash(parts["people"], "neighbours.people"),
            read_table_hash(parts["table"], waves[-1]),
            so_far,
            turns,
        ),
    )


def _check_wave_guarantee(stated: object, wave: ListCost, so_far: ListCost, label: Decimal) -> None:
    """Check every stated epsilon of a wave and of its series, under each relation."""
    parts = read_object(stated, "series wave", "guarantee")
    series = read_object(parts["series"], "label lists lists_and_record", "guarantee.series")
    pairs = [(series["label"], label)]
    for told, cost in ((parts["wave"], wave), (series["lists"], so_far)):
        levels = read_object(told, "any_lists one_entry one_relationship", "guarantee")
        pairs += [(levels[key], getattr(cost, key)) for key in ListCost._fields]
        pairs.append((levels["one_relationship"], 2 * cost.one_entry))
    with_record = read_object(series["lists_and_record"], "any_lists one_entry", "guarantee.series.lists_and_record")
    pairs += [(with_record[key], label + getattr(so_far, key)) for key in ListCost._fields]
    for text, epsilon in pairs:
        told = Decimal(read_number(text, "an epsilon"))
        if told != epsilon and not (epsilon.is_finite() and abs(told - epsilon) <= slack(epsilon)):
            raise CampaignError(
                "the wave's integers do not give the guarantee that it states: an answer would cost epsilon "
                f"{shown(wave.one_entry)} for one entry (two neighbour lists, one with a neighbour more)"
            )


def read_question(campaign: dict[str, Any], notice: Notice) -> Question:
    """Return what a campaign asks, if its tables give every epsilon that it states."""
    if campaign["format"] == 4:
        return _wave_question(campaign, notice)
    schema = campaign["schema"]
    label = read_object(schema["label"], "classes name", "schema.label")
    columns = tuple(_column(entry) for entry in read_list(schema["columns"], "schema.columns", 0))
    sizes = _merged([_size(column) for column in columns], read_whole(schema["group"], "schema.group"))
    classes = tuple(read_text(name, "a class") for name in read_list(label["classes"], "schema.label.classes"))
    is_series = campaign.get("waves") is not None
    features: SampledFeatures | JointFeatures | SeriesFeatures | None
    features = read_features(campaign["features"], sizes, ("grr",) if is_series else ("grr_fs", "joint_grr"))
    response: LabelTable | Series | None = read_label(campaign["label"], len(classes))
    if features is None and response is None:
        raise CampaignError("the campaign collects nothing")
    waves = None
    if is_series:
        waves, features, response = read_series(campaign["waves"], features, response)
    if notice.wave is not None and (waves is None or notice.wave > waves.number):
        raise CampaignError("the campaign does not have the wave that is open")
    names = [column["name"] for column in columns] + [read_text(label["name"], "schema.label.name")]
    if not are_distinct(names) or not are_distinct(classes) or len(classes) < 2:
        raise CampaignError("the campaign declares a name twice, or two that look alike, or fewer than two classes")
    answers = {column["name"]: column.get("values", ()) for column in columns}
    _check_texts(notice.texts, answers | {label["name"]: classes})
    return Question(
        id=campaign["id"],
        graph=PublicGraph(**campaign["graph"]),
        columns=columns,
        group=schema["group"],
        label_name=label["name"],
        classes=classes,
        features=features,
        label=response,
        notice=notice,
        epsilon=_check_guarantee(campaign["guarantee"], features, response),
        waves=waves,
    )


def _check_texts(texts: object, answers: Mapping[str, Sequence[str]]) -> None:
    """Refuse texts by language that are not about these questions, or show two answers alike."""
    for language, parts in read_entries(texts, "texts"):
        if not _LANGUAGE.fullmatch(language):
            raise CampaignError("texts: a language must be a tag such as 'de' or 'pt-BR'")
        for key, value in read_entries(parts, "texts", "purpose contact note questions"):
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


def _column(entry: object) -> dict[str, Any]:
    if isinstance(entry, dict) and "edges" in entry:
        is_whole = entry.get("whole") is True
        parts = read_object(entry, "edges name whole" if is_whole else "edges name", "a column")
        edges = [read_number(edge, "an edge") for edge in read_list(parts["edges"], "edges")]
        if len(edges) < 3 or not all(low < high for low, high in pairwise(edges)):
            raise CampaignError("a column's edges must be 3 or more, and rise")
        if is_whole and not all(abs(edge) == float("inf") or edge.is_integer() for edge in edges):
            raise CampaignError("the edges of whole numbers must be whole")
    else:
        parts = read_object(entry, "name values", "a column")
        values = [read_text(value, "a value", min_length=0) for value in read_list(parts["values"], "values")]
        if len(values) < 2 or not are_distinct(values):
            raise CampaignError("a column's values must be 2 or more, and no two of them look alike")
    read_text(parts["name"], "a column's name")
    return parts


def _size(column: Mapping[str, Any]) -> int:
    return len(column["edges"]) - 1 if "edges" in column else len(column["values"])


def _merged(sizes: list[int], group: int) -> list[int]:
    if group > 1 and set(sizes) != {2}:
        raise CampaignError("the campaign merges columns that are not binary")
    return sizes[::group]


def _check_guarantee(
    stated: object,
    features: SampledFeatures | JointFeatures | SeriesFeatures | None,
    label: LabelTable | Series | None,
) -> Decimal:
    """Check every stated epsilon against the integers; return the total of the user level."""
    parts = read_object(stated, "attribute_level user_level", "guarantee")
    users = read_object(parts["user_level"], "features label total", "guarantee.user_level")
    with localcontext(prec=40):
        exact = {
            "features": features.user_level if features else Decimal(0),
            "label": Decimal(0) if label is None else label.user_level,
        }
        exact["total"] = exact["features"] + exact["label"]
        attributes = features.attribute_levels if features else []
        if not isinstance(parts["attribute_level"], list) or len(parts["attribute_level"]) != len(attributes):
            raise CampaignError("guarantee.attribute_level must list one epsilon for each feature")
        pairs = [(users[key], exact[key]) for key in exact]
        pairs += zip(parts["attribute_level"], attributes, strict=True)
        for text, epsilon in pairs:
            if abs(Decimal(read_number(text, "an epsilon")) - epsilon) > slack(epsilon):
                raise CampaignError(
                    f"the campaign's tables do not give the guarantee that it states: a report would cost "
                    f"epsilon {shown(exact['total'])} (user level, any two records)"
                )
        return exact["total"]
