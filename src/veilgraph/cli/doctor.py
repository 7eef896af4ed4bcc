"""`veilgraph doctor`: what is installed on this machine, and what works."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import typer

import veilgraph
from veilgraph.cli.options import JsonOption
from veilgraph.cli.output import Facts, emit
from veilgraph.datasets.catalogue import data_folders, known_datasets, search_archive
from veilgraph.errors import MissingExtraError

CONTRACT = "contract"
PARTS = {
    CONTRACT: "schema, accounting, audit, campaigns, the participant's client",
    "server": "training and prediction",
    "lab": "simulations, the planner, pages",
    "collector": "the HTTP service and its stores",
}
"""Parts of the package by name: the first one is always installed, the others are extras."""

_BROKEN = 1
"""Exit code if something that is installed does not work."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of the package and its libraries.

    Attributes:
        purpose: what it is for.
        libraries: version of each library; None where it is not installed.
        too_old: libraries below the lower bound that the package declares.
        install: command that completes the part; None if it is ready.
    """

    purpose: str
    libraries: Mapping[str, str | None]
    too_old: tuple[str, ...]
    install: str | None

    def in_words(self) -> str:
        """Say whether the part is ready, and what is missing."""
        if self.install is None:
            return f"ready: {self.purpose}"
        missing = ", ".join(name for name, found in self.libraries.items() if found is None)
        wrong = [f"{what} {names}" for what, names in (("no", missing), ("too old:", ", ".join(self.too_old))) if names]
        return f"not ready ({self.purpose}): {'; '.join(wrong)}. {self.install}"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was tried.

    Attributes:
        works: whether it works; None if it was not tried because its library is not installed.
        text: what was found, or the remedy.
    """

    works: bool | None
    text: str


def doctor(as_json: JsonOption = False) -> None:
    """Show what is installed here and what works: libraries, threads, GPU, METIS, databases, data sets."""
    parts = {name: examine(name) for name in PARTS}
    found = {"GPU": _gpu(), "threads": _threads(), "METIS": _metis(), "databases": _databases(), "data": _data()}
    python, system = platform.python_version(), platform.platform()
    facts = {"veilgraph": veilgraph.__version__, "python": python, "system": system}
    findings = {name.lower(): asdict(each) for name, each in found.items()}
    sentences = [
        f"veilgraph {veilgraph.__version__}, Python {python}, {system}",
        "",
        *(f"{name:<10} {part.in_words()}" for name, part in parts.items()),
        "",
        *(f"{name:<10} {each.text}" for name, each in found.items()),
    ]
    document = facts | {"parts": {name: asdict(part) for name, part in parts.items()}} | findings
    emit(Facts(document, sentences), as_json=as_json)
    if any(part.too_old for part in parts.values()) or any(each.works is False for each in found.values()):
        raise typer.Exit(_BROKEN)


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def examine(
    name: str, *, declared: Iterable[str] | None = None, installed: Callable[[str], str | None] = _version
) -> Part:
    """Compare the libraries of a part with those that are installed.

    Args:
        name: name of the part.
        declared: requirements of the package, as its metadata write them. Default: those of the installed package.
        installed: returns the version of a library, or None.
    """
    lines = list(requires("veilgraph") or () if declared is None else declared)
    extra = "" if name == CONTRACT else name
    bounds = dict(_bounds(lines, extra))
    libraries = {library: installed(library) for library in bounds}
    too_old = tuple(
        library for library, found in libraries.items() if found and _release(found) < _release(bounds[library])
    )
    ready = None not in libraries.values() and not too_old
    command = f"pip install --upgrade 'veilgraph{f'[{extra}]' if extra else ''}'"
    return Part(purpose=PARTS[name], libraries=libraries, too_old=too_old, install=None if ready else command)


def _bounds(lines: list[str], extra: str) -> Iterator[tuple[str, str]]:
    """Yield the libraries of an extra with their lower bounds.

    >>> dict(_bounds(["numpy>=1.26", "torch>=2.11; extra == 'server'", "veilgraph[server]; extra == 'lab'"], "lab"))
    {'torch': '2.11'}
    """
    for line in lines:
        parsed = re.match(r"([\w.-]+)(?:\[([\w,-]+)\])?\s*(?:>=\s*([\w.]+))?", line)
        of = re.search(r"extra == ['\"](\w+)['\"]", line)
        if parsed is None or (of[1] if of else "") != extra:
            continue
        library, contained, bound = parsed.groups()
        if library == "veilgraph":  # one extra contains others
            for each in contained.split(","):
                yield from _bounds(lines, each)
        else:
            yield library, bound or "0"


def _release(text: str) -> tuple[int, ...]:
    """Return the numbers of a version without trailing zeros.

    >>> _release("2.13.0+cpu") == _release("2.13"), _release("2.9.1") < _release("2.13")
    (True, True)
    """
    numbers = [int(number) for number in re.findall(r"\d+", re.split(r"[+a-z]", text)[0])]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def _threads() -> Finding:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS")
    return Finding(works=True, text=f"{cores} cores; OMP_NUM_THREADS is {limit or 'not set, so all are used'}")


def _gpu() -> Finding:
    try:
        from veilgraph.distributed.hardware import describe_gpu
    except ImportError as error:
        return Finding(works=None, text=f"not tried: {error.name} is not installed")
    except OSError as error:  # a library of the system that torch needs
        return Finding(works=False, text=f"torch cannot be loaded: {error}")
    return Finding(works=True, text=describe_gpu())


def _metis() -> Finding:
    try:
        from veilgraph.graph.metis import PartitionRequest, metis_partitions
    except MissingExtraError as error:
        return Finding(works=None, text=f"not tried: {error}")
    starts, neighbours = np.array([0, 1, 3, 5, 6], dtype=np.int32), np.array([1, 0, 2, 1, 3, 2], dtype=np.int32)
    (parts,) = metis_partitions(starts, neighbours, [PartitionRequest(2, recursive=True, seed=0)])
    works = bool(parts[0] == parts[1] != parts[2] == parts[3])
    return Finding(works=works, text=f"{'works' if works else 'does not work'}: pymetis {_version('pymetis')}")


def _databases() -> Finding:
    try:
        import psycopg

        from veilgraph.collector.store import ReportStore
    except ImportError as error:
        return Finding(works=None, text=f"not tried: {error.name} is not installed")
    with TemporaryDirectory() as folder:
        ReportStore.open(f"sqlite:///{folder}/reports.db").close()
    postgres = f"PostgreSQL by psycopg {psycopg.__version__} ({psycopg.pq.__impl__})"
    return Finding(works=True, text=f"SQLite {sqlite3.sqlite_version} works, {postgres}")


def _data() -> Finding:
    names = sorted(known_datasets())
    absent = [name for name in names if search_archive(name) is None]
    where = ", ".join(_short(folder) for folder in data_folders())
    remedy = f"; to add one: veilgraph lab data {absent[0]} --fetch" if absent else ""
    return Finding(works=True, text=f"{len(names) - len(absent)} of {len(names)} public graphs in {where}{remedy}")


def _short(path: Path) -> str:
    return f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)
