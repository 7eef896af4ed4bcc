"""Finished cells on disk: whole or not at all, and a damaged one is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from veilgraph.errors import RunError
from veilgraph.experiments.result_store import ResultStore

KEY, OTHER = "ab" + "0" * 62, "ab" + "1" * 62
RESULT = {"accuracy": 0.5, "epsilon_user_level": "not private", "cell": {"seed": 0, "parameters": {"epochs": 2}}}


def test_what_was_put_is_what_is_got(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    assert store.get(KEY) is None
    assert not store.has(KEY)
    store.put(KEY, RESULT)
    assert store.get(KEY) == RESULT
    assert store.has(KEY)
    assert store.get(OTHER) is None
    assert ResultStore(tmp_path).get(KEY) == RESULT


def test_a_store_that_nobody_wrote_to_leaves_no_folder(tmp_path: Path) -> None:
    assert ResultStore(tmp_path / "new").get(KEY) is None
    assert not (tmp_path / "new").exists()


def test_a_cell_is_one_file_named_by_its_key(tmp_path: Path) -> None:
    ResultStore(tmp_path).put(KEY, RESULT)
    [path] = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert path.name == f"{KEY}.json"
    assert json.loads(path.read_text(encoding="utf-8")) == RESULT


@pytest.mark.parametrize("content", [b"", b'{"accuracy": 0.', b"\xff\xfe\x00"])
def test_a_damaged_cell_is_refused_by_name_with_the_remedy(tmp_path: Path, content: bytes) -> None:
    store = ResultStore(tmp_path)
    store.put(KEY, RESULT)
    next(tmp_path.rglob("*.json")).write_bytes(content)
    with pytest.raises(RunError, match=rf"{KEY}\.json cannot be read .*: delete it and run again"):
        store.get(KEY)


def test_a_crash_while_writing_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ResultStore(tmp_path)
    store.put(KEY, RESULT)

    def crash(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", crash)
    for key in (KEY, OTHER):
        with pytest.raises(KeyboardInterrupt):
            store.put(key, {**RESULT, "accuracy": 0.9})
    assert store.get(KEY) == RESULT
    assert not store.has(OTHER)


def test_a_full_disk_is_one_sentence_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(RunError, match=r"\.json cannot be written: No space left on device; free space"):
        ResultStore(tmp_path).put(KEY, RESULT)
