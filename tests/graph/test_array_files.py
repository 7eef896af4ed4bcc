"""Archives of arrays: what was written is read, everything else is refused within the memory that is allowed."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.damage import bomb, liar, packed
from veilgraph.graph.array_files import ArchiveError, pack_arrays, unpack_arrays

ARRAYS: dict[str, NDArray[Any]] = {
    "numbers": np.arange(6, dtype=np.float32).reshape(2, 3),
    "by columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "text": np.array(["a", "bc"]),
    "one": np.array(3),
    "none": np.empty((0, 2), dtype=np.int16),
    "mask": np.array([True, False]),
}


@pytest.mark.parametrize("compress", [False, True])
def test_arrays_are_read_as_they_were_written_and_can_be_changed(compress: bool) -> None:
    content = pack_arrays(ARRAYS, compress=compress)
    read = unpack_arrays(content, max_bytes=10_000)
    assert read.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)
        assert read[name].flags.writeable


def test_objects_are_not_written() -> None:
    with pytest.raises(ArchiveError, match="array 'x' holds objects, not plain values"):
        pack_arrays({"x": np.array([{}], dtype=object)})


def test_an_archive_that_unpacks_to_more_than_allowed_takes_no_memory() -> None:
    content = bomb(2**28)
    assert len(content) < 2**20
    tracemalloc.start()
    try:
        with pytest.raises(ArchiveError, match=r"unpacks to 268,435,\d+ bytes, and at most 1,000,000 are allowed"):
            unpack_arrays(content, max_bytes=1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def test_without_a_limit_an_archive_may_not_unpack_to_more_than_itself() -> None:
    assert unpack_arrays(packed({"zeros": np.zeros(10_000)}))["zeros"].size == 10_000
    with pytest.raises(ArchiveError, match="unpacks to"):
        unpack_arrays(pack_arrays({"zeros": np.zeros(10_000)}, compress=True))


@pytest.mark.parametrize(
    "shape", ["(10**15,)", "(1000000000000000,)", "(2,)", "(-1,)", "(0,)", "(True,)", "'x'", "((),)", "(" * 5000]
)
def test_a_shape_that_is_not_the_size_of_the_array_is_refused(shape: str) -> None:
    with pytest.raises(ArchiveError):
        unpack_arrays(liar(shape))


@pytest.mark.parametrize(
    "descr", ["'|O'", "'<c16'", "'>f8'", "'|V8'", "[('a', '<f8')]", "'<M8[s]'", "'|S8'", "7", "None"]
)
def test_only_plain_numbers_and_text_are_read(descr: str) -> None:
    with pytest.raises(ArchiveError):
        unpack_arrays(liar("(1,)", descr=descr))


def with_members(*names: str, compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name in names:
            archive.writestr(name, "content")
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04",
        with_members("x.txt"),
        with_members("x.npy"),
        with_members("x.npy", compression=zipfile.ZIP_BZIP2),
        with_members("x.npy", compression=zipfile.ZIP_LZMA),
        packed({"x": np.array([{}], dtype=object)}),
    ],
)
def test_other_archives_are_refused(content: bytes) -> None:
    with pytest.raises(ArchiveError):
        unpack_arrays(content, max_bytes=10_000)


@pytest.mark.parametrize("compress", [False, True])
def test_any_changed_byte_is_refused_or_changes_nothing(compress: bool) -> None:
    rng, content = np.random.default_rng(0), pack_arrays(ARRAYS, compress=compress)
    for place in rng.integers(len(content), size=1500):
        changed = bytearray(content)
        changed[place] ^= int(rng.integers(1, 256))
        try:
            read = unpack_arrays(bytes(changed), max_bytes=10_000)
        except ArchiveError:
            continue
        for name in read.keys() & ARRAYS.keys():
            np.testing.assert_array_equal(read[name], ARRAYS[name])


def test_any_cut_is_refused() -> None:
    content = pack_arrays(ARRAYS)
    for length in range(0, len(content), 7):
        with pytest.raises(ArchiveError):
            unpack_arrays(content[:length])
