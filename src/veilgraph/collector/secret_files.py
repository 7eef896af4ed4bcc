"""Files of secrets: who else on this machine can change or read them.

The rule is the one of ssh for private keys. Windows has no such modes, so nothing is checked there.
"""

from __future__ import annotations

import logging
import os
import shlex
import stat
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

from veilgraph.errors import RunError

logger = logging.getLogger("veilgraph.collector")

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_READ = stat.S_IRGRP | stat.S_IROTH


def check_secret_file(path: Path) -> Path:
    """Return the file; refuse one that others can change, and warn of one that others can read."""
    if os.name == "nt" or not path.exists():
        return path
    mode = path.stat().st_mode
    remedy = f"run chmod 600 {shlex.quote(str(path))}"
    if mode & _OTHERS_WRITE:
        raise RunError(f"{path} holds secrets, and others on this machine can change it: {remedy}, and make new ones")
    # The folders of a link, and those of the file that it names: who can write in one can replace what it holds.
    for folder in dict.fromkeys((*path.absolute().parents, *path.resolve().parents)):
        if (folder_mode := folder.stat().st_mode) & stat.S_IWOTH and not folder_mode & stat.S_ISVTX:
            command = f"run chmod o-w {shlex.quote(str(folder))}"
            raise RunError(f"everyone on this machine can replace {path}, which holds secrets: {command}")
    warn_of_readers(path)
    return path


def check_separate(files: Mapping[str, Path | None]) -> None:
    """Refuse one file for two uses, under one name or two: who knows one secret would have the rights of both.

    Args:
        files: the file of each use, by the name of its option.
    """
    given = {use: path for use, path in files.items() if path is not None and path.exists()}
    for (use, path), (other, second) in combinations(given.items(), 2):
        if path.samefile(second):
            raise RunError(f"{path} is given as {use} and as {other}: give each a file of its own")


def warn_of_readers(path: Path) -> None:
    """Warn of a file that others on this machine can read."""
    if os.name != "nt" and path.exists() and path.stat().st_mode & _OTHERS_READ:
        logger.warning("others on this machine can read %s: run chmod 600 %s", path, shlex.quote(str(path)))
