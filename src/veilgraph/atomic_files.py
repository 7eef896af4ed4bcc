"""Atomic writing of files: after a crash, a file is complete or unchanged.

A file is private unless its writer says that it is public: its owner alone can read and write it, from the first byte
on and whatever the umask. So a kind of file that somebody adds later cannot be forgotten. The mode is an argument of
`open` and not a umask, which belongs to the whole process and its threads.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_DRAFT = ".part"


def is_draft(path: Path) -> bool:
    """Tell whether a file is a draft, which a killed process may have left behind."""
    return path.name.startswith(".") and path.name.endswith(_DRAFT)


def make_private_folder(folder: Path) -> None:
    """Make a folder that its owner alone can open, and the folders above it that are missing; keep one that exists."""
    for missing in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)


def make_private_file(path: Path) -> None:
    """Make an empty file that its owner alone can read and write; keep one that exists.

    For programs that open a file by its name: SQLite gives its write-ahead log the mode of its database.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def write_draft(path: Path, content: bytes | str | Iterable[str], *, public: bool = False) -> Path:
    """Write the content to a draft beside `path`, to the disk, and return the draft for the caller to rename.

    The draft is created exclusively and under an unpredictable name. A file or a link that someone put there before is
    neither followed nor kept.

    Args:
        path: the final file. Its folder is created if necessary, as private as the file.
        content: the content, or its pieces.
        public: let others read the file, as far as the umask does: it holds neither reports nor people nor secrets.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}{_DRAFT}")
    if public:
        path.parent.mkdir(parents=True, exist_ok=True)
    else:
        make_private_folder(path.parent)
    mode = 0o666 if public else 0o600  # the umask takes its bits away
    created = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)  # O_EXCL follows no link
    try:
        with open(created, "wb") as file:
            pieces = [content] if isinstance(content, bytes | str) else content
            file.writelines(piece.encode() if isinstance(piece, str) else piece for piece in pieces)
            file.flush()
            os.fsync(file.fileno())  # a rename can reach the disk before the content does
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return draft


def write_atomically(path: Path, content: bytes | str | Iterable[str], *, public: bool = False) -> None:
    """Write a file atomically: after a crash or on a full disk, the old file (or none) is left, never a part.

    When this returns, the new file survives a loss of power.

    Args:
        path: the file. Its folder is created if necessary, as private as the file.
        content: the content, or its pieces.
        public: let others read the file, as far as the umask does: it holds neither reports nor people nor secrets.
    """
    draft = write_draft(path, content, public=public)
    try:
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Write the names of a folder's files to the disk: a file that was made or renamed survives a loss of power."""
    if os.name == "nt":  # folders cannot be opened on Windows, and their entries are durable
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
