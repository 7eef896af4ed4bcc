"""Random mutations of JSON documents."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

from veilgraph.privacy.strict_json import content_id

ODD: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    2**53,
    2**53 - 1,
    2**63,
    10**400,
    0.5,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "0",
    "1",
    "-1",
    "NaN",
    "Infinity",
    "-Infinity",
    "1e+400",
    "1e-400",
    "٣",
    " 1",
    "x",
    "\x00",
    "\ud800",
    "x" * 5000,
    [],
    [[]],
    {},
    {"": None},
    [None],
    "2027-02-30T00:00:00Z",
    "2027-1-1T0:0:0Z",
    "2100-02-30T00:00:00Z",
    "2100-12-31T24:00:00Z",
    "2100-12-31T23:59:60Z",
    "0999-01-01T00:00:00Z",
    "+012100-01-01T00:00:00Z",
    "2100-01-01T00:00:00.000Z",
    "2100",
    "1.",
    "+1",
    "1E5",
    "1e5",
    "infinity",
    "-0",
    "\u202e",
    "a\u200d",
    "\U0001f469\u200d\U0001f680",
    "\U0001f4cf" * 3000,
    "__proto__",
]


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every value inside, and to the document itself."""
    yield path
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in items:
        yield from places(value, (*path, key))


def mutate(document: Any, rng: random.Random) -> Any:
    """Replace, remove, add, double or shift one value at a random place."""
    mutant = copy.deepcopy(document)
    path = rng.choice([path for path in places(mutant) if path])
    inner = mutant
    for key in path[:-1]:
        inner = inner[key]
    change: Callable[[], None] = rng.choice(
        [
            lambda: inner.__setitem__(path[-1], rng.choice(ODD)),
            lambda: inner.__delitem__(path[-1]),
            lambda: _add(inner, path[-1], rng),
            lambda: inner.__setitem__(path[-1], _shifted(inner[path[-1]], rng)),
        ]
    )
    change()
    return mutant


def _add(inner: Any, key: Any, rng: random.Random) -> None:
    if isinstance(inner, dict):
        inner[rng.choice(["x", "Id", "", "__proto__", "features "])] = rng.choice(ODD)
    else:
        inner.insert(key, rng.choice([rng.choice(ODD), copy.deepcopy(inner[key])]))


def _shifted(value: Any, rng: random.Random) -> Any:
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int):
        return value + rng.choice([-1, 1])
    if isinstance(value, str) and value:
        at = rng.randrange(len(value))
        return value[:at] + rng.choice("0123456789.eé-") + value[at + rng.choice([0, 1]) :]
    return [value]


def mutated_campaigns(text: str, count: int, rng: random.Random) -> Iterator[str]:
    """Yield documents with one to three mutations. Most have a valid id, as a forger's would; some are damaged text."""
    document = json.loads(text)
    for i in range(count):
        mutant = document
        for _ in range(rng.choice([1, 1, 2, 3])):
            mutant = mutate(mutant, rng) if isinstance(mutant, dict) and mutant else mutant
        if i % 10 and isinstance(mutant, dict):
            mutant.pop("id", None)
            mutant = {**mutant, "id": content_id_or_none(mutant.get("bound", mutant))}
        written = json.dumps(mutant, sort_keys=True, separators=(",", ":"))
        if i % 10 == 8:
            written = rng.choice(OTHER_WRITINGS)(written, rng)
        if i % 10 == 9:
            at = rng.randrange(len(written))
            written = written[:at] + rng.choice(["", '"', "}", "\x00", "[[", "1e5", "NaN"]) + written[at + 1 :]
        yield written


def _replaced_one(pattern: str, replacement: str) -> Callable[[str, random.Random], str]:
    def replace(text: str, rng: random.Random) -> str:
        found = list(re.finditer(pattern, text))
        if not found:
            return text
        match = rng.choice(found)
        return text[: match.start()] + match.expand(replacement) + text[match.end() :]

    return replace


# Other writings of the same document, which a lenient reader could take for it.
OTHER_WRITINGS: list[Callable[[str, random.Random], str]] = [
    lambda text, _: json.dumps(json.loads(text)),
    lambda text, _: json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False),
    lambda text, _: text + "\n",
    lambda text, _: text + "\n\n",
    lambda text, _: text + " ",
    lambda text, _: "\ufeff" + text,
    _replaced_one(r'("\w+":)(\d+)', r"\1\2,\1\2"),
    _replaced_one(r'("\w+":)("[^"\\]*")', r'\1"x",\1\2'),
    _replaced_one(r":(\d+)", r":\1.0"),
    _replaced_one(r":(\d+)", r":\1e0"),
    _replaced_one(r":(\d+)", r":-\1"),
    _replaced_one(r'"(\w)', r'"\\u00e9\1'),
    _replaced_one(r"\\u(\w)", r"\\U\1"),
    _replaced_one("x", r"\\u0078"),
    _replaced_one("/", r"\\/"),
]


def content_id_or_none(document: Any) -> str | None:
    try:
        return content_id(document)
    except ValueError:  # NaN and infinity have no canonical form
        return None
