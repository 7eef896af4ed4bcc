"""What people are told, in a file that the owner edits: what is said, and blanks for what is missing."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import tomli_w

from veilgraph.atomic_files import write_atomically
from veilgraph.campaign import Campaign
from veilgraph.campaign.information_duties import DUTIES
from veilgraph.campaign.notice import read_time
from veilgraph.errors import CampaignError
from veilgraph.privacy.schema import FeatureSchema
from veilgraph.privacy.strict_json import TIME_FORMAT

_HEADER = """\
# What people are told. Fill in what is "", change what you like, and run 'veilgraph init' on this folder again:
# a running collector takes it up. Reports are bound to the questions and answers themselves, which stay as they are.
# From "controller" to "rights", the texts are what the law wants people to be told (Article 13 GDPR). What the first
# language says is shown in all. "rights" is for what you add to the rights that everybody has.

"""
_TIMES = ("closes", "retention")
_CLOSING = re.compile(r"^closes\s*=.*$", re.MULTILINE)
_KEYS = ("purpose", "contact", *_TIMES, "note", "texts")


def first_texts(schema: FeatureSchema, label: str, *, purpose: str, contact: str) -> dict[str, Any]:
    """Return the texts of the language in which the campaign was written: each question and answer as it is.

    >>> first_texts(FeatureSchema(classes=("no", "yes")), "Ill?", purpose="Learn", contact="us")["questions"]
    {'Ill?': {'text': 'Ill?', 'answers': {'no': 'no', 'yes': 'yes'}}}
    """
    declared = {column.name: () if column.edges else column.values for column in schema.columns}
    questions = {
        name: {"text": name} | ({"answers": {answer: answer for answer in answers}} if answers else {})
        for name, answers in (declared | {label: schema.classes}).items()
    }
    return {"purpose": purpose, "contact": contact, "questions": questions}


def write_notice(path: Path, campaign: Campaign, languages: Sequence[str]) -> None:
    """Write the notice of a campaign, with a blank for each text that a language lacks.

    Args:
        path: the file.
        campaign: the campaign.
        languages: languages of the texts, the first one first.
    """
    notice, label = campaign.notice.document, campaign.label_name
    whole = first_texts(campaign.schema, label, purpose=notice["purpose"], contact=notice["contact"])
    said, questions = campaign.schema.texts, whole.pop("questions")
    blank = _blank(whole | dict.fromkeys(DUTIES, "") | {"questions": questions})
    document = {key: notice[key] or "" for key in _KEYS if key != "texts"}
    document["texts"] = {language: _filled(blank, said.get(language, {})) for language in languages}
    write_atomically(path, _HEADER + tomli_w.dumps(document), public=True)


def write_closing(path: Path, closes: datetime) -> None:
    """Write another closing time; all that the owner wrote besides stays as it is."""
    _read(path)  # a file that is no notice is refused
    text, line = path.read_text(encoding="utf-8-sig"), f'closes = "{closes.strftime(TIME_FORMAT)}"'
    replaced, found = _CLOSING.subn(line, text, count=1)
    write_atomically(path, replaced if found else f"{line}\n{text}", public=True)


def read_notice(path: Path, *, zone: str = "UTC") -> dict[str, Any]:
    """Return what `Campaign.revise` takes: purpose, contact, times, note and texts. Blanks are left out.

    Args:
        path: the file.
        zone: time zone of times without an offset.
    """
    said = _without_blanks(_read(path))
    return said | {key: read_time(said[key], zone=zone, name=key) for key in _TIMES if key in said}


def languages_of(path: Path) -> tuple[str, ...]:
    """Return the languages of a notice file, also those that have blanks alone."""
    return tuple(_read(path).get("texts", {}))


def _read(path: Path) -> dict[str, Any]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise CampaignError(f"{path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CampaignError(f"{path} is not TOML in UTF-8: {error}") from None
    if unknown := [key for key in document if key not in _KEYS]:
        raise CampaignError(f"{path} has an unknown key {unknown[0]!a}; it holds {', '.join(_KEYS)}")
    if wrong := [key for key in document if not isinstance(document[key], dict if key == "texts" else str)]:
        raise CampaignError(f"{path}: {wrong[0]} is not {'a table of languages' if wrong[0] == 'texts' else 'a text'}")
    return document


def _blank(texts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same tables with a blank for each text."""
    return {key: _blank(value) if isinstance(value, Mapping) else "" for key, value in texts.items()}


def _filled(blank: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables with what is said in place of blanks, and with what is said besides."""
    filled = {
        key: _filled(value, said.get(key, {})) if isinstance(value, Mapping) else said.get(key, value)
        for key, value in blank.items()
    }
    return filled | {key: value for key, value in said.items() if key not in blank}


def _without_blanks(texts: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: _without_blanks(value) if isinstance(value, Mapping) else value for key, value in texts.items()}
    return {key: value for key, value in kept.items() if value not in ("", {})}
