"""Prints the lower bounds of all run-time dependencies as constraints of pip: `make test-oldest` installs them.

Packages that are named as arguments keep the version of constraints.txt, where no wheel of the bound can be had. It
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


def pinned(constraints: str, names: Collection[str]) -> dict[str, str]:
    r"""Return the versions of some packages in constraints.txt.

    >>> pinned("a==1.9\nb==3.1\n", ["a"])
    {'a': '1.9'}
    """
    lines = (line.partition("==") for line in constraints.splitlines())
    return {name: version for name, _, version in lines if name in names}


if __name__ == "__main__":
    kept = pinned(Path("constraints.txt").read_text(encoding="utf-8"), sys.argv[1:])
    sys.stdout.write("\n".join(lower_bounds(Path("pyproject.toml").read_text(encoding="utf-8"), kept)) + "\n")
