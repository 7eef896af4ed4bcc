"""Prints the lower bounds of all run-time dependencies as constraints of pip: `make test-oldest` installs them.

Packages that are named as arguments keep the version of `locks/`, where no wheel of the bound can be had. It
needs the standard library alone, since nothing is installed yet.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType

EXTRAS = ("server", "lab", "collector")


def lower_bounds(pyproject: str, kept: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """Return a pin for each run-time dependency; one without a lower bound is a mistake.

    Args:
        pyproject: text of pyproject.toml.
        kept: versions of the packages that are not installed in their oldest version, by name.

    >>> lower_bounds('project = {dependencies = ["a>=1.2"], optional-dependencies = {server = [], lab = [], '
    ...              'collector = ["b[binary]>=3"]}}')
    ['a==1.2', 'b==3']
    >>> lower_bounds('project = {dependencies = ["a>=1.2"], optional-dependencies = {server = [], lab = [], '
    ...              'collector = []}}', {"a": "1.9"})
    ['a==1.9']
    """
    project = tomllib.loads(pyproject)["project"]
    extras = [line for extra in EXTRAS for line in project["optional-dependencies"][extra]]
    lines = sorted({line for line in [*project["dependencies"], *extras] if not line.startswith("veilgraph[")})
    pins = [re.sub(r"(\[[\w,-]+\])?>=", "==", line).partition("==") for line in lines if _bounded(line)]
    return [f"{name}=={kept.get(name, version)}" for name, _, version in pins]


def _bounded(line: str) -> bool:
    if not re.fullmatch(r"[\w.-]+(\[[\w,-]+\])?>=[\w.]+", line):
        raise ValueError(f"'{line}' in pyproject.toml has no lower bound: write name>=version")
    return True


def pins(lock: str) -> list[str]:
    r"""Return the packages of a file of `locks/` with their versions and markers, without hashes.

    >>> pins("# comment\na==1.9 ; sys_platform == 'linux' \\\n    --hash=sha256:00\nb==3.1 \\\n    --hash=sha256:11\n")
    ["a==1.9 ; sys_platform == 'linux'", 'b==3.1']
    """
    return [line.removesuffix(" \\") for line in lock.splitlines() if re.match(r"\w", line)]


def locked(folder: Path) -> list[str]:
    """Return all packages of `locks/` as constraints; torch is any build of its version."""
    files = sorted(path for path in folder.glob("*.txt") if path.name != "torch-cpu.txt")
    return [pin for path in files for pin in pins(path.read_text(encoding="utf-8"))]


def pinned(constraints: Collection[str], names: Collection[str]) -> dict[str, str]:
    """Return the versions of some packages.

    >>> pinned(["a==1.9 ; sys_platform == 'linux'", "b==3.1"], ["a"])
    {'a': '1.9'}
    """
    parts = (pin.partition(" ")[0].partition("==") for pin in constraints)
    return {name: version for name, _, version in parts if name in names}


if __name__ == "__main__":
    kept = pinned(locked(Path("locks")), sys.argv[1:])
    sys.stdout.write("\n".join(lower_bounds(Path("pyproject.toml").read_text(encoding="utf-8"), kept)) + "\n")
