"""Conventions of the source that no linter checks: plain docstrings, and no reaching into another class."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

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


def docstrings_of(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the docstring of every module, class and function of a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    defined |= {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value)
    }
    defined |= {
        node.target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_") or node.attr.startswith("__"):
            continue
        if not _is_self(node.value) and node.attr not in defined | PUBLIC_UNDERSCORES:
            yield f"{path.name}:{node.lineno} {ast.unparse(node)}"


def _is_self(node: ast.expr) -> bool:
    named = isinstance(node, ast.Name) and node.id in ("self", "cls")
    return named or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_docstrings_are_short_sentences_without_riddles(path: Path) -> None:
    for name, text in docstrings_of(path):
        assert not RIDDLES.findall(text), f"{name}: {text}"
        for sentence in sentences_of(text):
            assert words_of(sentence) <= LONGEST_SENTENCE, f"{name}: {sentence}"


@pytest.mark.parametrize("path", FIRST_PAGES, ids=lambda path: path.name)
def test_first_pages_are_short_sentences(path: Path) -> None:
    for sentence in sentences_of(path.read_text(encoding="utf-8")):
        assert words_of(sentence) <= LONGEST_SENTENCE, sentence


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_module_uses_private_members_of_another(path: Path) -> None:
    assert list(private_accesses(path)) == []


@pytest.mark.parametrize("path", TESTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_test_patches_a_private_name(path: Path) -> None:
    patched = re.findall(r"""setattr\([^)\n]*["'.]_[a-z]\w*["']""", path.read_text(encoding="utf-8"), re.IGNORECASE)
    assert patched == [], "make it a parameter"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_short_and_name_things_with_words(path: Path) -> None:
    """Prettier breaks lines of code and none of comments; `i` counts, and `$` finds an element."""
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 700
    assert [line for line in lines if len(line) > 110] == []
    assert (
        re.findall(r"\b(?:const|let|function) ([a-hj-zA-Z])\b|[(,{] ?([a-hj-zA-Z])(?=[,)}] ?=)", "\n".join(lines)) == []
    )
