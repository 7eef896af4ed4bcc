"""Prints the lower bounds of all run-time dependencies as constraints of pip: `make test-oldest` installs them.

It needs the standard library alone, since nothing is installed yet.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

EXTRAS = ("server", "lab", "collector")


def lower_bounds(pyproject: str) -> list[str]:
    """Return a pin for each run-time dependency; one without a lower bound is a mistake.

    >>> lower_bounds('project = {dependencies = ["a>=1.2"], optional-dependencies = {server = [], lab = [], '
    ...              'collector = ["b[binary]>=3"]}}')
    ['a==1.2', 'b==3']
    """
    project = tomllib.loads(pyproject)["project"]
    extras = [line for extra in EXTRAS for line in project["optional-dependencies"][extra]]
    lines = sorted({line for line in [*project["dependencies"], *extras] if not line.startswith("veilgraph[")})
    return [re.sub(r"(\[[\w,-]+\])?>=", "==", line) for line in lines if _bounded(line)]


def _bounded(line: str) -> bool:
    if not re.fullmatch(r"[\w.-]+(\[[\w,-]+\])?>=[\w.]+", line):
        raise ValueError(f"'{line}' in pyproject.toml has no lower bound: write name>=version")
    return True


if __name__ == "__main__":
    sys.stdout.write("\n".join(lower_bounds(Path("pyproject.toml").read_text(encoding="utf-8"))) + "\n")
