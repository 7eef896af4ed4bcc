"""Damaged copies of JSON documents and archives of arrays, for tests of what reads them."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.graph.array_files import comment_of, digest_of_arrays, unpack_arrays
from veilgraph.models.saved_state import digest_of_document

Arrays = dict[str, NDArray[Any]]
_TRAINING = "training.json"

DEEP = "[" * 100_000
JSON_VALUES: tuple[Any, ...] = (None, True, 7, 0.5, "text", [["x"]], {"x": {"y": "z"}})


def remove(path: Path) -> None:
    path.unlink()


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def cut(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


FILE_DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": remove,
    "a folder": make_folder,
    "empty": lambda path: path.write_bytes(b""),
    "cut": cut,
    "noise": lambda path: path.write_bytes(np.random.default_rng(0).bytes(5000)),
    "text": lambda path: path.write_text("<html>Sorry</html>", encoding="utf-8"),
}

DOCUMENT_TEXTS: dict[str, str] = {
    "nested deeply": DEEP,
    **{f"{value!r} as a whole": json.dumps(value) for value in JSON_VALUES if not isinstance(value, dict)},
    "an object of something else": '{"x": 1}',
}


def retyped(document: Any) -> Iterator[tuple[str, Any]]:
    """Yield copies of a JSON value in which one value has another type, at every key and at the first of a list."""
    places = document.items() if isinstance(document, dict) else list(enumerate(document))[:1]
    for key, value in places:
        inner = retyped(value) if isinstance(value, dict | list) else ()
        others = ((f"{other!r}", other) for other in JSON_VALUES if not _alike(other, value))
        for place, changed in (*others, *inner):
            copy = document.copy()
            copy[key] = changed
            yield f"{key} {place}", copy


def _alike(one: object, other: object) -> bool:
    """Tell whether two JSON values have one type; whole numbers may stand for fractions."""
    return type(one) is type(other) or (type(one), type(other)) == (int, float)


def lacking(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield copies of a document without one of its keys."""
    for key in document:
        yield key, {name: value for name, value in document.items() if name != key}


def changed_arrays(content: bytes, *, kept: Sequence[str] = ()) -> Iterator[tuple[str, bytes]]:
    """Yield archives in which one array is missing, added, or has another type, shape or value.

    Args:
        content: the archive. Its comment stays.
        kept: names of arrays that stay.
    """
    arrays, comment = unpacked(content), comment_of(content)
    yield "an unknown one", packed(arrays | {"unknown": np.zeros(3, dtype=np.float32)}, comment)
    for name in arrays.keys() - set(kept):
        yield f"{name} missing", packed({key: each for key, each in arrays.items() if key != name}, comment)
        for label, changed in _variants(arrays[name]):
            yield f"{name} {label}", packed(arrays | {name: changed}, comment)


def _variants(array: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    for kind in (np.float64, np.int64, np.uint8, np.str_, np.complex64, object, array.dtype.newbyteorder()):
        if (changed := array.astype(kind)).dtype != array.dtype:
            yield f"of {changed.dtype}", changed
    yield "with one more dimension", array[None]
    if array.ndim and len(array):
        yield "without a row", array[1:]
        yield "doubled", np.concatenate([array, array])
        yield "empty", array[:0]
    if array.ndim == 2 and len(set(array.shape)) > 1:
        yield "transposed", array.T
    for value in (np.nan, np.inf, -np.inf) if array.dtype.kind == "f" and array.size else ():
        changed = array.copy()
        changed.flat[-1] = value
        yield f"with {value}", changed


def packed(arrays: Arrays, comment: str = "") -> bytes:
    """Return an archive of any arrays, also of objects."""
    buffer = io.BytesIO()
    named: dict[str, Any] = dict(arrays)
    np.savez(buffer, **named)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.comment = comment.encode()
    return buffer.getvalue()


def unpacked(content: bytes) -> Arrays:
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        return dict(archive)


SEALED = "sealed"
"""Name of a file or folder whose digests are written anew after each damage, as everyone who can write it can."""


def seal_method(folder: Path) -> None:
    """Write the manifest of a method's files anew, if both can be read."""
    try:
        document = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        arrays = unpack_arrays((folder / "weights.npz").read_bytes())
    except (OSError, ValueError, RecursionError):
        return
    digests = f"document:{digest_of_document(document)} arrays:{digest_of_arrays(arrays)}"
    (folder / "weights.npz").write_bytes(packed(arrays, digests))


def seal_model(folder: Path) -> None:
    """Write both manifests of a model's folder anew, if its files can be read."""
    seal_method(folder)
    try:
        facts = json.loads((folder / _TRAINING).read_text(encoding="utf-8"))
        manifest = facts.pop("manifest")
        names = [name for name in sorted(manifest.keys() - {_TRAINING}) if (folder / name).exists()]
        kept = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}
    except (OSError, ValueError, RecursionError, AttributeError, KeyError, TypeError):
        return
    facts["manifest"] = kept | {_TRAINING: digest_of_document(facts)}
    (folder / _TRAINING).write_text(json.dumps(facts), encoding="utf-8")


def seal_checkpoint(path: Path) -> None:
    """Write the digest of a checkpoint anew, if its arrays can be read."""
    try:
        arrays = unpack_arrays(path.read_bytes())
    except (OSError, ValueError):
        return
    task = {name: arrays.pop(name) for name in ("work", "content") if name in arrays}
    path.write_bytes(packed(arrays | task | {"content": np.array(digest_of_arrays(arrays))}))


@cache
def bomb(size: int) -> bytes:
    """Return a small archive of an array of zeros that is `size` bytes large."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("zeros.npy", "w") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": (size,)}
        np.lib.format.write_array_header_1_0(file, header)
        for _ in range(0, size, 2**20):
            file.write(bytes(2**20))
    return buffer.getvalue()


def liar(shape: str, content: bytes = b"\0" * 8, descr: str = "'<f8'") -> bytes:
    """Return an archive with an array whose header claims any shape and type."""
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode("latin1")
    member = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + content
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("x.npy", member)
    return buffer.getvalue()
