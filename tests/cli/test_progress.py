"""What the library tells of its choices reaches standard error while a command runs, and not afterwards."""

from __future__ import annotations

import logging

import pytest

from veilgraph.cli._common import show_progress
from veilgraph.progress import say


def test_choices_of_the_library_are_printed_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    level = logging.getLogger("veilgraph").level
    with show_progress("run"):
        say("bags: [streamed]")
    say("nobody listens")
    printed = capsys.readouterr()
    assert printed.err == "run: bags: [streamed]\n"
    assert printed.out == ""
    assert logging.getLogger("veilgraph").level == level
