"""A file is complete or unchanged, whatever fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from veilgraph.atomic_files import is_draft, write_atomically, write_draft


def broken() -> Iterator[str]:
    yield "half a line"
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("content", [b"a\nb\n", "a\nb\n", ["a\n", "b\n"]])
def test_a_draft_becomes_the_file_when_it_is_renamed(tmp_path: Path, content: bytes | str | list[str]) -> None:
    path = tmp_path / "new" / "file"
    draft = write_draft(path, content)
    assert is_draft(draft)
    assert not path.exists()
    assert draft.replace(path).read_text(encoding="utf-8") == "a\nb\n"


def test_a_failed_write_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, "old", secret=True)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, broken())
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]
