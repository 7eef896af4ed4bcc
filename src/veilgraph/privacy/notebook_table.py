"""Small HTML tables for notebooks. Colours are inherited, so that they fit a light and a dark theme."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    rows = "".join(
        f'<tr style="background:transparent"><th scope="row" style="{_CELL};font-weight:normal;opacity:.75">'
        f'{_escape(name)}</th><td style="{_CELL}">{_escape(str(value))}</td></tr>'
        for name, value in facts.items()
    )
    sentences = "".join(f'<div style="opacity:.75">{_escape(note)}</div>' for note in notes)
    return (
        f'<div style="color:inherit;margin:.3em 0"><strong>{_escape(title)}</strong>'
        f'<table style="border-collapse:collapse;color:inherit;font:inherit;margin:.2em 0">{rows}</table>'
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
