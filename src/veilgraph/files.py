"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

_DRAFT = ".part"


def is_draft(path: Path) -> bool:
    """Whether a process that was killed while it wrote may have left this behind."""
    return path.name.startswith(".") and path.name.endswith(_DRAFT)


def write_whole(path: Path, content: bytes | str, *, secret: bool = False) -> None:
    """Write beside the target and rename: a crash or a full disk leaves the old file, or none, never half of one.

    A secret file can be read by its owner alone, from its first byte on.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}{_DRAFT}")
    try:
        if secret:
            draft.touch(mode=0o600)
        draft.write_bytes(content.encode() if isinstance(content, str) else content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
