r"""Strict JSON of text and whole numbers, in one canonical form.

Numbers that need not be whole (bin edges, epsilons) are written as text, so that the canonical form of a document is
the same in every language. Every `expect_*` function returns its value if it has the right type, and raises a
`CampaignError` with the place of the value otherwise.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, TypeVar

from veilgraph.errors import CampaignError
from veilgraph.privacy.plain_text import misleading_character

T = TypeVar("T")

MAX_TEXT_LENGTH = 4000
# A campaign of 16,384 features with long words fits; no document of this project nests deeper than 7 levels.
MAX_JSON_LENGTH = 64 * 2**20
MAX_JSON_DEPTH = 16
TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
# Possessive, and an unclosed text reaches to the end: no part of the JSON is read twice.
_STRING = re.compile(r'"[^"\\]*+(?:\\.?+[^"\\]*+)*+"?+', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")
_STEP = {"[": 1, "{": 1, "]": -1, "}": -1}
_NUMBER = re.compile(r"-?(Infinity|[0-9]+(\.[0-9]+)?(e[+-][0-9]+)?)")


class UnreadableError(ValueError):
    """JSON that is too long or too deep, or has a key twice."""


def canonical_json(document: object) -> str:
    r"""Return the text that is hashed, sent and stored: sorted keys, no spaces, ASCII only.

    >>> canonical_json({"b": [1, None], "a": "é"})
    '{"a":"\\u00e9","b":[1,null]}'
    """
    return _CANONICAL.encode(document)


def content_id(content: object) -> str:
    """Return the SHA-256 of the canonical form, in hexadecimal digits."""
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()


def number_text(number: float) -> str:
    """Return the shortest text that reads back as the same double.

    >>> number_text(30.0), number_text(0.1), number_text(math.inf)
    ('30', '0.1', 'Infinity')
    """
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return repr(float(number)).removesuffix(".0")


def parse_json(text: str | bytes, *, parse_float: Callable[[str], Any] = float) -> Any:
    """Parse JSON of bounded size and depth in UTF-8, without repeated keys; anything else is a ValueError.

    The depth is counted before anything is parsed, so the parser never recurses further than that. JSON in which the
    parser finds a text where this function does not breaks off there in both.

    Args:
        text: the JSON.
        parse_float: function that reads fractions, infinities and NaN.

    >>> parse_json('{"a": [1, "[["]}')
    {'a': [1, '[[']}
    >>> parse_json("[" * 17 + "]" * 17)
    Traceback (most recent call last):
    veilgraph.privacy.strict_json.UnreadableError: JSON of 17 levels: at most 16 are read
    """
    if len(text) > MAX_JSON_LENGTH:
        raise UnreadableError(f"JSON of {len(text)} characters: at most {MAX_JSON_LENGTH} are read")
    content = text.decode() if isinstance(text, bytes) else text
    if (depth := _depth(content)) > MAX_JSON_DEPTH:
        raise UnreadableError(f"JSON of {depth} levels: at most {MAX_JSON_DEPTH} are read")
    return json.loads(content, parse_float=parse_float, parse_constant=parse_float, object_pairs_hook=_unique_keys)


def _depth(text: str) -> int:
    brackets = _BRACKET.findall(_STRING.sub("", text))
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0)


def _unique_keys(items: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(items)) < len(items):
        raise UnreadableError("a key occurs twice: two readers could understand it differently")
    return found


def parse_strict(text: str | bytes) -> object:
    """Parse canonical JSON: no fractions, no repeated keys, and no second way to write the same document.

    A line break at the end is allowed.
    """

    def refuse_number(_: str) -> None:
        raise CampaignError("a number is not whole: a campaign holds whole numbers and text only")

    try:
        document: object = parse_json(text, parse_float=refuse_number)
    except CampaignError:
        raise
    except ValueError as error:
        why = error if isinstance(error, UnreadableError) else type(error).__name__
        raise CampaignError(f"it is not a campaign: not readable as JSON ({why})") from None
    content = text.decode() if isinstance(text, bytes) else text
    if content.removesuffix("\n") != canonical_json(document):
        raise CampaignError("it is not written in its canonical form: get the file as 'veilgraph init' wrote it")
    return document


def expect_object(value: object, keys: set[str], where: str) -> dict[str, Any]:
    """Return an object with exactly these keys."""
    if not isinstance(value, dict):
        raise CampaignError(f"{where} must be an object with the keys {', '.join(sorted(keys))}")
    if wrong := sorted(keys ^ set(value)):
        what = "has an unknown key" if wrong[0] in value else "lacks the key"
        raise CampaignError(f"{where} {what} {wrong[0][:40]!a}")
    return value


def expect_list(value: object, where: str, *, min_length: int = 1) -> Sequence[object]:
    """Return a list of at least `min_length` entries."""
    if not isinstance(value, list) or len(value) < min_length:
        raise CampaignError(f"{where} must be a list{', not empty' if min_length else ''}")
    return value


def expect_text(value: object, where: str, *, min_length: int = 1) -> str:
    """Return text of at least `min_length` characters, none of which could mislead a reader."""
    if not isinstance(value, str) or not min_length <= len(value) <= MAX_TEXT_LENGTH:
        raise CampaignError(f"{where} must be text of {min_length} to {MAX_TEXT_LENGTH} characters")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise CampaignError(f"{where} is not valid Unicode text")
    if character := misleading_character(value):
        raise CampaignError(f"{where} holds {character}, a control or invisible character: remove it")
    return value


def expect_whole(value: object, where: str, low: int, high: int) -> int:
    """Return a whole number from `low` to `high`."""
    if type(value) is not int or not low <= value <= high:
        raise CampaignError(f"{where} must be a whole number from {low} to {high}")
    return value


def expect_number(value: object, where: str) -> float:
    """Return a number that is written as text."""
    if not isinstance(value, str) or len(value) > 40 or not _NUMBER.fullmatch(value):
        raise CampaignError(f"{where} must be a number, written as text")
    return float(value)


def expect_choice(value: object, choices: Mapping[str, T], where: str) -> T:
    """Return the value of a choice; refuse every text that is not among the choices."""
    if not isinstance(value, str) or value not in choices:
        raise CampaignError(f"{where} is not {' or '.join(map(repr, choices))}: clients know no other")
    return choices[value]


def expect_time(value: object, where: str) -> datetime:
    """Return a UTC time that is written as text."""
    try:
        return datetime.strptime(expect_text(value, where), TIME_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        raise CampaignError(f"{where} must be a UTC time such as 2027-01-31T00:00:00Z") from None
