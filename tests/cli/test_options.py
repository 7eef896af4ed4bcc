"""Groups of options: a command takes frozen objects, and people type single options."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

import veilgraph.cli
from veilgraph.cli.app import app, parser_of
from veilgraph.cli.options import Settings, takes_groups


@dataclass(frozen=True, kw_only=True)
class Size:
    """Two options."""

    width: Annotated[int, typer.Option(help="How wide.")]
    height: Annotated[int, typer.Option(help="How high.")] = 2


def complete(incomplete: str) -> list[str]:
    return [name for name in ("red", "green") if name.startswith(incomplete)]


@dataclass(frozen=True, kw_only=True)
class Paint:
    """An option that a shell completes, and one that may be repeated."""

    color: Annotated[str, typer.Option(help="Which colour.", autocompletion=complete)] = "red"
    layer: Annotated[list[str] | None, typer.Option(help="Layers.")] = None


@takes_groups
def grouped(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Who.")],
    size: Size,
    paint: Paint,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Paint a wall."""
    typer.echo((name, size, paint, as_json, context.get_parameter_source("height") is not None))


def single(
    name: Annotated[str, typer.Argument(help="Who.")],
    width: Annotated[int, typer.Option(help="How wide.")],
    height: Annotated[int, typer.Option(help="How high.")] = 2,
    color: Annotated[str, typer.Option(help="Which colour.", autocompletion=complete)] = "red",
    layer: Annotated[list[str] | None, typer.Option(help="Layers.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Paint a wall."""


def application(command: object) -> typer.Typer:
    made = typer.Typer(rich_markup_mode=None)
    made.command("paint")(command)  # type: ignore[type-var]
    return made


def said(command: object, *words: str) -> str:
    return CliRunner().invoke(application(command), list(words)).output


def test_a_command_gets_its_groups_with_what_was_typed_and_with_defaults() -> None:
    expected = ("Ada", Size(width=3), Paint(color="green", layer=["a", "b"]), True, True)
    typed = ["Ada", "--width=3", "--color=green", "--layer=a", "--layer=b", "--json"]
    assert said(grouped, *typed) == f"{expected}\n"
    assert f"{Size(width=3, height=4)}" in said(grouped, "Ada", "--width=3", "--height=4")


@pytest.mark.parametrize("words", [["--help"], [], ["Ada"], ["Ada", "--width=x"], ["Ada", "--width=1", "--hight=2"]])
def test_help_and_messages_are_those_of_single_options(words: list[str]) -> None:
    assert said(grouped, *words) == said(single, *words)


def test_an_option_of_a_group_is_completed() -> None:
    environment = {"_PAINT_COMPLETE": "complete_bash", "COMP_WORDS": "paint Ada --color g", "COMP_CWORD": "3"}
    outcome = CliRunner().invoke(application(grouped), [], prog_name="paint", env=environment)
    assert outcome.output.split() == ["green"]


@dataclass(frozen=True, kw_only=True)
class Finish(Settings):
    """Settings of three kinds."""

    coats: Annotated[int, typer.Option(help="How many coats.")] = 1
    gloss: Annotated[float | None, typer.Option(help="How glossy; 0 to 1.")] = None
    days: Annotated[list[float] | None, typer.Option(help="Days to dry.")] = None


@takes_groups
def finished(finish: Finish) -> None:
    """Finish a wall."""
    typer.echo(finish)


def test_settings_are_one_option_that_reads_each_as_its_kind() -> None:
    assert said(finished) == f"{Finish()}\n"
    typed = ["--set", "coats=2", "--set=gloss=0.5", "--set", "days=1,2.5"]
    assert said(finished, *typed) == f"{Finish(coats=2, gloss=0.5, days=[1.0, 2.5])}\n"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("coat=2", "write NAME=VALUE with one of the names coats, gloss, days"),
        ("coats", "write NAME=VALUE"),
        ("coats=two", "--set coats is 'two': give a whole number"),
        ("gloss=0,5", "--set gloss is '0,5': give a number"),
        ("days=1,,2", "--set days is '': give a number"),
    ],
)
def test_a_mistake_in_a_setting_is_named(typed: str, expected: str) -> None:
    assert expected in " ".join(said(finished, "--set", typed).split())


def test_a_setting_is_given_once() -> None:
    assert "coats is given twice" in said(finished, "--set=coats=1", "--set=coats=2")


def test_help_lists_the_settings_with_their_defaults() -> None:
    words = " ".join(said(finished, "--help").split())
    assert "coats: How many coats, default: 1; gloss: How glossy, 0 to 1; days: Days to dry." in words


def test_two_groups_cannot_have_one_option() -> None:
    def twice(size: Size, other: Size) -> None:
        """Take the same options twice."""

    with pytest.raises(ValueError, match="duplicate parameter name: 'width'"):
        takes_groups(twice)


def test_every_command_says_json_in_one_way() -> None:
    def options(command: object) -> list[object]:
        inner = getattr(command, "commands", {}).values()
        return [*getattr(command, "params", []), *(each for child in inner for each in options(child))]

    json_options = [each for each in options(parser_of(app)) if "--json" in getattr(each, "opts", ())]
    assert len(json_options) > 25
    assert {getattr(each, "help", "") for each in json_options} == {"Print JSON and nothing else."}


def test_a_command_takes_at_most_eight_parameters_in_sixty_lines() -> None:
    for path in Path(veilgraph.cli.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                assert len(taken) <= 8, f"{path.name}: {node.name}"
                assert (node.end_lineno or 0) - node.lineno < 60, f"{path.name}: {node.name}"
