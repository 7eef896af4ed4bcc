"""The notice: the part of a campaign that may change without a new draw.

It holds purpose, contact, closing and retention dates, a note, and texts in several languages. Reports are not bound to
it. Every change raises its version by one, and a device refuses a version that is older than one it has seen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from veilgraph.campaign.information_duties import DUTIES, REQUIRED
from veilgraph.errors import CampaignError
from veilgraph.privacy.plain_text import look_alikes
from veilgraph.privacy.public_columns import PublicColumn, parse_public, public_document
from veilgraph.privacy.schema import FeatureSchema
from veilgraph.privacy.strict_json import (
    TIME_FORMAT,
    content_id,
    expect_object,
    expect_text,
    expect_time,
    expect_whole,
)

_KEYS = {"version", "purpose", "contact", "closes", "retention", "note", "round", "texts", "language"}
_TEXTS = ("purpose", "contact", "note", *DUTIES)
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}")
_DAY = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})(?=$|[T ])")
_LAST_SECOND = time(23, 59, 59)


@dataclass(frozen=True, kw_only=True)
class Notice:
    """What people are told about a campaign, and what may change without a new draw.

    Args:
        purpose: purpose of the collection, in words for participants.
        contact: person or office that participants can ask.
        closes: time until which reports are accepted, to the second.
        retention: time after which the organiser deletes the reports; None if there is none.
        note: origin of the schema.
        texts: texts by language; people whose language is not among them see the first.
        open_round: number of the round that is open; None without rounds.
        version: version of the notice; every change raises it by one.
        public: public columns that the organiser uses beside the reports, without their values; sorted by name.
    """

    purpose: str
    contact: str
    closes: datetime
    retention: datetime | None = None
    note: str = ""
    texts: Mapping[str, Any] = field(default_factory=dict, hash=False)
    open_round: int | None = None
    version: int = 1
    public: tuple[PublicColumn, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "public", tuple(sorted(self.public, key=lambda column: column.name)))
        for name in ("purpose", "contact"):
            expect_text(getattr(self, name), name)
        object.__setattr__(self, "closes", _checked_time(self.closes, "closes"))
        expect_whole(self.version, "notice.version", 1, 2**53 - 1)
        if self.retention is not None:
            object.__setattr__(self, "retention", _checked_time(self.retention, "retention"))
            if self.retention < self.closes:
                raise CampaignError(
                    f"retention ends at {time_in_words(self.retention)}, before the campaign closes at "
                    f"{time_in_words(self.closes)}: close it earlier, or keep reports until then"
                )

    @classmethod
    def parse(cls, stated: object) -> Notice:
        """Read JSON values."""
        names = _KEYS | {"public"} if isinstance(stated, dict) and "public" in stated else _KEYS
        parts = expect_object(stated, names, "notice")
        return cls(
            purpose=parts["purpose"],
            contact=parts["contact"],
            closes=expect_time(parts["closes"], "closes"),
            retention=None if parts["retention"] is None else expect_time(parts["retention"], "retention"),
            note=expect_text(parts["note"], "note", min_length=0),
            texts=in_order(parts["texts"], parts["language"]),
            open_round=parts["round"],
            version=parts["version"],
            public=parse_public(parts["public"]) if "public" in parts else (),
        )

    @property
    def document(self) -> dict[str, Any]:
        """The notice as JSON values."""
        return {
            "version": self.version,
            "purpose": self.purpose,
            "contact": self.contact,
            "closes": self.closes.strftime(TIME_FORMAT),
            "retention": None if self.retention is None else self.retention.strftime(TIME_FORMAT),
            "note": self.note,
            "round": self.open_round,
            "texts": dict(self.texts),
            "language": next(iter(self.texts), None),
        } | ({"public": public_document(self.public)} if self.public else {})

    @property
    def sha256(self) -> str:
        """SHA-256 of the canonical form."""
        return content_id(self.document)

    def revise(
        self,
        *,
        purpose: str | None = None,
        contact: str | None = None,
        closes: datetime | None = None,
        retention: datetime | None = None,
        note: str | None = None,
        texts: Mapping[str, Any] | None = None,
        open_round: int | None = None,
    ) -> Notice:
        """Return the next version; what is not given stays.

        Args:
            purpose: purpose of the collection.
            contact: contact for participants.
            closes: time until which reports are accepted.
            retention: time after which the organiser deletes the reports. It may only move to an earlier time: people
                took part because reports are deleted after it.
            note: origin of the schema.
            texts: texts by language; texts of other languages stay.
            open_round: number of the round that is open.
        """
        if open_round is not None and self.open_round is not None and open_round < self.open_round:
            raise CampaignError(
                f"round is {open_round}, but round {self.open_round} is open: devices answer no earlier one"
            )
        revised = replace(
            self,
            purpose=self.purpose if purpose is None else purpose,
            contact=self.contact if contact is None else contact,
            closes=self.closes if closes is None else closes,
            retention=self.agreed_retention(retention),
            note=self.note if note is None else note,
            texts={**self.texts, **(texts or {})},
            open_round=self.open_round if open_round is None else open_round,
        )
        if revised == self:
            raise CampaignError("nothing changes: the notice stays at its version")
        return replace(revised, version=self.version + 1)

    def agreed_retention(self, retention: datetime | None) -> datetime | None:
        """Return a new retention date, or this one; refuse one that is later than participants agreed to."""
        if self.retention is not None and retention is not None and retention > self.retention:
            raise CampaignError(
                f"retention is {time_in_words(retention)}, later than {time_in_words(self.retention)}, "
                "which participants agreed to: give an earlier time"
            )
        return retention or self.retention

    def check_public(self, told: Notice) -> None:
        """Refuse public columns that an earlier notice of the same campaign did not tell people; fewer are fine."""
        if new := sorted({column.name for column in set(self.public) - set(told.public)}):
            raise CampaignError(
                f"public columns were added or altered ({', '.join(new)}), and people answered who were told others: "
                "take them back, or begin another campaign"
            )


def check_texts(texts: object, schema: FeatureSchema, label: str) -> None:
    """Refuse texts in several languages that are not about this schema, or could mislead a reader.

    Args:
        texts: for each language (a BCP 47 tag such as "de" or "pt-BR") an object. Its keys are optional: `purpose`,
            `contact`, `note`, the information duties, and `questions`. The latter has an object for each column, and
            for the label. Its optional keys are `text`, `help`, and `answers`, the shown text of each value.
        schema: schema of the campaign.
        label: name of the label.

    >>> schema = FeatureSchema(classes=("no", "yes"))
    >>> check_texts({"de": {"questions": {"ill": {"text": "Krank?", "answers": {"yes": "ja"}}}}}, schema, "ill")
    >>> check_texts({"de": {"questions": {"ill": {"answers": {"yes": "no"}}}}}, schema, "ill")
    Traceback (most recent call last):
    veilgraph.errors.CampaignError: texts.de.questions.ill.answers shows two answers by texts that look alike
    """
    known: dict[str, tuple[str, ...]] = {
        column.name: () if column.edges else column.values for column in schema.columns
    } | {label: schema.classes}
    for language, translated in _entries(texts, "texts"):
        if not _LANGUAGE.fullmatch(language):
            raise CampaignError(f"texts has the language {language[:40]!a}: it must be a tag such as 'de' or 'pt-BR'")
        where = f"texts.{language}"
        for key, value in _entries(translated, where):
            if key == "questions":
                _check_questions(value, known, f"{where}.questions")
            elif key in _TEXTS:
                expect_text(value, f"{where}.{key}")
            else:
                raise CampaignError(
                    f"{where} has an unknown key {key[:40]!a}; known are {', '.join(_TEXTS)} and questions, which has "
                    "an entry for each column and the label"
                )


def in_order(texts: object, language: object) -> dict[str, Any]:
    """Return texts by language with the campaign's first language first; refuse a language without texts.

    Canonical JSON sorts languages, so a notice names the first one beside them. People whose language is not among
    them see that one.

    >>> list(in_order({"ar": {}, "en": {}}, "en"))
    ['en', 'ar']
    """
    known = dict(_entries(texts, "texts"))
    if language is None and not known:
        return {}
    if not isinstance(language, str) or language not in known:
        raise CampaignError("notice.language must be one of the languages of the texts; null if there are none")
    return {language: known[language]} | known


def missing_texts(texts: Mapping[str, Any], schema: FeatureSchema, label: str | None) -> dict[str, list[str]]:
    """Return, for each language, the parts without a text: people see them in the words of the document.

    Information duties count where the first language has them.

    Args:
        texts: texts by language, which were checked.
        schema: schema of the campaign.
        label: name of the label; None if it is not asked.

    >>> missing_texts({"de": {"purpose": "Lernen"}}, FeatureSchema(classes=("no", "yes")), "ill")
    {'de': ["the question 'ill'", "the answers 'no' and 'yes' to 'ill'"]}
    """
    asked = {column.name: () if column.edges else column.values for column in schema.columns}
    asked |= {} if label is None else {label: schema.classes}
    found: dict[str, list[str]] = {}
    told = {key: words for key, words in REQUIRED.items() if key in next(iter(texts.values()), {})}
    for language, said in texts.items():
        missing = [] if "purpose" in said else ["the purpose"]
        missing += [words for key, words in told.items() if key not in said]
        for name, values in asked.items():
            question = said.get("questions", {}).get(name, {})
            if "text" not in question:
                missing.append(f"the question {name!r}")
            # The page says 0 and 1 in its own words.
            left = [] if values == ("0", "1") else [each for each in values if each not in question.get("answers", {})]
            if left:
                missing.append(f"the answers {' and '.join(map(repr, left[:3]))} to {name!r}")
        if missing:
            found[language] = missing
    return found


def _check_questions(questions: object, known: Mapping[str, tuple[str, ...]], where: str) -> None:
    for name, question in _entries(questions, where):
        if name not in known:
            raise CampaignError(f"{where} has {name[:40]!a}, which is neither a column of the schema nor the label")
        inside = f"{where}.{name}"
        for key, value in _entries(question, inside):
            if key == "answers":
                _check_answers(value, known[name], f"{inside}.answers")
            elif key in ("text", "help"):
                expect_text(value, f"{inside}.{key}")
            else:
                raise CampaignError(f"{inside} has an unknown key {key[:40]!a}; known are text, help and answers")


def _check_answers(answers: object, values: tuple[str, ...], where: str) -> None:
    shown = dict.fromkeys(values)
    for value, text in _entries(answers, where):
        if value not in shown:
            raise CampaignError(f"{where}: {value[:40]!a} is not a declared value")
        shown[value] = expect_text(text, where)
    if look_alikes(text or value for value, text in shown.items()):
        raise CampaignError(f"{where} shows two answers by texts that look alike")


def _entries(value: object, where: str) -> list[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        raise CampaignError(f"{where} must be an object")
    return [(str(key), entry) for key, entry in value.items()]


def read_time(text: str, *, zone: str = "UTC", name: str = "closes") -> datetime:
    """Return a time in UTC. A date means the end of that day, or the start if it opens; it is a day of the zone.

    Args:
        text: a date, or a date and a time in ISO 8601, with or without an offset; the date also as 31.01.2027.
        zone: name of a time zone (IANA), for texts without an offset.
        name: what the time is: "opens", or another word for the error.

    >>> read_time("2027-01-31").isoformat(), read_time("31.1.2027", zone="Europe/Berlin").isoformat()
    ('2027-01-31T23:59:59+00:00', '2027-01-31T22:59:59+00:00')
    >>> read_time("2027-01-31", name="opens").isoformat()
    '2027-01-31T00:00:00+00:00'
    >>> read_time("2027-01-31T18:00:00+01:00").isoformat()
    '2027-01-31T17:00:00+00:00'
    """
    try:
        there = UTC if zone == "UTC" else ZoneInfo(zone)  # UTC needs no database of zones
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CampaignError(f"zone is '{zone}': give the name of a time zone such as Europe/Berlin, or UTC") from None
    try:
        iso = _DAY.sub(lambda day: f"{day[3]}-{day[2]:0>2}-{day[1]:0>2}", text.strip())
        read = datetime.fromisoformat(iso)
        if ":" not in iso and "T" not in iso:
            read = datetime.combine(read, time(0) if name == "opens" else _LAST_SECOND)
        return (read if read.tzinfo else read.replace(tzinfo=there)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise CampaignError(
            f"{name} is '{text}': give a date such as 2027-01-31 or 31.01.2027, or 2027-01-31T18:00:00Z"
        ) from None


def shown_answers(
    texts: Mapping[str, Any], name: str, values: Sequence[str], *, language: str = "en"
) -> tuple[str, ...]:
    """Return the answers to a question as people see them: texts of the notice, or the declared values.

    The participant's page shows the values 0 and 1 as no and yes.

    Args:
        texts: texts of the notice by language.
        name: name of the column or of the label.
        values: its declared values.
        language: language of the texts.

    >>> shown_answers({}, "ill", ("0", "1")), shown_answers({}, "ill", ("never", "often"))
    (('no', 'yes'), ('never', 'often'))
    >>> shown_answers({"de": {"questions": {"ill": {"answers": {"1": "ja"}}}}}, "ill", ("0", "1"), language="de")
    ('no', 'ja')
    """
    written = texts.get(language, {}).get("questions", {}).get(name, {}).get("answers", {})
    default = ("no", "yes") if tuple(values) == ("0", "1") else values
    return tuple(written.get(value, shown) for value, shown in zip(values, default, strict=True))


def _checked_time(moment: datetime, name: str) -> datetime:
    if moment.tzinfo is None or moment.microsecond or moment.year < 1000:
        raise CampaignError(f"{name} is {moment}: give a date with its time zone, to the second")
    return moment.astimezone(UTC)


def time_in_words(moment: datetime) -> str:
    """Write date, time and zone.

    >>> time_in_words(datetime(2027, 1, 31, 23, 59, 59, tzinfo=UTC))
    '2027-01-31 23:59:59 UTC'
    """
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
