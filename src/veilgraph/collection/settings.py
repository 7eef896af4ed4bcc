"""What an owner decides before a collection begins."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import tomli_w

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign.budget import CampaignBudget
from veilgraph.campaign.notice import read_time
from veilgraph.campaign.plan import CampaignPlan
from veilgraph.errors import CampaignError, RunError
from veilgraph.graph import Graph, read_ids
from veilgraph.graph.shards import read_graph
from veilgraph.privacy.budget import ONCE, RoundBudget
from veilgraph.privacy.schema import FeatureSchema

_CONTACTS = ("histogram", "class", "list")
_HEADER = """\
# What was decided when this collection began. Reports are bound to most of it, and what people are told is in
# notice.toml: to change something else here changes nothing.

"""
_NUMBERS: dict[str, type] = dict.fromkeys(("rounds", "values", "sampled"), int) | dict.fromkeys(
    ("epsilon", "epsilon_x", "epsilon_y", "round_epsilon", "round_epsilon_x"), float
)
_LISTS = ("answers", "languages")
_PATHS = ("people", "links", "schema", "plan")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What `veilgraph init` needs to know: by options, by a file, or by questions at the terminal.

    Attributes:
        question: what each person is asked; reports are bound to its words.
        purpose: purpose of the collection, in words for participants.
        contact: person or office that participants can ask.
        closes: time until which reports are accepted, as `read_time` reads it.
        people: node table with a column `id`, one row for each person who is asked; None: everybody in `links`.
        answers: possible answers to the question, if there is no schema.
        schema: schema with the answers as its classes, and with further questions as its columns; None: no others.
        links: edge table of who is linked with whom; None if people keep their contacts to themselves.
        contacts: how people answer about contacts that nobody else holds: "histogram", "class" or "list".
        epsilon: largest epsilon of everything that one person answers, at user level (any two records).
        rounds: number of times that the same question is asked; None: once.
        values: in rounds, different values of a person that are answered, for each question.
        epsilon_y: epsilon of the question, if not all of `epsilon`.
        epsilon_x: epsilon of each sampled further question.
        sampled: number of further questions that a device samples.
        round_epsilon: in rounds, epsilon of the question in one round's report; None: half of `epsilon_y`.
        round_epsilon_x: in rounds, epsilon of a further question in one round's report; None: half of `epsilon_x`.
        plan: plan that `veilgraph plan --out` wrote, which says how the epsilon is spent, and on which question.
        retention: time after which the organiser deletes the reports.
        zone: time zone of times without an offset.
        languages: languages of the texts; the question, its answers, purpose and contact are in the first one.
    """

    question: str
    purpose: str
    contact: str
    closes: str
    people: Path | None = None
    answers: tuple[str, ...] = ()
    schema: Path | None = None
    links: Path | None = None
    contacts: str | None = None
    epsilon: float = 2.0
    rounds: int | None = None
    values: int = 2
    epsilon_y: float | None = None
    epsilon_x: float | None = None
    sampled: int | None = None
    round_epsilon: float | None = None
    round_epsilon_x: float | None = None
    plan: Path | None = None
    retention: str | None = None
    zone: str = "UTC"
    languages: tuple[str, ...] = ("en",)
    now: datetime = field(default_factory=lambda: datetime.now(UTC), repr=False)

    def __post_init__(self) -> None:
        if empty := [name for name in ("question", "purpose", "contact") if not getattr(self, name).strip()]:
            raise RunError(f"the {empty[0]} is empty: give --{empty[0]}")
        if bool(self.answers) + (self.schema is not None) + (self.plan is not None) != 1:
            raise RunError(
                "give the possible answers, or a schema whose classes are the answers, or a plan, and one of them alone"
            )
        if len(self.answers) == 1:
            raise RunError("there is one possible answer: give --answer for each of two or more")
        if (self.links is None) == (self.contacts is None):
            raise RunError(
                "give the table of links, or say how people answer about contacts that only they know: "
                "histogram, class or list"
            )
        if self.links is None and self.people is None:
            raise RunError("the people are missing: give --people, a table with a column 'id'")
        if self.plan is not None and (self.budget is not None or self.rounds is not None or self.links is None):
            raise RunError("a plan says how the epsilon is spent on links that are known, once: give it alone")
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

    @property
    def budget(self) -> CampaignBudget | None:
        """The epsilon of each question, if they were given one by one."""
        if self.epsilon_y is None and self.epsilon_x is None and self.sampled is None:
            return None
        rounds = ONCE
        if self.rounds is not None:
            rounds = RoundBudget(
                rounds=self.rounds,
                values=self.values,
                round_epsilon=self.round_epsilon,
                round_epsilon_x=self.round_epsilon_x,
            )
        return CampaignBudget(epsilon_x=self.epsilon_x, sampled=self.sampled, epsilon_y=self.epsilon_y, rounds=rounds)

    def read_plan(self) -> CampaignPlan | None:
        """Return the plan; None if there is none."""
        return None if self.plan is None else CampaignPlan.from_json(self.plan.read_bytes())

    def read_schema(self) -> FeatureSchema:
        """Return the declared questions and answers."""
        if (plan := self.read_plan()) is not None:
            return plan.draft.schema
        return FeatureSchema(classes=self.answers) if self.schema is None else FeatureSchema.load(self.schema)

    def read_graph(self) -> Graph:
        """Return people and links; without links, the people alone."""
        if self.links is None:
            names = read_ids(cast(Path, self.people))
            return Graph.without_edges(len(names), node_ids=names)
        return read_graph(self.links, nodes=self.people)

    @classmethod
    def required(cls) -> list[str]:
        """Return the names of what has no default."""
        return [each.name for each in fields(cls) if each.default is MISSING and each.default_factory is MISSING]

    @classmethod
    def make(cls, given: Mapping[str, Any]) -> Settings:
        """Check and return settings; name everything that is missing at once. A plan names its question."""
        if (plan := given.get("plan")) is not None:
            given = {"question": CampaignPlan.from_json(plan.read_bytes()).draft.label_name} | dict(given)
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
    kinds = dict.fromkeys((each.name for each in fields(Settings) if each.name != "now"), str) | _NUMBERS
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
    files = {"people": people, "links": links, "schema": None if settings.answers else "schema.toml", "plan": None}
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
