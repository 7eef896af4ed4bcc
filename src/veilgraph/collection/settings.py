"""What an owner decides before a collection begins."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tomli_w

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign.notice import read_time
from veilgraph.errors import CampaignError, RunError
from veilgraph.graph import Graph, read_ids
from veilgraph.graph.shards import read_graph
from veilgraph.privacy.schema import FeatureSchema

_CONTACTS = ("histogram", "class", "list")
_HEADER = """\
# What was decided when this collection began. Reports are bound to most of it, and what people are told is in
# notice.toml: to change something else here changes nothing.

"""
_LISTS = ("answers", "languages")
_PATHS = ("people", "links", "schema")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What `veilgraph init` needs to know: by options, by a file, or by questions at the terminal.

    Attributes:
        people: node table with a column `id`, one row for each person who is asked.
        question: what each person is asked; reports are bound to its words.
        purpose: purpose of the collection, in words for participants.
        contact: person or office that participants can ask.
        closes: time until which reports are accepted, as `read_time` reads it.
        answers: possible answers to the question, if there is no schema.
        schema: schema with the answers as its classes, and with further questions as its columns; None: no others.
        links: edge table of who is linked with whom; None if people keep their contacts to themselves.
        contacts: how people answer about contacts that nobody else holds: "histogram", "class" or "list".
        epsilon: largest epsilon of everything that one person answers, at user level (any two records).
        rounds: number of times that the same question is asked; None: once.
        retention: time after which the organiser deletes the reports.
        zone: time zone of times without an offset.
        languages: languages of the texts; the question, its answers, purpose and contact are in the first one.
    """

    people: Path
    question: str
    purpose: str
    contact: str
    closes: str
    answers: tuple[str, ...] = ()
    schema: Path | None = None
    links: Path | None = None
    contacts: str | None = None
    epsilon: float = 2.0
    rounds: int | None = None
    retention: str | None = None
    zone: str = "UTC"
    languages: tuple[str, ...] = ("en",)
    now: datetime = field(default_factory=lambda: datetime.now(UTC), repr=False)

    def __post_init__(self) -> None:
        if empty := [name for name in ("question", "purpose", "contact") if not getattr(self, name).strip()]:
            raise RunError(f"the {empty[0]} is empty: give --{empty[0]}")
        if bool(self.answers) == (self.schema is not None):
            raise RunError("give the possible answers, or a schema whose classes are the answers, and not both")
        if len(self.answers) == 1:
            raise RunError("there is one possible answer: give --answer for each of two or more")
        if (self.links is None) == (self.contacts is None):
            raise RunError(
                "give the table of links, or say how people answer about contacts that only they know: "
                "histogram, class or list"
            )
        if self.contacts not in (None, *_CONTACTS):
            raise RunError(f"contacts is {self.contacts!a}: write histogram, class or list")
        if self.contacts is not None and (self.rounds is not None or self.read_schema().columns):
            raise RunError("a collection about private contacts asks one question once: leave out rounds and columns")
        if self.closing < self.now:
            raise CampaignError(f"closes is {self.closes}, which is in the past: give a later time")

    @property
    def closing(self) -> datetime:
        """Time until which reports are accepted."""
        return read_time(self.closes, zone=self.zone)

    @property
    def deletion(self) -> datetime | None:
        """Time after which the organiser deletes the reports."""
        return None if self.retention is None else read_time(self.retention, zone=self.zone, name="retention")

    def read_schema(self) -> FeatureSchema:
        """Return the declared questions and answers."""
        return FeatureSchema(classes=self.answers) if self.schema is None else FeatureSchema.load(self.schema)

    def read_graph(self) -> Graph:
        """Return people and links; without links, the people alone."""
        if self.links is None:
            names = read_ids(self.people)
            return Graph.without_edges(len(names), node_ids=names)
        return read_graph(self.links, nodes=self.people)

    @classmethod
    def required(cls) -> list[str]:
        """Return the names of what has no default."""
        return [each.name for each in fields(cls) if each.default is MISSING and each.default_factory is MISSING]

    @classmethod
    def make(cls, given: Mapping[str, Any]) -> Settings:
        """Check and return settings; name everything that is missing at once."""
        if missing := [name for name in cls.required() if given.get(name) is None]:
            raise RunError(
                f"{' and '.join(missing)} missing: give --{' --'.join(missing)}, or a file with --from that has them"
            )
        return cls(**{name: value for name, value in given.items() if value is not None})


def read_settings(path: Path) -> dict[str, Any]:
    """Read settings from a TOML file. Paths in it start in its folder."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError:
        raise RunError(f"{path} is not UTF-8: save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise RunError(f"{path} is not TOML: {error}") from None
    kinds = {each.name: str for each in fields(Settings) if each.name != "now"} | {"epsilon": float, "rounds": int}
    read: dict[str, Any] = {}
    for key, value in document.items():
        if key not in kinds:
            raise RunError(f"{path}: '{key}' is unknown; write some of {', '.join(kinds)}")
        read[key] = _read_value(path, key, value, kinds[key])
    return read


def write_settings(path: Path, settings: Settings, *, people: str, links: str | None) -> None:
    """Write settings beside the files of a collection, as `read_settings` reads them.

    Args:
        path: the file.
        settings: what the owner decided.
        people: name of the copied table of people.
        links: name of the copied table of links; None if there is none.
    """
    files = {"people": people, "links": links, "schema": None if settings.schema is None else "schema.toml"}
    decided = {each.name: getattr(settings, each.name) for each in fields(Settings) if each.name != "now"} | files
    said = {name: list(value) if isinstance(value, tuple) else value for name, value in decided.items()}
    write_atomically(
        path, _HEADER + tomli_w.dumps({name: value for name, value in said.items() if value or value == 0})
    )


def _read_value(path: Path, key: str, value: object, kind: type) -> Any:
    if key in _LISTS:
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
        raise RunError(f'{path}: {key} must be a list of texts, such as {key} = ["no", "yes"]')
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not kind:
        raise RunError(f"{path}: {key} must be {'a text' if kind is str else 'a number'}")
    return path.parent / str(value) if key in _PATHS else value
