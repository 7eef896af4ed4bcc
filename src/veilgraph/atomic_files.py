"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_DRAFT = ".part"


def is_draft(path: Path) -> bool:
    """Whether a process that was killed while it wrote may have left this behind."""
    return path.name.startswith(".") and path.name.endswith(_DRAFT)


def write_draft(path: Path, content: bytes | str | Iterable[str], *, secret: bool = False) -> Path:
    """Write beside the target; whoever renames what comes back makes it the target.

    A secret file can be read by its owner alone, from its first byte on.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}{_DRAFT}")
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        if secret:
            draft.touch(mode=0o600)
        with draft.open("wb") as file:
            pieces = [content] if isinstance(content, bytes | str) else content
            file.writelines(piece.encode() if isinstance(piece, str) else piece for piece in pieces)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return draft


def write_whole(path: Path, content: bytes | str | Iterable[str], *, secret: bool = False) -> None:
    """Write beside the target and rename: a crash or a full disk leaves the old file, or none, never half of one.

    A secret file can be read by its owner alone, from its first byte on.
    """
    draft = write_draft(path, content, secret=secret)
    try:
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
