"""Write the part of the page about the command line that follows from the help of the commands.

python -m docs.cli

Everything above the mark in `docs/reference/cli.md` is written by hand and stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from veilgraph.cli.app import app, parser_of

PAGE = Path(__file__).parent / "reference" / "cli.md"
OFTEN = 3
"""Number of commands from which on an option is described once for all of them."""
SHARED = "**Options that several commands have.** The section of a command names those that it takes."
MARK = "<!-- Below this line the page is written by: python -m docs.cli -->"


def page(written: str) -> str:
    """Return the whole page, from the present one.

    Raises:
        ValueError: if the mark is missing.
    """
    head, mark, _ = written.partition(MARK)
    if not mark:
        raise ValueError(f"{PAGE.name} lacks the line {MARK}")
    commands = dict(_commands(parser_of(app), "veilgraph"))
    counts = Counter(_row(parameter) for command in commands.values() for parameter in command.params)
    # An option is shared if its name alone says which one it is.
    often = [row for row, count in counts.items() if count >= OFTEN]
    names = Counter(map(_name, often))
    shared = {row: _name(row) for row in often if names[_name(row)] == 1}
    sections = [f"{SHARED}\n\n{_table(list(shared))}", *(_section(commands[name], name, shared) for name in commands)]
    return head + MARK + "\n" + "".join(f"\n{section}\n" for section in sections)


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the name of a command and the command, or those of a group."""
    children = getattr(command, "commands", None)
    if children is None:
        yield name, command
    for child_name, child in (children or {}).items():
        yield from _commands(child, f"{name} {child_name}")


def _section(command: Any, name: str, shared: Mapping[str, str]) -> str:
    paragraphs = [" ".join(paragraph.split()) for paragraph in command.help.split("\n\n")]
    # Arguments come first, as on the command line.
    rows = [_row(each) for each in sorted(command.params, key=lambda each: each.param_type_name != "argument")]
    own, others = [row for row in rows if row not in shared], [shared[row] for row in rows if row in shared]
    told = [f"Also: {', '.join(others)}."] if others else []
    return "\n\n".join([f"## {name}", *paragraphs, *([_table(own)] if own else []), *told])


def _table(rows: Sequence[str]) -> str:
    return "\n".join(["| option | default | meaning |", "|---|---|---|", *rows])


def _name(row: str) -> str:
    return row.split(" | ")[0].removeprefix("| ")


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        names = [parameter.name.upper()]
    else:
        names = [*parameter.opts, *parameter.secondary_opts]
    meaning = (parameter.help or "").replace("|", "\\|")
    return f"| {', '.join(f'`{name}`' for name in names)} | {_default(parameter)} | {meaning} |"


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    if parameter.default in (None, False):
        return f"`{parameter.envvar}`" if parameter.envvar else ""
    return "on" if parameter.default is True else f"`{parameter.default}`"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
