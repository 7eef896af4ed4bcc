"""Measures of a simple house: size and shape of the source, each beside its aim.

python -m benchmarks.house

A place that asks for a kind is one of these, in Python outside `HOMES`, the folders and files of mechanisms and of
what campaigns ask:

- an `isinstance` or `issubclass` whose class is defined in `privacy/mechanisms/`;
- a condition about the kind of a campaign: an attribute, variable or key called `neighbours`, `rounds`, `waves` or
  `turns`, or something of these names, such as `private_neighbours`, in the test of an `if`, `while`, `assert` or
  comprehension, in a comparison or in `and`, `or`, `not`. A test counts once, whatever it asks.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import typer

from veilgraph.cli.app import app

ROOT = Path(__file__).parents[1]
HOMES = ("privacy/mechanisms", "campaign", "client/once.py", "client/rounds.py", "client/neighbours.py")
KINDS = re.compile(r"(?:^|_)(?:neighbours|rounds|waves|turns)$")

MOST_LINES, MOST_PARAMETERS, MOST_METHODS = 60, 8, 20
_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, kw_only=True)
class Measure:
    """One row of the table.

    Attributes:
        name: what is measured.
        values: measured numbers.
        aims: largest numbers that are aimed at.
    """

    name: str
    values: tuple[int, ...]
    aims: tuple[int, ...]

    @property
    def reached(self) -> bool:
        """Whether no number is above its aim."""
        return all(value <= aim for value, aim in zip(self.values, self.aims, strict=True))

    def __str__(self) -> str:
        cells = ["; ".join(f"{number:,}" for number in numbers) for numbers in (self.values, self.aims)]
        return f"| {self.name} | {cells[0]} | {cells[1]} | {'yes' if self.reached else 'no'} |"


def measures(root: Path = ROOT) -> list[Measure]:
    """Measure a checkout."""
    sources = {path: path.read_text(encoding="utf-8") for path in sorted((root / "src").rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in sources.items()}
    commands = list(_commands(typer.main.get_command(app)))
    options = [option for command in commands for option in command.params if option.param_type_name == "option"]
    scripts = [line for path in (root / "src").rglob("*.js") for line in path.read_text(encoding="utf-8").splitlines()]
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    functions = [node for node in nodes if isinstance(node, Function)]
    docs = [path for path in (root / "docs").rglob("*.md") if not path.is_symlink()]
    return [
        Measure(
            name="code lines of src, without docstrings, comments and blank lines",
            values=(sum(map(code_lines, sources.values())),),
            aims=(27_000,),
        ),
        Measure(
            name="places outside its home that ask for the kind of a mechanism or campaign",
            values=(len(list(_places(trees, root / "src" / "veilgraph"))),),
            aims=(40,),
        ),
        Measure(name="commands; options", values=(len(commands), len(options)), aims=(30, 180)),
        Measure(
            name=f"functions over {MOST_LINES} lines; with more than {MOST_PARAMETERS} parameters; "
            f"classes with more than {MOST_METHODS} methods",
            values=(
                _count(functions, lambda node: _length(node) > MOST_LINES),
                _count(functions, lambda node: _parameters(node) > MOST_PARAMETERS),
                _count((n for n in nodes if isinstance(n, ast.ClassDef)), lambda node: _methods(node) > MOST_METHODS),
            ),
            aims=(0, 0, 0),
        ),
        Measure(
            name="lines of the longest Python file; characters of the longest JavaScript line",
            values=(max(len(text.splitlines()) for text in sources.values()), max(map(len, scripts), default=0)),
            aims=(700, 110),
        ),
        Measure(
            name="changelog; docs, in kB",
            values=(_kilobytes([root / "CHANGELOG.md"]), _kilobytes(docs)),
            aims=(12, 400),
        ),
    ]


def code_lines(source: str) -> int:
    """Count the lines of Python code that are neither blank nor comments nor docstrings."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        for text in _docstrings(node):
            lines.difference_update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return len(lines)


def _docstrings(node: ast.AST) -> Iterator[ast.Expr]:
    """Yield texts that no code reads: docstrings of modules, classes and functions, and those below an attribute."""
    for statement in node.body if isinstance(node, _DOCUMENTED) else []:
        if isinstance(statement, ast.Expr) and isinstance(getattr(statement.value, "value", None), str):
            yield statement


def _length(function: Function) -> int:
    """Return the number of lines of a function with its head, without its docstring."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    for text in _docstrings(function):
        lines -= (text.end_lineno or text.lineno) - text.lineno + 1
    return lines


def _parameters(function: Function) -> int:
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return len([each for each in named if each.arg not in ("self", "cls")]) + sum(
        each is not None for each in (arguments.vararg, arguments.kwarg)
    )


def _methods(node: ast.ClassDef) -> int:
    return sum(isinstance(each, Function) for each in node.body)


def _places(trees: dict[Path, ast.Module], package: Path) -> Iterator[tuple[Path, int]]:
    """Yield the file and the line of every place that asks for a kind."""
    mechanisms = {
        node.name
        for path, tree in trees.items()
        if path.is_relative_to(package / HOMES[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    for path, tree in trees.items():
        if any(path.is_relative_to(package / home) for home in HOMES):
            continue
        # A test inside a test is the same place.
        lines = {node.lineno for node in ast.walk(tree) if _asks_for_a_mechanism(node, mechanisms)}
        lines |= {test.lineno for node in ast.walk(tree) for test in _tests(node) if _asks_for_a_campaign(test)}
        yield from ((path, line) for line in sorted(lines))


def _asks_for_a_mechanism(node: ast.AST, mechanisms: set[str]) -> TypeGuard[ast.Call]:
    if not isinstance(node, ast.Call) or getattr(node.func, "id", "") not in ("isinstance", "issubclass"):
        return False
    return any(mechanisms & {getattr(each, "id", ""), getattr(each, "attr", "")} for each in ast.walk(node.args[1]))


def _tests(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.If() | ast.IfExp() | ast.While() | ast.Assert():
            return [node.test]
        case ast.comprehension():
            return node.ifs
        case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
            return [node]
    return []


def _asks_for_a_campaign(test: ast.expr) -> bool:
    names = [
        getattr(node, "attr", None) or getattr(node, "id", None) or getattr(node, "value", None)
        for node in ast.walk(test)
    ]
    return any(isinstance(name, str) and KINDS.search(name) for name in names)


def _commands(command: Any) -> Iterator[Any]:
    """Yield the commands that do something, without the groups above them."""
    children = getattr(command, "commands", None)
    if children is None:
        yield command
    for child in (children or {}).values():
        yield from _commands(child)


def _count(items: Iterable[ast.AST], wanted: Callable[..., bool]) -> int:
    return sum(map(wanted, items))


def _kilobytes(paths: Iterable[Path]) -> int:
    return -(-sum(path.stat().st_size for path in paths) // 1000)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, or the places that ask for a kind."""
    parser = argparse.ArgumentParser(description="Measure the size and the shape of the source.")
    parser.add_argument("--places", action="store_true", help="list the places that ask for a kind, and nothing else")
    if parser.parse_args(arguments).places:
        package = ROOT / "src" / "veilgraph"
        trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(package.rglob("*.py"))}
        for path, line in _places(trees, package):
            print(f"{path.relative_to(ROOT)}:{line}")
        return
    print("| measure | now | aim | reached |\n|---|---:|---:|---|")
    print(*measures(), sep="\n")


if __name__ == "__main__":
    main()
