"""Public columns: what the organiser knows about people without asking them, declared in the schema."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from veilgraph.errors import SchemaError
from veilgraph.privacy.plain_text import look, misleading_character

KINDS = ("number", "category", "date", "embedding")
"""What a public column may hold; a table of text is read by it."""

LINK = "link"
"""Kind of what a campaign says to be known about links, which is in no column of the people table."""


@dataclass(frozen=True, kw_only=True)
class PublicColumn:
    """A column of the people table that is known without asking, such as a village or a department.

    No device is asked for it, no report has it, and no guarantee speaks about it. It costs no epsilon.

    Args:
        name: name of the column in the table.
        kind: one of `KINDS`; default: what the values look like. Codes that are written as numbers, such as postal
            codes, are better declared as "category".

    >>> PublicColumn(name="village", kind="colour")
    Traceback (most recent call last):
    veilgraph.errors.SchemaError: public column 'village': kind is 'colour'; use number, category, date or embedding, \
or leave it out
    """

    name: str
    kind: str | None = None

    def __post_init__(self) -> None:
        if character := misleading_character(self.name):
            raise SchemaError(
                f"the name of a public column holds {character}, a control or invisible character: remove it"
            )
        if not self.name:
            raise SchemaError("a public column has no name: give it the name that it has in the table of people")
        if self.kind not in (None, LINK, *KINDS):
            raise SchemaError(
                f"public column '{self.name}': kind is '{self.kind}'; use {', '.join(KINDS[:-1])} or {KINDS[-1]}, "
                "or leave it out"
            )

    @property
    def document(self) -> dict[str, str]:
        """Name and declared kind, as a schema has them."""
        return {"name": self.name} | ({} if self.kind is None else {"kind": self.kind})


def of_people(columns: Iterable[PublicColumn]) -> tuple[PublicColumn, ...]:
    """Return the columns of the people table, without what is known about links."""
    return tuple(column for column in columns if column.kind != LINK)


def check_not_asked(asked: Iterable[str], public: Iterable[PublicColumn]) -> None:
    """Refuse a column that is asked and public, also in other letters: `is_ill` and `Is ill` are one thing.

    >>> check_not_asked(["age"], [PublicColumn(name="Age")])
    Traceback (most recent call last):
    veilgraph.errors.SchemaError: 'age' is asked and 'Age' is public: what is known without asking costs no epsilon, \
so take one of the two out of the schema
    """
    known = {_meant(column.name): column.name for column in public}
    for name in asked:
        if (other := known.get(_meant(name))) is not None:
            raise SchemaError(
                f"'{name}' is asked and '{other}' is public: what is known without asking costs no epsilon, so take "
                "one of the two out of the schema"
            )


def _meant(name: str) -> str:
    """Return a name without cases, spaces and punctuation; a name that has nothing else stays."""
    plain = look(look(name).casefold())
    return "".join(letter for letter in plain if unicodedata.category(letter)[0] not in "PZ") or plain


def parse_public(stated: object) -> tuple[PublicColumn, ...]:
    """Read public columns as a campaign states them: their kinds by name, None where none is declared.

    >>> parse_public({"village": "category", "age": None})
    (PublicColumn(name='age', kind=None), PublicColumn(name='village', kind='category'))
    """
    if not isinstance(stated, dict) or not stated:
        raise SchemaError("public must be an object with a kind for each public column, and be left out without one")
    return tuple(PublicColumn(name=name, kind=stated[name]) for name in sorted(stated))


def public_document(columns: Iterable[PublicColumn]) -> dict[str, str | None]:
    """Return the kinds of public columns by name: the inverse of `parse_public`."""
    return {column.name: column.kind for column in columns}
