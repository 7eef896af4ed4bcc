"""Former names of commands say what replaced them."""

from collections.abc import Iterator
from typing import Any

import pytest

from veilgraph.cli.app import app, main, parser_of
from veilgraph.cli.former import FORMER


def _names(command: Any, name: str = "") -> Iterator[str]:
    for child_name, child in getattr(command, "commands", {}).items():
        whole = f"{name} {child_name}".strip()
        yield whole
        yield from _names(child, whole)


def test_a_former_name_is_no_command_of_today() -> None:
    assert not FORMER.keys() & set(_names(parser_of(app)))


@pytest.mark.parametrize("name", FORMER)
def test_a_former_name_is_answered_by_what_replaced_it(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--import", "mine.py", *name.split(), "--any", "option"]) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err == f"error: 'veilgraph {name}' is not there any more: {FORMER[name]}\n"


@pytest.mark.parametrize("name", FORMER)
def test_what_replaced_a_command_is_a_command_of_today(name: str) -> None:
    """The sentence names at least one command as it is typed."""
    commands = set(_names(parser_of(app)))
    assert any(f"veilgraph {command}" in FORMER[name] for command in commands)
