"""Archives of plain arrays (.npz): read without pickle, within a size that is checked before it is allocated.

A compressed archive can be a thousand times larger than its file, and a header can claim any shape. So sizes are
compared with what is really there, and only arrays of numbers and text are read.
"""

from __future__ import annotations

import hashlib
import io
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

_KINDS = "biufU"  # booleans, integers, fractions and text
_STORED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_SUFFIX = ".npy"

# Errors of zipfile, zlib and numpy on damaged content.
_DAMAGED = (
    EOFError,
    LookupError,
    NotImplementedError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


class ArchiveError(ValueError):
    """An archive that is damaged, larger than allowed, or holds something else than plain arrays."""


def pack_arrays(arrays: Mapping[str, NDArray[Any]], *, compress: bool = False, comment: str = "") -> bytes:
    """Return an archive of plain arrays.

    Args:
        arrays: the arrays by name.
        compress: whether to compress them.
        comment: ASCII text that the archive holds beside them; `numpy.load` does not see it.
    """
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise ArchiveError(f"array '{name}' holds objects, not plain values")
    buffer = io.BytesIO()
    named: dict[str, Any] = dict(arrays)
    # Without allow_pickle, which numpy before 2 would store as one more array.
    (np.savez_compressed if compress else np.savez)(buffer, **named)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.comment = comment.encode("ascii")
    return buffer.getvalue()


def unpack_arrays(content: bytes, *, max_bytes: int | None = None) -> dict[str, NDArray[Any]]:
    """Return the arrays of an archive; raise ValueError with the reason if it is damaged, too large or not plain.

    Args:
        content: the file.
        max_bytes: largest size of all arrays together; default: the size of the file, enough if it is not compressed.

    >>> unpack_arrays(pack_arrays({"ones": np.ones(2)}))
    {'ones': array([1., 1.])}
    """
    limit = len(content) if max_bytes is None else max_bytes
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            check_members(members, limit)
            return {member.filename.removesuffix(_SUFFIX): _member(archive, member) for member in members}
    except ArchiveError:
        raise
    except _DAMAGED as error:
        raise ArchiveError(f"the archive is damaged ({type(error).__name__})") from error


def comment_of(content: bytes) -> str:
    """Return the comment of an archive that `unpack_arrays` accepts.

    >>> comment_of(pack_arrays({}, comment="remark"))
    'remark'
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.comment.decode("ascii", errors="replace")


def check_members(members: list[zipfile.ZipInfo], max_bytes: int) -> None:
    """Raise ArchiveError if members of a zip file have strange names or methods, or are larger than allowed.

    zipfile never unpacks more of a member than its declared size.
    """
    names = [member.filename for member in members]
    if len(set(names)) < len(names) or not all(name.endswith(_SUFFIX) for name in names):
        raise ArchiveError(f"the archive has members that repeat or are not {_SUFFIX} files")
    if any(member.compress_type not in _STORED or member.flag_bits & 1 for member in members):
        raise ArchiveError("the archive has a member that is encrypted or compressed in an unusual way")
    if (size := sum(member.file_size for member in members)) > max_bytes:
        raise ArchiveError(f"the archive unpacks to {size:,} bytes, and at most {max_bytes:,} are allowed")


def digest_of_arrays(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return the SHA-256 of names, types, shapes and values; the order of names does not matter.

    >>> digest_of_arrays({"a": np.zeros((2, 1))}) == digest_of_arrays({"a": np.zeros((1, 2))})
    False
    """
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(repr((name, array.dtype.str, array.shape)).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def is_finite(array: NDArray[Any]) -> bool:
    """Tell whether an array has neither NaN nor infinite values."""
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def read_plain_array(file: IO[bytes]) -> NDArray[Any]:
    """Read an array in the format .npy; raise ArchiveError if it is not plain, or not as large as its header says."""
    shape, by_columns, dtype = read_header(file)
    content = bytearray(file.read())
    if dtype.kind not in _KINDS or not dtype.isnative:
        raise ArchiveError(f"an array holds values of type {str(dtype)[:40]}, not plain numbers or text")
    if math.prod(shape) * dtype.itemsize != len(content):
        raise ArchiveError(f"an array claims the shape {str(shape)[:40]}, which is not its size")
    if not content:
        return np.empty(shape, dtype=dtype)
    return np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if by_columns else "C")


def read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header of an array in the format .npy: its shape, whether columns come first, and its type."""
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ArchiveError(f"an array has version {version} of the format, which is not used")
    header: tuple[tuple[int, ...], bool, np.dtype[Any]] = _HEADERS[version](file)
    return header


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(member) as file:
        return read_plain_array(file)


_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
