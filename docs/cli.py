"""Write the part of the page about the command line that follows from the help of the commands.

python -m docs.cli

Everything above the mark in `docs/reference/cli.md` is written by hand and stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from veilgraph.cli.app import app, parser_of

PAGE = Path(__file__).parent / "reference" / "cli.md"
MARK = "<!-- Below this line the page is written by: python -m docs.cli -->"


def page(written: str) -> str:
    """Return the whole page, from the present one.

    Raises:
        ValueError: if the mark is missing.
    """
    head, mark, _ = written.partition(MARK)
    if not mark:
        raise ValueError(f"{PAGE.name} lacks the line {MARK}")
    return head + MARK + "\n" + "".join(f"\n{section}\n" for section in _sections(parser_of(app), "veilgraph"))


def _sections(command: Any, name: str) -> Iterator[str]:
    """Yield a section for a command, or for every command of a group."""
    children = getattr(command, "commands", None)
    if children is None:
        yield _section(command, name)
    for child_name, child in (children or {}).items():
        yield from _sections(child, f"{name} {child_name}")


def _section(command: Any, name: str) -> str:
    paragraphs = [" ".join(paragraph.split()) for paragraph in command.help.split("\n\n")]
    # Arguments come first, as on the command line.
    parameters = sorted(command.params, key=lambda parameter: parameter.param_type_name != "argument")
    rows = ["| option | default | meaning |", "|---|---|---|", *map(_row, parameters)]
    return "\n\n".join([f"## {name}", *paragraphs, *(["\n".join(rows)] if parameters else [])])


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
