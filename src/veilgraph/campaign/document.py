r"""A campaign: all that a device must know to answer, and all that a person must know to agree.

It is one JSON document of text and whole numbers: the schema, the mechanisms with the integers that decide every
report, and the guarantee that these integers give. Its id is the SHA-256 of its canonical form, so a campaign with
another epsilon is another campaign. Figures that need not be whole (bin edges, epsilons) are written as text: their
canonical form is then the same in every language.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from veilgraph.errors import BudgetError, CampaignError, SchemaError
from veilgraph.graph import Graph
from veilgraph.privacy.accounting import Guarantee, guarantee_of
from veilgraph.privacy.mechanisms import GRR, GRRFS
from veilgraph.privacy.mechanisms.integer_table import IntegerTable
from veilgraph.privacy.schema import Column, FeatureSchema

FORMAT = 1
LONGEST_TEXT = 4000

# So that any client, a phone's browser included, can check the attribute-level guarantee within seconds.
_MOST_FEATURES = 2**14
_MOST_STEPS = 1_000_000

_SHA256 = re.compile(r"[0-9a-f]{64}")
_NUMBER = re.compile(r"-?(Infinity|[0-9]+(\.[0-9]+)?(e[+-][0-9]+)?)")
_CLOSES = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """What is asked, how it is randomized, what that guarantees, for what, by whom and until when.

    Args:
        schema: names and domains of everything a record holds.
        feature_mechanism: how features are randomized; None where none are collected.
        label_mechanism: how the label is randomized; None where none is collected.
        label: the label's name.
        purpose: what the reports are collected for, in words for participants.
        contact: whom participants can ask.
        closes: when the last report is accepted, to the second.
        nodes: how many nodes the public graph has.
        graph: the public graph's fingerprint.

    >>> campaign = Campaign.new(
    ...     schema=FeatureSchema.binary(8, classes=["no", "yes"]), epsilon_x=0.5, sampled=2, epsilon_y=1.0,
    ...     graph=Graph.from_edges([[0], [1]], num_nodes=2), purpose="Learn who needs a vaccine",
    ...     contact="privacy@example.org", closes=datetime(2027, 1, 31, tzinfo=UTC))
    >>> campaign.id[:8], round(campaign.guarantee.total_user_level, 9)
    ('78ad58f7', 2.0)
    >>> Campaign.from_json(campaign.to_json()) == campaign
    True
    >>> Campaign.from_json(campaign.to_json().replace('"sampled":2', '"sampled":3'))
    Traceback (most recent call last):
    veilgraph.errors.CampaignError: the content is not what the id says: the campaign was altered; get it again
    """

    schema: FeatureSchema
    feature_mechanism: GRRFS | None
    label_mechanism: GRR | None
    label: str
    purpose: str
    contact: str
    closes: datetime
    nodes: int
    graph: str

    def __post_init__(self) -> None:
        if self.feature_mechanism is None and self.label_mechanism is None:
            raise CampaignError("nothing is asked: give a budget for the features, for the label, or for both")
        for name in ("purpose", "contact", "label"):
            _text(getattr(self, name), name)
        if self.label in {column.name for column in self.schema.columns}:
            raise CampaignError(f"'{self.label}' is a column and the label: name the label otherwise")
        if self.closes.tzinfo is None or self.closes.microsecond or self.closes.year < 1000:
            raise CampaignError(f"closes is {self.closes}: give a date with its time zone, to the second")
        object.__setattr__(self, "closes", self.closes.astimezone(UTC))
        _whole(self.nodes, "graph.nodes", 1, 2**53)
        if not _SHA256.fullmatch(self.graph):
            raise CampaignError("graph.sha256 is not a SHA-256 in hexadecimal digits")
        self._check_mechanisms()

    def _check_mechanisms(self) -> None:
        features, label = self.feature_mechanism, self.label_mechanism
        if features is not None:
            _finite(features.epsilon, "epsilon_x")
            if features.domain_sizes != self.schema.domain_sizes:
                raise CampaignError("the feature mechanism is for other domain sizes than the schema's")
            steps = features.sampled * (features.num_features - features.sampled)
            if features.num_features > _MOST_FEATURES or steps > _MOST_STEPS:
                raise CampaignError(
                    f"{features.sampled} of {features.num_features} features cannot be checked on a device: "
                    f"have at most {_MOST_FEATURES} features and sampled * (features - sampled) <= {_MOST_STEPS}; "
                    "merge columns with 'group' or sample fewer"
                )
        if label is not None:
            _finite(label.epsilon, "epsilon_y")
            if label.domain_size != self.schema.num_classes:
                raise CampaignError(
                    f"the label mechanism is for {label.domain_size} classes, the schema has {self.schema.num_classes}"
                )

    @classmethod
    def new(
        cls,
        *,
        schema: FeatureSchema,
        graph: Graph,
        purpose: str,
        contact: str,
        closes: datetime,
        epsilon_x: float | None = None,
        sampled: int | None = None,
        epsilon_y: float | None = None,
        label: str = "label",
    ) -> Campaign:
        """A campaign from what is decided: without `epsilon_x` no features are asked, without `epsilon_y` no label."""
        if (epsilon_x is None) != (sampled is None):
            raise CampaignError("epsilon_x and sampled belong together: give both, or neither to ask no features")
        features = (
            None if epsilon_x is None or sampled is None else GRRFS(schema.domain_sizes, sampled, float(epsilon_x))
        )
        return cls(
            schema=schema,
            feature_mechanism=features,
            label_mechanism=None if epsilon_y is None else GRR(schema.num_classes, float(epsilon_y)),
            label=label,
            purpose=purpose,
            contact=contact,
            closes=closes,
            nodes=graph.num_nodes,
            graph=graph.fingerprint,
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> Campaign:
        """Read and check everything; what is altered or states another guarantee than its integers give is refused."""
        document = _parse(text)
        stated = dict(_object(document, set(_KEYS), "campaign"))
        if stated["format"] != FORMAT:
            raise CampaignError(f"its format is not {FORMAT}: it needs another version of veilgraph")
        if stated.pop("id") != content_id(stated):
            raise CampaignError("the content is not what the id says: the campaign was altered; get it again")
        try:
            campaign = cls(
                **_mechanisms(stated, schema := _schema(stated["schema"])),
                schema=schema,
                label=_object(stated["schema"]["label"], {"name", "classes"}, "schema.label")["name"],
                purpose=stated["purpose"],
                contact=stated["contact"],
                closes=_date(stated["closes"]),
                nodes=_object(stated["graph"], {"nodes", "sha256"}, "graph")["nodes"],
                graph=_text(stated["graph"]["sha256"], "graph.sha256"),
            )
        except (BudgetError, SchemaError) as error:
            raise CampaignError(f"the campaign contradicts itself: {error}") from error
        _compare(stated, campaign._content)
        return campaign

    def to_json(self) -> str:
        """The canonical document."""
        return canonical_json(self.document)

    @property
    def document(self) -> dict[str, Any]:
        """The document as JSON values."""
        return {**self._content, "id": self.id}

    @cached_property
    def id(self) -> str:
        """SHA-256 of the canonical form of everything else, in hexadecimal digits."""
        return content_id(self._content)

    @cached_property
    def guarantee(self) -> Guarantee:
        """What a whole report reveals at most, from the integers."""
        return guarantee_of(self.feature_mechanism, self.label_mechanism)

    def in_words(self) -> list[str]:
        """Plain sentences for participants and for the person who has to sign the campaign off."""
        sentences = [self.purpose, f"Contact: {self.contact}. Open until {self.closes:%Y-%m-%d %H:%M:%S} UTC."]
        features, label = self.feature_mechanism, self.label_mechanism
        if features is not None:
            sentences.append(
                f"Asked: {features.num_features} features. A device picks {features.sampled} of them at random and "
                "reports each of these truthfully or not, as chance has it; for all others it reports pure chance."
            )
            names = zip(self.schema.feature_names, self.schema.code_names, features.responses, strict=True)
            sentences += [
                f"  {name}: {', '.join(codes)} (if picked, true with {_percent(response)})"
                for name, codes, response in names
            ]
        if label is not None:
            sentences.append(
                f"Asked: {self.label}, one of {', '.join(self.schema.classes)} (true with {_percent(label)})."
            )
        return [
            *sentences,
            *replace(self.guarantee, unsound_theorem_1=None).in_words(),
            "Not protected: who takes part and when, whether a part of a report is left out, and the public graph. "
            "Reports to several campaigns add up.",
            f"Graph: {self.nodes} nodes, SHA-256 {self.graph}.",
            f"Campaign {self.id}.",
        ]

    def is_open(self, now: datetime) -> bool:
        """Whether reports are still accepted."""
        return now < self.closes

    @cached_property
    def _content(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "purpose": self.purpose,
            "contact": self.contact,
            "closes": self.closes.strftime(_CLOSES),
            "schema": {
                "columns": [_column_document(column) for column in self.schema.columns],
                "group": self.schema.group,
                "label": {"name": self.label, "classes": list(self.schema.classes)},
                "note": self.schema.note,
            },
            "features": None if self.feature_mechanism is None else _features_document(self.feature_mechanism),
            "label": None if self.label_mechanism is None else _label_document(self.label_mechanism),
            "guarantee": _guarantee_document(self.guarantee),
            "graph": {"nodes": self.nodes, "sha256": self.graph},
        }


_KEYS = ("format", "purpose", "contact", "closes", "schema", "features", "label", "guarantee", "graph", "id")


def canonical_json(document: object) -> str:
    r"""Sorted keys, no spaces, ASCII only: the text that is hashed, sent and stored.

    >>> canonical_json({"b": [1, None], "a": "é"})
    '{"a":"\\u00e9","b":[1,null]}'
    """
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def content_id(content: object) -> str:
    """SHA-256 of the canonical form, in hexadecimal digits."""
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()


def number_text(number: float) -> str:
    """The shortest text that reads back as the same double.

    >>> number_text(30.0), number_text(0.1), number_text(math.inf)
    ('30', '0.1', 'Infinity')
    """
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return repr(float(number)).removesuffix(".0")


def _column_document(column: Column) -> dict[str, Any]:
    if column.edges:
        return {"name": column.name, "edges": [number_text(edge) for edge in column.edges]}
    return {"name": column.name, "values": list(column.values)}


def _table_document(table: IntegerTable) -> dict[str, int]:
    return {"domain_size": table.domain_size, "true": table.true, "other": table.other}


def _features_document(mechanism: GRRFS) -> dict[str, Any]:
    return {
        "mechanism": "grr_fs",
        "epsilon": number_text(mechanism.epsilon),
        "sampled": mechanism.sampled,
        "tables": [_table_document(response.table) for response in mechanism.responses],
    }


def _label_document(mechanism: GRR) -> dict[str, Any]:
    return {
        "mechanism": "grr",
        "epsilon": number_text(mechanism.epsilon),
        "table": _table_document(mechanism.table),
    }


def _guarantee_document(guarantee: Guarantee) -> dict[str, Any]:
    return {
        "user_level": {
            "features": number_text(guarantee.features_user_level),
            "label": number_text(guarantee.label_user_level),
            "total": number_text(guarantee.total_user_level),
        },
        "attribute_level": [number_text(e) for e in guarantee.features.attribute_level] if guarantee.features else [],
    }


def _percent(response: GRR) -> str:
    return f"probability {float(response.channel.keep):.3f}"


def _parse(text: str | bytes) -> object:
    def refuse(_: str) -> None:
        raise CampaignError("a number is not whole: a campaign holds whole numbers and text only")

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(items)) < len(items):
            raise CampaignError("a key occurs twice: two readers could understand it differently")
        return dict(items)

    try:
        content = text.decode() if isinstance(text, bytes) else text
        document: object = json.loads(content, parse_float=refuse, parse_constant=refuse, object_pairs_hook=pairs)
    except CampaignError:
        raise
    except (ValueError, RecursionError) as error:
        raise CampaignError(f"it is not a campaign: not readable as JSON ({type(error).__name__})") from None
    return document


def _mechanisms(stated: dict[str, Any], schema: FeatureSchema) -> dict[str, Any]:
    features, label = stated["features"], stated["label"]
    if features is not None:
        _object(features, {"mechanism", "epsilon", "sampled", "tables"}, "features")
        _same(features["mechanism"], "grr_fs", "features.mechanism")
        sampled = _whole(features["sampled"], "features.sampled", 1, schema.num_features)
        features = GRRFS(schema.domain_sizes, sampled, _number(features["epsilon"], "features.epsilon"))
    if label is not None:
        _object(label, {"mechanism", "epsilon", "table"}, "label")
        _same(label["mechanism"], "grr", "label.mechanism")
        label = GRR(schema.num_classes, _number(label["epsilon"], "label.epsilon"))
    return {"feature_mechanism": features, "label_mechanism": label}


def _schema(stated: object) -> FeatureSchema:
    parts = _object(stated, {"columns", "group", "label", "note"}, "schema")
    label = _object(parts["label"], {"name", "classes"}, "schema.label")
    return FeatureSchema(
        columns=tuple(_column(entry) for entry in _list(parts["columns"], "schema.columns")),
        classes=tuple(_text(name, "a class") for name in _list(label["classes"], "schema.label.classes")),
        group=_whole(parts["group"], "schema.group", 1, 2**53),
        note=_text(parts["note"], "schema.note", least=0),
    )


def _column(entry: object) -> Column:
    kind = "edges" if isinstance(entry, dict) and "edges" in entry else "values"
    parts = _object(entry, {"name", kind}, "a column")
    name = _text(parts["name"], "a column's name")
    items = _list(parts[kind], f"column '{name}'")
    if kind == "edges":
        return Column(name=name, edges=tuple(_number(edge, f"an edge of '{name}'") for edge in items))
    return Column(name=name, values=tuple(_text(value, f"a value of '{name}'", least=0) for value in items))


def _compare(stated: dict[str, Any], given: dict[str, Any]) -> None:
    """Whatever follows from the schema and the budget must be stated as it follows."""
    for part, which in (("features", "tables"), ("label", "table")):
        if given[part] is not None and stated[part][which] != given[part][which]:
            epsilon = given[part]["epsilon"]
            raise CampaignError(f"{part}.{which} holds other integers than an epsilon of {epsilon} gives")
    if stated["guarantee"] != given["guarantee"]:
        total = given["guarantee"]["user_level"]["total"]
        raise CampaignError(
            "the stated guarantee is not what the tables give: "
            f"user level (any two records) {total} in total; do not answer it"
        )
    if canonical_json(stated) != canonical_json(given):
        raise CampaignError("a number or a date is not written in its canonical form; write it with 'campaign new'")


def _object(value: object, keys: set[str], where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CampaignError(f"{where} must be an object with the keys {', '.join(sorted(keys))}")
    if wrong := sorted(keys ^ set(value)):
        what = "has an unknown key" if wrong[0] in value else "lacks the key"
        raise CampaignError(f"{where} {what} '{wrong[0][:40]!a}'")
    return value


def _list(value: object, where: str) -> Sequence[object]:
    if not isinstance(value, list) or not value:
        raise CampaignError(f"{where} must be a list, not empty")
    return value


def _text(value: object, where: str, *, least: int = 1) -> str:
    if not isinstance(value, str) or not least <= len(value) <= LONGEST_TEXT:
        raise CampaignError(f"{where} must be text of {least} to {LONGEST_TEXT} characters")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise CampaignError(f"{where} is not valid Unicode text")
    return value


def _whole(value: object, where: str, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise CampaignError(f"{where} must be a whole number from {low} to {high}")
    return value


def _number(value: object, where: str) -> float:
    if not isinstance(value, str) or len(value) > 40 or not _NUMBER.fullmatch(value):
        raise CampaignError(f"{where} must be a number, written as text")
    return float(value)


def _finite(epsilon: float, name: str) -> None:
    if not math.isfinite(epsilon):
        raise CampaignError(f"{name} is not finite: people's reports are never collected without privacy")


def _same(value: object, expected: str, where: str) -> None:
    if value != expected:
        raise CampaignError(f"{where} is not '{expected}', the only one that clients know")


def _date(value: object) -> datetime:
    try:
        return datetime.strptime(_text(value, "closes"), _CLOSES).replace(tzinfo=UTC)
    except ValueError:
        raise CampaignError("closes must be a UTC time such as 2027-01-31T00:00:00Z") from None
