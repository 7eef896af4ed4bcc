"""The files of a fitted method: `model.json`, and `weights.npz` with a manifest of both.

The manifest is the comment of the archive: digests of the document and of names, types, shapes and values of the
arrays. It finds damage: files that were truncated, mixed up or edited. It is no signature, because everyone who can
write the folder can write a new manifest. Types, shapes and finite numbers are checked besides.
"""

from __future__ import annotations

import hashlib
import json
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from veilgraph.atomic_files import write_atomically
from veilgraph.errors import FitError
from veilgraph.graph.array_files import comment_of, digest_of_arrays, is_finite, pack_arrays, unpack_arrays

DOCUMENT = "model.json"
WEIGHTS = "weights.npz"


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedState:
    """What a fitted method saves besides its parameters.

    Attributes:
        values: JSON-ready values; they become keys of `model.json` beside "method" and "parameters".
        arrays: arrays of numbers; they become the entries of `weights.npz`.
    """

    values: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)

    def check(self, types_of: Mapping[str, Any]) -> None:
        """Raise FitError unless the state has exactly these names, with values and arrays of these types."""
        everything = self.values | self.arrays
        if len(everything) < len(self.values) + len(self.arrays) or everything.keys() - types_of.keys():
            raise FitError(f"its fitted values are {', '.join(sorted(everything))[:200]}, not {', '.join(types_of)}")
        check_types(everything, types_of)


@dataclass(frozen=True, kw_only=True, eq=False)
class SavedMethod:
    """A fitted method as its files hold it.

    Attributes:
        method: name of the method.
        parameters: its constructor parameters.
        state: its fitted state.
        classes: names of the classes.
        num_features: number of features of the schema.
    """

    method: str
    parameters: dict[str, Any]
    state: FittedState
    classes: tuple[str, ...]
    num_features: int

    def write(self, folder: Path) -> None:
        """Write both files, each whole or not at all."""
        arrays = self.state.arrays
        _check_finite(arrays)
        domain = {"classes": list(self.classes), "num_features": self.num_features}
        document = {"method": self.method, "parameters": self.parameters} | domain | self.state.values
        write_atomically(folder / WEIGHTS, pack_arrays(arrays, comment=" ".join(_manifest(document, arrays))))
        write_atomically(folder / DOCUMENT, json.dumps(document, indent=2))

    @classmethod
    def read(cls, folder: Path) -> SavedMethod:
        """Read both files; refuse them unless they are what was written."""
        document = read_object(folder / DOCUMENT)
        content = (folder / WEIGHTS).read_bytes()
        arrays = unpack_arrays(content)
        stated = comment_of(content).split()
        for file, digest in zip((DOCUMENT, WEIGHTS), _manifest(document, arrays), strict=True):
            if digest not in stated:
                raise FitError(f"{file} was changed after it was written, by the manifest")
        _check_finite(arrays)
        check_types(document, {"method": str, "parameters": dict[str, Any], "classes": list[str], "num_features": int})
        return cls(
            method=document.pop("method"),
            parameters=document.pop("parameters"),
            classes=tuple(document.pop("classes")),
            num_features=document.pop("num_features"),
            state=FittedState(values=document, arrays=arrays),
        )


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object; raise ValueError or OSError if the file does not hold one."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError(f"{path.name} is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{path.name} is not readable as JSON ({type(error).__name__})") from None
    if not isinstance(document, dict):
        raise ValueError(f"{path.name} is not a JSON object")
    return document


def digest_of_document(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of JSON values; the order of keys does not matter.

    >>> digest_of_document({"a": 1, "b": (2,)}) == digest_of_document({"b": [2], "a": 1})
    True
    """
    as_read = json.loads(json.dumps(document))  # keys that are numbers become text
    return hashlib.sha256(json.dumps(as_read, sort_keys=True).encode()).hexdigest()


def check_types(values: Mapping[str, Any], types_of: Mapping[str, Any]) -> None:
    """Raise FitError if one of these names is missing, or if its value is not of its type."""
    for name, kind in types_of.items():
        if name not in values:
            raise FitError(f"it has no '{name}'")
        if not conforms(values[name], kind):
            raise FitError(f"its '{name}' is not of type {getattr(kind, '__name__', kind)}")


def conforms(value: object, kind: Any) -> bool:
    """Tell whether a value read from JSON or from an archive is of a type.

    >>> conforms(1, float), conforms(True, int), conforms([1, "a"], list[int]), conforms(None, int | None)
    (True, False, False, True)
    >>> conforms(np.ones(2), NDArray[np.float64]), conforms(np.ones(2), NDArray[np.float32])
    (True, False)
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if hasattr(origin, "__value__"):  # a generic alias, as NDArray is in some versions of numpy
        return conforms(value, origin.__value__[arguments])
    if origin in (Union, types.UnionType):
        return any(conforms(value, each) for each in arguments)
    if origin is Literal:
        return isinstance(value, str) and value in arguments
    if origin is list:
        return isinstance(value, list) and all(conforms(each, arguments[0]) for each in value)
    if origin is dict:
        return isinstance(value, dict) and all(conforms(each, arguments[1]) for each in value.values())
    if origin is np.ndarray:
        scalar = next(iter(get_args(arguments[1])), Any)
        return isinstance(value, np.ndarray) and (scalar is Any or value.dtype == scalar)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(value, bool):
        return kind is bool
    return isinstance(kind, type) and isinstance(value, kind)


def check_layout(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Raise FitError unless tensors have the names, shapes and types of others."""
    for name in sorted(found.keys() | expected.keys()):
        if name not in found or name not in expected:
            raise FitError(f"'{name[:40]}' is {'missing' if name in expected else 'unknown'}")
        (shape, dtype), (was, kind) = ((each[name].shape, each[name].dtype) for each in (found, expected))
        if (shape, dtype) != (was, kind):
            raise FitError(f"'{name}' has shape {tuple(shape)} and type {dtype}, not {tuple(was)} and {kind}")


def _manifest(document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> tuple[str, str]:
    """Return the digests of the document and of the arrays."""
    return f"document:{digest_of_document(document)}", f"arrays:{digest_of_arrays(arrays)}"


def _check_finite(arrays: Mapping[str, NDArray[Any]]) -> None:
    for name, array in arrays.items():
        if not is_finite(array):
            raise FitError(f"the array '{name}' holds values that are not finite numbers")
