"""Conventions of the source that no linter checks: plain docstrings, and no reaching into another class."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import veilgraph

SOURCE = Path(veilgraph.__file__).parent
ROOT = Path(__file__).parents[1]
MODULES = sorted(SOURCE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
SCRIPTS = sorted(path for end in ("js", "d.ts") for path in SOURCE.rglob(f"*.{end}"))
FIRST_PAGES = [ROOT / "README.md"]

LONGEST_SENTENCE = 26
"""Words; the aim is 25, and a list of names may take a few more."""

RIDDLES = re.compile(r"\b(whoever|so many|got ready|handed back|lest|gone on from)\b", re.IGNORECASE)

# Names of the standard library that begin with an underscore and are public all the same.
PUBLIC_UNDERSCORES = {"_exit", "_fields", "_asdict", "_replace", "_make", "_value_"}


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """Return the nodes of a file."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def docstrings_of(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the docstring of every module, class and function of a file."""
    for node in nodes_of(path):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
            yield getattr(node, "name", "module"), text


def sentences_of(text: str) -> Iterator[str]:
    """Yield the sentences of prose, without doctests, equations, code and tables."""
    for noise in (r">>>.*?(?=\n\s*\n|\Z)", r"\.\. math::.*?(?=\n\s*\n|\Z)", r"```.*?```", r"^\s*[|│├└].*?$"):
        text = re.sub(noise, "", text, flags=re.DOTALL | (re.MULTILINE if noise.startswith("^") else 0))
    text = re.sub(r":math:`[^`]*`|``?[^`]*``?", "code", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    for paragraph in re.split(r"\n\s*\n|\n\s*(?=\w+: )|\n\s*[-*] ", text):
        yield from re.split(r"(?<=[.!?;:])\s+", " ".join(paragraph.split()))


def words_of(sentence: str) -> int:
    """Count words of two letters or more: symbols of an equation are none."""
    return len(re.findall(r"[A-Za-z][A-Za-z'’-]+", sentence))


def private_accesses(path: Path) -> Iterator[str]:
    """Yield every access `x._name` where x is neither `self`, `cls` nor an instance in the class that defines it."""
    nodes = nodes_of(path)
    defined = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    defined |= {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value)
    }
    defined |= {
        node.target.id for node in nodes if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    for node in nodes:
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_") or node.attr.startswith("__"):
            continue
        if not _is_self(node.value) and node.attr not in defined | PUBLIC_UNDERSCORES:
            yield f"line {node.lineno}, {ast.unparse(node)}"


def _is_self(node: ast.expr) -> bool:
    named = isinstance(node, ast.Name) and node.id in ("self", "cls")
    return named or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super")


def too_long(text: str) -> list[str]:
    """Return the sentences of a text that have too many words."""
    return [sentence for sentence in sentences_of(text) if words_of(sentence) > LONGEST_SENTENCE]


def violations(paths: Iterable[Path], rule: Callable[[Path], Iterable[str]]) -> list[str]:
    """Return what each file violates, with the file."""
    return [f"{path.relative_to(ROOT)}: {each}" for path in paths for each in rule(path)]


def test_docstrings_are_short_sentences_without_riddles() -> None:
    def rule(path: Path) -> Iterator[str]:
        for name, text in docstrings_of(path):
            yield from (f"{name}: {each}" for each in [*RIDDLES.findall(text), *too_long(text)])

    assert violations(MODULES, rule) == []


def test_first_pages_are_short_sentences() -> None:
    assert violations(FIRST_PAGES, lambda path: too_long(path.read_text(encoding="utf-8"))) == []


def test_no_module_uses_private_members_of_another() -> None:
    assert violations(MODULES, private_accesses) == []


def test_no_test_patches_a_private_name() -> None:
    patched = re.compile(r"""setattr\([^)\n]*["'.]_[a-z]\w*["']""", re.IGNORECASE)
    found = violations(TESTS, lambda path: patched.findall(path.read_text(encoding="utf-8")))
    assert found == [], "make it a parameter"


def test_scripts_are_short_and_name_things_with_words() -> None:
    """Prettier breaks lines of code and none of comments; `i` counts, and `$` finds an element."""
    letter = re.compile(r"\b(?:const|let|function) [a-hj-zA-Z]\b|[(,{] ?[a-hj-zA-Z](?=[,)}] ?=)")

    def rule(path: Path) -> Iterator[str]:
        lines = path.read_text(encoding="utf-8").splitlines()
        yield from ["more than 700 lines"] if len(lines) > 700 else []
        yield from (line for line in lines if len(line) > 110)
        yield from letter.findall("\n".join(lines))

    assert violations(SCRIPTS, rule) == []


def test_errors_of_the_package_advise_no_option_of_a_command() -> None:
    """Who calls Python has no options; a whole command in quotation marks may have some. Clients name both."""
    option, command = re.compile(r"(?<![\w-])--[a-z][a-z-]+"), re.compile(r"'veilgraph [^']*'")

    def rule(path: Path) -> Iterator[str]:
        for node in nodes_of(path):
            if isinstance(node, ast.Raise) and node.exc is not None:
                texts = (each.value for each in ast.walk(node.exc) if isinstance(each, ast.Constant))
                message = command.sub("", "".join(str(text) for text in texts))
                yield from (f"line {node.lineno}: {each}" for each in option.findall(message))

    parts = {"cli", "client", "collection"}
    assert violations([path for path in MODULES if path.relative_to(SOURCE).parts[0] not in parts], rule) == []
