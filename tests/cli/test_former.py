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


def test_a_former_name_is_answered_by_what_replaced_it_a_command_of_today(capsys: pytest.CaptureFixture[str]) -> None:
    commands = set(_names(parser_of(app)))
    assert not FORMER.keys() & commands
    for name, said in FORMER.items():
        assert main(["--import", "mine.py", *name.split(), "--any", "option"]) == 2
        written = capsys.readouterr()
        assert (written.out, written.err) == ("", f"error: 'veilgraph {name}' is not there any more: {said}\n")
        assert any(f"veilgraph {command}" in said for command in commands)
