"""Mutation testing of one folder of the package: `make mutants FOLDER=privacy`.

A mutant is the package with one small mistake: a flipped comparison, a dropped check or call, exchanged arguments, a
constant that is one too large. A test suite that passes with it has a hole. A seeded sample of the mutants of a folder
is tried on a copy of the checkout, with the tests that mirror the changed file: `tests/a/test_b.py` and the doctests
for `veilgraph/a/b.py`; if these pass, the fast tests of `tests/a/` that name something that the file defines (all of
them where no test mirrors the file); then all others of `tests/a/`. Tests elsewhere may find more, so the share that
is printed is a lower bound.

Mutants that change nothing that a caller could see are listed in `equivalent_mutants.json`, with the reason.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.json")
# Imported once, before tests are started by a fork: this takes longer than most tests.
PRELOADED = ("numpy", "scipy.stats", "scipy.sparse", "pandas", "torch", "sqlalchemy", "fastapi", "httpx")
# Plugins among them are imported before pytest could rewrite their assertions.
_QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
SHORTEST_LIMIT = 60
"""Seconds that the tests of a mutant may take at least; an endless loop is killed after four times the usual time."""

_FLIPPED: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">="),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
}
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.BitAnd: "|",
    ast.BitOr: "&",
}
_OPPOSITES = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum"}

_SYMMETRIC = {
    *_OPPOSITES,
    "gcd",
    "isclose",
    "allclose",
    "array_equal",
    "add_epsilons",
    "logical_or",
    "logical_and",
    "transpose",
}
"""Functions that do not ask which argument comes first."""


@dataclass(frozen=True, order=True)
class Mutant:
    """One mistake in one file.

    Attributes:
        path: the file, below the root of the checkout.
        start: offset of the changed code, in bytes.
        before: the code.
        after: what replaces it.
    """

    path: str
    start: int
    before: str
    after: str

    def applied(self, source: bytes) -> bytes:
        """Return the source of the file with the mistake."""
        end = self.start + len(self.before.encode())
        return source[: self.start] + self.after.encode() + source[end:]

    def key(self) -> tuple[str, str, str, str]:
        """Return what identifies the mutant while other lines of the file change."""
        source = (ROOT / self.path).read_bytes()
        line = source[source.rfind(b"\n", 0, self.start) + 1 :].split(b"\n")[0]
        return self.path, line.decode().strip(), self.before, self.after

    def __str__(self) -> str:
        line = (ROOT / self.path).read_bytes()[: self.start].count(b"\n") + 1
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        return f"{self.path}:{line}  {before}  ->  {after}"


def mutants_of(path: str, source: str) -> Iterator[Mutant]:
    """Yield every mutant of a file.

    >>> [(each.before, each.after) for each in mutants_of("x.py", "if a < 1: raise ValueError(2)")]
    [('a < 1', 'a <= 1'), ('a < 1', 'a >= 1'), ('raise ValueError(2)', 'pass'), ('1', '2')]
    """
    content = source.encode()
    starts = [0]
    for line in content.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def place(node: ast.AST) -> tuple[int, str]:
        first = starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        last = starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        return first, content[first:last].decode()

    for node in _visible(ast.parse(source)):
        for after in _mistakes(node):
            start, before = place(node)
            if isinstance(node, ast.Call) and after in _OPPOSITES.values():  # the function alone is replaced
                start, before = place(node.func)
                after = before.removesuffix(_OPPOSITES[after]) + after
            yield Mutant(path, start, before, after)


def _visible(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes that decide what code does: no annotations, messages, options of dataclasses, and `strict`."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop(0)
        yield node
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        hidden = [getattr(node, name, None) for name in ("annotation", "returns")]
        hidden += node.decorator_list if isinstance(node, ast.ClassDef) else []
        hidden += [
            word for word in getattr(node, "keywords", ()) if isinstance(word, ast.keyword) and word.arg == "strict"
        ]
        waiting += [child for child in ast.iter_child_nodes(node) if child not in hidden]


def _mistakes(node: ast.AST) -> Iterator[str]:
    """Yield the mistakes that are made at a node, as code; for a function that has an opposite, its opposite's name."""
    match node:
        case ast.Raise() if node.exc is not None:
            yield "pass"
        case ast.Expr(value=ast.Call()):
            yield "pass"
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            for flipped in _FLIPPED[type(operator)]:
                yield f"{_inner(left)} {flipped} {_inner(right)}"
        case ast.BoolOp(op=joint, values=values):
            yield (" or " if isinstance(joint, ast.And) else " and ").join(_inner(value) for value in values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield _inner(operand)
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _OPERATORS:
            if not any(
                isinstance(each, ast.JoinedStr | ast.Constant | ast.List | ast.Tuple) and _is_text(each)
                for each in (left, right)
            ):
                yield f"{_inner(left)} {_OPERATORS[type(operation)]} {_inner(right)}"
        case ast.Constant(value=bool() as value):
            yield str(not value)
        case ast.Constant(value=int() as value):
            yield str(value + 1)
        case ast.Call(func=function, args=arguments, keywords=keywords):
            name = getattr(function, "attr", getattr(function, "id", ""))
            if name in _OPPOSITES:
                yield _OPPOSITES[name]
            if (
                len(arguments) >= 2
                and name not in _SYMMETRIC
                and not any(isinstance(each, ast.Starred) for each in arguments[:2])
            ):
                swapped = [arguments[1], arguments[0], *arguments[2:]]
                yield ast.unparse(ast.Call(func=function, args=swapped, keywords=keywords))
            if len(keywords) >= 2 and all(isinstance(each.value, ast.Name | ast.Attribute) for each in keywords[:2]):
                one, other = keywords[:2]
                swapped_words = [ast.keyword(one.arg, other.value), ast.keyword(other.arg, one.value), *keywords[2:]]
                yield ast.unparse(ast.Call(func=function, args=arguments, keywords=swapped_words))


def _is_text(node: ast.expr) -> bool:
    return not (isinstance(node, ast.Constant) and not isinstance(node.value, str))


def _inner(node: ast.expr) -> str:
    """Return the code of an operand, in brackets unless it is simple."""
    code = ast.unparse(node)
    return code if isinstance(node, ast.Name | ast.Attribute | ast.Constant | ast.Call | ast.Subscript) else f"({code})"


def listed_equivalents() -> dict[tuple[str, str, str, str], str]:
    """Return the reason why each listed mutant changes nothing that a caller could see."""
    return {
        (each["path"], each["line"], each["before"], each["after"]): each["reason"]
        for each in json.loads(EQUIVALENT.read_text(encoding="utf-8"))
    }


class Copy:
    """A copy of the checkout, on which mutants are tried."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._seconds: dict[tuple[str, ...], float] = {}
        listed = subprocess.run(
            [str(shutil.which("git")), "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        for name in listed.stdout.splitlines():
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        if (ROOT.parent / "shared").exists():
            (folder.parent / "shared").symlink_to(ROOT.parent / "shared")

    def stages(self, path: str) -> Iterator[list[str]]:
        """Yield the tests of a file that come first, those of the folder that name it, and all others of its part."""
        module = Path(path).relative_to("src/veilgraph")
        folder, own = Path("tests", module.parent), Path("tests", module.parent, f"test_{module.name}")
        first = [path] if ">>>" in (self.folder / path).read_text(encoding="utf-8") else []
        yield [*([str(own)] if (self.folder / own).exists() else []), *first]
        tree = ast.parse((self.folder / path).read_text(encoding="utf-8"))
        names = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
        wanted = re.compile(r"\b(" + "|".join(sorted(n for n in names if not n.startswith("_")) or ["-"]) + r")\b")
        others = sorted((self.folder / folder).rglob("test_*.py"))
        mirrored = (self.folder / own).exists()
        found = [each for each in others if not mirrored or wanted.search(each.read_text(encoding="utf-8"))]
        yield [str(each.relative_to(self.folder)) for each in found if each != self.folder / own]
        part = sorted((self.folder / "tests" / module.parts[0]).rglob("test_*.py"))
        yield [str(each.relative_to(self.folder)) for each in part if each not in (*found, self.folder / own)]

    def killed_by(self, mutant: Mutant) -> str | None:
        """Return which tests fail with a mutant, or None if all pass."""
        path = self.folder / mutant.path
        source, times = path.read_bytes(), path.stat()
        for kind, tests in zip(("own tests", "folder", "part"), self.stages(mutant.path), strict=True):
            limit = max(SHORTEST_LIMIT, 4 * self._usual(tuple(tests)))
            path.write_bytes(mutant.applied(source))
            try:
                if tests and not self._pass(tests, limit):
                    return kind
            finally:
                path.write_bytes(source)
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        return None

    def _usual(self, tests: tuple[str, ...]) -> float:
        """Return the seconds that tests take without a mistake; raise an error if they fail."""
        if tests and tests not in self._seconds:
            started = time.monotonic()
            if not self._pass(list(tests), 600, clean=True):
                output = (self.folder / "output").read_text(encoding="utf-8")
                raise SystemExit(f"without a mutant, these tests fail: {' '.join(tests)}\n{output[-2000:]}")
            self._seconds[tests] = time.monotonic() - started
        return self._seconds.get(tests, 0.0)

    def _pass(self, tests: list[str], limit: float, *, clean: bool = False) -> bool:
        child = os.fork()
        if child == 0:
            self._run(tests, clean)
        ends = time.monotonic() + limit
        while time.monotonic() < ends:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status) == 0
            time.sleep(0.02)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return False

    def _run(self, tests: list[str], clean: bool) -> None:
        """Run tests in this process, a fork, and end it."""
        os.setsid()
        code = 1
        try:
            os.chdir(self.folder)
            os.environ["PYTHONPATH"] = str(self.folder / "src")
            sys.path[:0] = [str(self.folder / "src"), str(self.folder)]
            sys.dont_write_bytecode = not clean  # a mutant can have the size and the second of the file
            os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
            if not clean:
                os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
            for name in [name for name in sys.modules if name.split(".")[0] in ("veilgraph", "tests")]:
                del sys.modules[name]
            output = os.open(self.folder / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            code = int(pytest.main(["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", *_QUIET, *tests]))
            code = 0 if code == pytest.ExitCode.NO_TESTS_COLLECTED else code
        except BaseException:  # noqa: BLE001 - the parent reads it in the output
            traceback.print_exc(file=sys.stdout)
        finally:
            sys.stdout.flush()
            os._exit(code)


def drawn_mutants(folder: str, sample: int, seed: int) -> list[Mutant]:
    """Return a seeded sample of the mutants of a folder, at most one for each line of code."""
    base = ROOT / "src" / "veilgraph" / folder
    paths = sorted(base.rglob("*.py")) if base.is_dir() else [base.with_suffix(".py")]
    every = [
        mutant for path in paths for mutant in mutants_of(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
    ]
    return sorted(random.Random(seed).sample(every, min(sample, len(every))))


def main() -> None:
    """Try a sample of mutants, and print the survivors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="folder or file below src/veilgraph, for example privacy or collector/deletions")
    parser.add_argument("--sample", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name in PRELOADED:
        with suppress(ImportError):
            importlib.import_module(name)
    equivalent, counts, survivors = listed_equivalents(), Counter[str](), list[Mutant]()
    with tempfile.TemporaryDirectory() as scratch:
        copy = Copy(Path(scratch) / "checkout")
        for mutant in drawn_mutants(options.folder, options.sample, options.seed):
            outcome = "equivalent" if mutant.key() in equivalent else copy.killed_by(mutant)
            counts[outcome or "survived"] += 1
            survivors += [mutant] if outcome is None else []
            print(f"{outcome or 'SURVIVED':>10}  {mutant}", flush=True)  # noqa: T201
    tried = counts.total() - counts["equivalent"]
    killed = tried - counts["survived"]
    print(f"{options.folder}: {killed} of {tried} mutants killed ({killed / max(tried, 1):.0%}), {dict(counts)}")  # noqa: T201
    sys.exit(1 if survivors else 0)


if __name__ == "__main__":
    main()
