"""Texts that could hide or forge what a person reads are found, escaped and quoted."""

from __future__ import annotations

import ast
import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import veilgraph.cli
from tests.support.forgeries import ALIKE, APART, HONEST_TEXTS, MISLEADING_TEXTS
from veilgraph.privacy.plain_text import escape, look, look_alikes, misleading_character, quote, quoted_lines

BIDIRECTIONAL = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]


def test_a_misleading_text_is_found_and_escaped_and_texts_of_people_stay_as_they_are() -> None:
    for kind, text in MISLEADING_TEXTS.items():
        assert misleading_character(text), kind
        assert misleading_character(escape(text)) is None, kind
    for text in HONEST_TEXTS.values():
        assert misleading_character(text) is None
        assert escape(text) == text
    for text in [*HONEST_TEXTS.values(), MISLEADING_TEXTS["an escape sequence"]]:
        assert json.loads(quote(text)) == text


def test_texts_that_look_alike_have_one_look_and_those_that_a_reader_tells_apart_stay_apart() -> None:
    for one, other in ALIKE.values():
        assert look(one) == look(other) == look(look(other))
        assert look_alikes(["x", one, "y", other]) == (one, other)
        assert look_alikes([one, one]) == (one, one)
    assert [pair for pair in APART.values() if look_alikes(pair) is not None] == []


def test_controls_separators_surrogates_and_bidirectional_controls_mislead_wherever_they_stand() -> None:
    controls = [code for code in range(0x110000) if unicodedata.category(chr(code)) in ("Cc", "Zl", "Zp", "Cs")]
    for code in [*controls, *BIDIRECTIONAL]:
        for text in (chr(code), f"a{chr(code)}b", f"é{chr(code)}é"):
            assert misleading_character(text) == f"U+{code:04X}"


def test_the_page_of_the_format_lists_exactly_what_is_refused() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "campaign-format.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (U\+[^|]+) \|", page, flags=re.MULTILINE)
    always = {code for row in rows if " at the " not in row for code in _codes(row)}
    starting, ending = ({*_codes(row)} for row in rows if " at the " in row)
    for refused, before, after in ((always, "é", "é"), (always | starting, "x", "é"), (always | ending, "é", "x")):
        assert all(misleading_character(f"{before}{chr(code)}{after}") for code in refused)
        others = "".join(f"{before}{chr(code)}{after}" for code in range(128, 0x110000) if code not in refused)
        assert misleading_character(others) is None


def _codes(row: str) -> Iterator[int]:
    for first, last in re.findall(r"U\+([0-9A-F]+)(?:-([0-9A-F]+))?", row):
        yield from range(int(first, 16), int(last or first, 16) + 1)


@given(text=st.text())
def test_escaped_text_is_one_line_without_misleading_characters(text: str) -> None:
    assert misleading_character(escape(text)) is None
    assert len(escape(text).splitlines()) <= 1


@given(text=st.text())
def test_quoted_text_ends_where_its_quotation_ends(text: str) -> None:
    quoted = quote(text)
    assert misleading_character(quoted) is None
    inside = quoted[1:-1].replace("\\\\", "").replace('\\"', "")
    assert '"' not in inside


@given(text=st.text(max_size=300), width=st.integers(20, 120))
def test_every_line_of_a_quotation_fits_and_begins_with_a_bar(text: str, width: int) -> None:
    for line in quoted_lines(f"Purpose: {quote(text)}", width):
        assert line.startswith("  | ")
        assert sum(1 if character.isascii() else 2 for character in line) <= max(width, 40)


def test_every_command_prints_through_the_function_that_escapes() -> None:
    folder = Path(veilgraph.cli.__file__).parent
    for path in folder.glob("*.py"):
        if path.name == "_common.py":
            continue
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        printed = [ast.unparse(call) for call in calls if ast.unparse(call) in ("print", "typer.echo", "typer.secho")]
        assert printed == [], path.name
