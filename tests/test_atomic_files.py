"""A file is complete or unchanged, whatever fails."""

from __future__ import annotations

import os
import secrets
import stat
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
    write_atomically(path, "old")
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, broken())
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_on_the_disk_before_it_has_its_name_and_its_name_before_the_writer_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash can keep a rename and lose the content that was written before it, unless each waits for the disk."""
    path, synced = tmp_path / "file", list[str]()

    def watched(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            assert os.path.sameopenfile(descriptor, folder)
            synced.append(f"folder, file holds {path.read_text(encoding='utf-8')!r}")
        else:
            synced.append(f"{os.fstat(descriptor).st_size} bytes, file is {'there' if path.exists() else 'missing'}")

    folder = os.open(tmp_path, os.O_RDONLY)
    monkeypatch.setattr(os, "fsync", watched)
    try:
        write_atomically(path, ["whole ", "content"])
    finally:
        os.close(folder)
    assert synced == ["13 bytes, file is missing", "folder, file holds 'whole content'"]


def plant(path: Path, target: Path | None) -> Path:
    """Put a link to the target, or a file that everyone may read and write, where a draft would be."""
    if target is not None:
        path.symlink_to(target)
    else:
        path.touch()
        path.chmod(0o666)
    return path


@pytest.mark.parametrize("linked", [False, True])
def test_a_name_that_others_can_predict_is_not_used(tmp_path: Path, linked: bool) -> None:
    victim, path = tmp_path / "victim", tmp_path / "tokens.csv"
    victim.write_text("precious", encoding="utf-8")
    plant(tmp_path / f".tokens.csv.{os.getpid()}.part", victim if linked else None)
    write_atomically(path, "secret")
    assert victim.read_text(encoding="utf-8") == "precious"
    assert not path.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("linked", [False, True])
def test_a_name_that_exists_is_refused_and_left_alone(
    tmp_path: Path, linked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda size: "guessed")
    planted = plant(tmp_path / ".tokens.csv.guessed.part", tmp_path / "nowhere" if linked else None)
    with pytest.raises(FileExistsError):
        write_atomically(tmp_path / "tokens.csv", "secret")
    assert list(tmp_path.iterdir()) == [planted]
    assert planted.is_symlink() or not planted.read_bytes()


def test_a_secret_is_for_its_owner_from_the_first_byte_on_whatever_the_umask(tmp_path: Path) -> None:
    modes: list[int] = []

    def watched() -> Iterator[str]:
        modes.extend(path.stat().st_mode & 0o777 for path in tmp_path.iterdir())
        yield "secret"

    previous = os.umask(0)
    try:
        write_atomically(tmp_path / "secret", watched())
        write_atomically(tmp_path / "public", "public", public=True)
    finally:
        os.umask(previous)
    assert modes == [0o600]
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("secret", "public")] == [0o600, 0o666]
