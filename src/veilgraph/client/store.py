"""The store: a folder of the device whose files only its owner can read, each written whole."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from veilgraph.client.refusals import RunError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_DRAFT_NAME = re.compile(r"\.([0-9a-f]{64}(\.[0-9a-f]{32})?(\.memory)?|limit)\.json\.[0-9a-f]{16}\.part")


@contextmanager
def locked_store(folder: Path) -> Iterator[Path]:
    """Hold the store alone: what is counted stays true until the report is written. Remove drafts of killed clients."""
    descriptor = None
    try:
        for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)
        descriptor = _lock(folder)
        for path in folder.iterdir():
            if _DRAFT_NAME.fullmatch(path.name):
                path.unlink()
    except OSError as error:
        if descriptor is not None:
            os.close(descriptor)
        raise RunError(f"the store {folder} cannot be used: {error.strerror}; nothing was sent") from None
    try:
        yield folder
    finally:
        os.close(descriptor)  # this unlocks it


def _lock(folder: Path) -> int:
    if sys.platform == "win32":  # folders cannot be opened on Windows
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
    else:
        descriptor = os.open(folder, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def hash_of_node(node: str) -> str:
    """Return the part of a file's name that stands for a person."""
    return hashlib.sha256(node.encode()).hexdigest()[:32]


def damaged_file(path: Path) -> RunError:
    """Return the refusal of a file that cannot be read as it was written."""
    return RunError(
        f"{path} is damaged: restore it from a backup. Do not delete it: if its report was sent, "
        "a second draw would reveal more than the campaign states"
    )


def write_text(path: Path, text: str, *, replace: bool) -> None:
    """Write a file that its owner alone can read. A crash leaves a whole file or none, or the one before."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            draft.replace(path)
        else:
            os.link(draft, path)  # unlike a rename, it does not replace a file
        _sync_folder(path.parent)
    except OSError as error:
        raise RunError(f"the report cannot be stored in {path.parent}: {error.strerror}; nothing was sent") from None
    finally:
        with suppress(OSError):
            draft.unlink()


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # folders cannot be opened on Windows, and their entries are durable
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
