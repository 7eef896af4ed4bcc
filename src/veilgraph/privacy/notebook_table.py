"""Small HTML tables for notebooks. Colours are inherited, so that they fit a light and a dark theme."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape as escape_all

_CELL = "padding:.15em .8em .15em 0;text-align:left;vertical-align:top;background:transparent"
_MAX_LISTED = 12


def _escape(text: str) -> str:
    """Escape a text between tags, where quotation marks are harmless."""
    return escape_all(text, quote=False)


def html_table(title: str, facts: Mapping[str, object], *, notes: Iterable[str] = ()) -> str:
    """Return a table with one row for each fact, under a title; sentences follow it. Every text is escaped.

    >>> html_table("Budget", {"epsilon_y": "<1>"}).count("&lt;1&gt;")
    1
    """
    return _framed(title, [_row([_heading(name, "row"), _cell(value)]) for name, value in facts.items()], notes)


def html_columns(
    title: str, names: Sequence[str], rows: Iterable[Sequence[object]], *, notes: Iterable[str] = ()
) -> str:
    """Return a table with a heading for each column, under a title; sentences follow it. Every text is escaped.

    >>> html_columns("Results", ["method", "accuracy"], [["<veil>", "80 %"]]).count("&lt;veil&gt;")
    1
    """
    head = _row([_heading(name, "col") for name in names])
    return _framed(title, [head, *(_row([_cell(value) for value in row]) for row in rows)], notes)


def _heading(name: str, scope: str) -> str:
    return f'<th scope="{scope}" style="{_CELL};font-weight:normal;opacity:.75">{_escape(name)}</th>'


def _cell(value: object) -> str:
    return f'<td style="{_CELL}">{_escape(str(value))}</td>'


def _row(cells: Iterable[str]) -> str:
    return f'<tr style="background:transparent">{"".join(cells)}</tr>'


def _framed(title: str, rows: Iterable[str], notes: Iterable[str]) -> str:
    sentences = "".join(f'<div style="opacity:.75">{_escape(note)}</div>' for note in notes)
    return (
        f'<div style="color:inherit;margin:.3em 0"><strong>{_escape(title)}</strong>'
        f'<table style="border-collapse:collapse;color:inherit;font:inherit;margin:.2em 0">{"".join(rows)}</table>'
        f"{sentences}</div>"
    )


def listed(names: Iterable[object]) -> str:
    """Return names separated by commas; of many, the first ones and how many more there are.

    >>> listed(range(14))
    '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more'
    """
    every = [str(name) for name in names]
    more = len(every) - _MAX_LISTED
    return ", ".join(every[:_MAX_LISTED]) + (f" and {more} more" if more > 0 else "")
