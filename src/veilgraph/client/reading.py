"""Strict readers of JSON values that somebody else wrote: each returns the value or refuses the campaign."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, TypeVar

from veilgraph.client.refusals import CampaignError
from veilgraph.client.words import WORDS

T = TypeVar("T")
MAX_CAMPAIGN_LENGTH = 64 * 2**20
_MAX_DEPTH = 16  # levels of JSON; no document of a campaign has more than 7
_MAX_TEXT_LENGTH = 4000
TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
# Control, bidirectional and invisible characters could hide what a campaign says; the campaign format lists them.
_MISLEADING = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\uffff"
    r"\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    r"|(?<![^\x00-\x7f])[\u200c\u200d\ufe0e\ufe0f]|[\u200c\u200d](?![^\x00-\x7f])"
)
_SPACES = re.compile("[ \u1680\u2800]+")  # NFKC makes U+0020 of all others; a braille pattern without dots is blank
_UNSEEN = re.compile("[\u200c\u200d\ufe0e\ufe0f]")
# Possessive, and an unclosed text reaches to the end: no part of the JSON is read twice.
_JSON_TEXT = re.compile(r'"[^"\\]*+(?:\\.?+[^"\\]*+)*+"?+', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")
_NUMBER = re.compile(r"-?(Infinity|[0-9]+(\.[0-9]+)?(e[+-][0-9]+)?)")


def longer_text(one: T, other: T) -> T:
    """Return the value whose text is longer."""
    return max(one, other, key=lambda value: len(canonical_json(value)))


def read_json(text: str | bytes, *, most: int = MAX_CAMPAIGN_LENGTH) -> Any:
    """Read JSON of bounded size and depth, with whole numbers and without repeated keys; else raise a ValueError."""

    def refuse_number(_: str) -> None:
        raise CampaignError("a number in the campaign is not whole")

    def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise CampaignError("a key occurs twice in the campaign")
        return dict(pairs)

    if len(text) > most:
        raise CampaignError("the campaign is too large")
    content = text.decode() if isinstance(text, bytes) else text
    # The depth is counted before, because the reader calls itself at every level.
    steps = (1 if bracket in "[{" else -1 for bracket in _BRACKET.findall(_JSON_TEXT.sub("", content)))
    if max(accumulate(steps), default=0) > _MAX_DEPTH:
        raise CampaignError("the campaign is nested too deeply")
    return json.loads(content, parse_float=refuse_number, parse_constant=refuse_number, object_pairs_hook=unique_keys)


def content_id(content: object) -> str:
    """Return the SHA-256 of the canonical form of JSON values, in hexadecimal digits."""
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()


def read_hash(value: object, where: str) -> str:
    """Read a SHA-256 in hexadecimal digits."""
    if not re.fullmatch("[0-9a-f]{64}", read_text(value, where)):
        raise CampaignError(f"{where} must be 64 hexadecimal digits")
    return str(value)


def read_entries(value: object, where: str, known: str | Mapping[str, Any] | None = None) -> list[tuple[str, Any]]:
    """Return the entries of an object whose keys are all known."""
    names = known.split() if isinstance(known, str) else known
    if not isinstance(value, dict) or (names is not None and not all(key in names for key in value)):
        raise CampaignError(f"{where} must be an object, with known keys alone")
    return list(value.items())


def canonical_json(document: object) -> str:
    """Write JSON values in their only form: sorted keys, no spaces, ASCII."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def read_object(value: object, keys: str, where: str) -> dict[str, Any]:
    """Read an object with exactly these keys."""
    if not isinstance(value, dict) or set(value) != set(keys.split()):
        raise CampaignError(f"{where} must be an object with exactly the keys {keys.replace(' ', ', ')}")
    return value


def read_list(value: object, where: str, least: int = 1) -> list[Any]:
    """Read a list that is not too short."""
    if not isinstance(value, list) or len(value) < least:
        raise CampaignError(f"{where} must be a list, not empty")
    return value


def read_text(value: object, where: str, *, min_length: int = 1) -> str:
    """Read a text without control and invisible characters."""
    if not isinstance(value, str) or not min_length <= len(value) <= _MAX_TEXT_LENGTH:
        raise CampaignError(f"{where} must be text of {min_length} to {_MAX_TEXT_LENGTH} characters")
    if misleading := _MISLEADING.search(value):
        raise CampaignError(f"{where} holds U+{ord(misleading[0]):04X}, a control or invisible character")
    return value


def are_distinct(texts: Sequence[str]) -> bool:
    """Return whether no two texts look alike to a person."""
    return len({_look(text) for text in texts}) == len(texts)


def _look(text: str) -> str:
    """Return the normal form of a text: NFKC without joiners and selectors, single spaces, and none at the ends.

    A dot above an i or j, which have one, is not seen.
    """
    seen = unicodedata.normalize("NFKC", _UNSEEN.sub("", text))
    return _SPACES.sub(" ", re.sub("(?<=[ij])\u0307", "", seen.replace("\u0131\u0307", "i"))).strip(" ")


def read_whole(value: object, where: str) -> int:
    """Read a whole number above 0."""
    if type(value) is not int or not 1 <= value < WORDS:
        raise CampaignError(f"{where} must be a whole number from 1 to 2**53 - 1")
    return value


def read_number(value: object, where: str) -> float:
    """Read a number that is written as text."""
    if not isinstance(value, str) or len(value) > 40 or not _NUMBER.fullmatch(value):
        raise CampaignError(f"{where} must be a number, written as text")
    return float(value)


def check_epsilon(value: object, where: str) -> None:
    """Refuse an epsilon that is not above 0."""
    if not read_number(value, where) > 0:
        raise CampaignError(f"{where} must be above 0")


def read_date(value: object, where: str) -> datetime:
    """Read a time in UTC."""
    with suppress(ValueError):
        time = datetime.strptime(read_text(value, where), TIME_FORMAT).replace(tzinfo=UTC)
        if time.year >= 1000 and time.strftime(TIME_FORMAT) == value:
            return time
    raise CampaignError(f"{where} must be a UTC time such as 2027-01-31T00:00:00Z")


def check_node(node: object) -> str:
    """Return the name of a node if it can be a line of a table and a part of a URL."""
    allowed = isinstance(node, str) and 1 <= len(node) <= 256 and node not in (".", "..")
    if not allowed or any(c < " " or c == "\x7f" or "\ud800" <= c <= "\udfff" for c in str(node)):
        raise CampaignError("node must be text of 1 to 256 characters without control characters, not . or ..")
    return str(node)
