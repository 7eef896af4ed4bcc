"""A result is printed in one way: its document as JSON, or its sentences and tables in their order."""

from __future__ import annotations

import json

import pytest
from rich.table import Table

from veilgraph.cli.output import Facts, emit

Capture = pytest.CaptureFixture[str]


def test_json_is_the_document_alone(capsys: Capture) -> None:
    emit(Facts({"people": 3, "name": "Zoë"}, ["3 people."]), as_json=True)
    printed = capsys.readouterr().out
    assert json.loads(printed) == {"people": 3, "name": "Zoë"}
    assert printed.isascii()


def test_words_are_lines_and_tables_in_their_order(capsys: Capture) -> None:
    table = Table("design", "cost")
    table.add_row("[bold]sets[/bold]", "1.0")
    emit(Facts({}, ["Before.", table, "", "After."]), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0], lines[-2:]) == ("Before.", ["", "After."])
    assert any("[bold]sets[/bold]" in line for line in lines)  # a name is no markup


def test_a_line_cannot_move_the_cursor(capsys: Capture) -> None:
    emit(Facts({}, ["\x1b[2Jgone"]), as_json=False)
    assert "\x1b" not in capsys.readouterr().out
