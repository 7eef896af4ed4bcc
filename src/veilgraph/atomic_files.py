"""Atomic writing of files: after a crash, a file is complete or unchanged."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

_DRAFT = ".part"


def is_draft(path: Path) -> bool:
    """Tell whether a file is a draft, which a killed process may have left behind."""
    return path.name.startswith(".") and path.name.endswith(_DRAFT)


def write_draft(path: Path, content: bytes | str | Iterable[str], *, secret: bool = False) -> Path:
    """Write the content to a draft beside `path`, and return the draft for the caller to rename.

    The draft is created exclusively and under an unpredictable name. A file or a link that someone put there before is
    neither followed nor kept.

    Args:
        path: the final file. Its folder is created if necessary.
        content: the content, or its pieces.
        secret: let only the owner read the file, from the first byte on.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}{_DRAFT}")
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
    mode = 0o600 if secret else 0o666  # the umask takes its bits away
    created = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)  # O_EXCL follows no link
    try:
        with open(created, "wb") as file:
            pieces = [content] if isinstance(content, bytes | str) else content
            file.writelines(piece.encode() if isinstance(piece, str) else piece for piece in pieces)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return draft


def write_atomically(path: Path, content: bytes | str | Iterable[str], *, secret: bool = False) -> None:
    """Write a file atomically: after a crash or on a full disk, the old file (or none) is left, never a part.

    Args:
        path: the file. Its folder is created if necessary.
        content: the content, or its pieces.
        secret: let only the owner read the file, from the first byte on.
    """
    draft = write_draft(path, content, secret=secret)
    try:
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
