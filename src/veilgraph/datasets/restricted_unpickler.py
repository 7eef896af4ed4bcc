"""Unpickling of third-party files, restricted to the types that they need.

A pickle is a program: by default it may import and call anything. Here it may build NumPy arrays, lists and
dictionaries. Types of arrays are built here, from a list of plain ones; a type with a state of its own could point
anywhere in memory. Objects of other libraries become stand-ins, which only store their arguments and their state. Any
other name is refused before it is looked up.
"""

from __future__ import annotations

import io
import math
import pickle
import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Self

import numpy as np


class StandIn:
    """Substitute for an object of another library: it stores the arguments and the state from the pickle."""

    arguments: tuple[Any, ...]
    state: Any

    def __new__(cls, *arguments: Any) -> Self:
        """Store the arguments; a pickle calls `__new__` with or without `__init__`."""
        stand_in = super().__new__(cls)
        stand_in.arguments = arguments
        stand_in.state = None
        return stand_in

    def __setstate__(self, state: Any) -> None:
        self.state = state


class SparseMatrix(StandIn):
    """Substitute for `scipy.sparse.csr_matrix`; its state has data, indices, indptr and _shape."""


class IgraphGraph(StandIn):
    """Substitute for `igraph.Graph`; its arguments are size, edges, directedness, and all attributes."""


class _Function:
    """A function that a pickle may call; the pickle cannot change its state."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("a function has no state")


class _Type:
    """Substitute for `numpy.dtype`, whose own state can describe memory that is not there.

    Args:
        code: kind and size, such as "f8".
        align: ignored.
        copy: ignored.
    """

    def __init__(self, code: str, align: int = 0, copy: int = 0) -> None:
        if not isinstance(code, str) or not _CODES.fullmatch(code):
            raise pickle.UnpicklingError("an array is neither of numbers nor of text nor of objects")
        self._dtype = np.dtype(code)

    def __setstate__(self, state: Any) -> None:
        """Set the byte order; refuse everything else that a state can change."""
        version, order, *structure = state[:5]
        if version != 3 or order not in ("<", ">", "|", "=") or structure != [None] * 3:
            raise pickle.UnpicklingError("the type of an array has fields, which such a file does not need")
        self._dtype = self._dtype.newbyteorder(order)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type, which was built here."""
        return self._dtype


class Array(np.ndarray[Any, np.dtype[Any]]):
    """An array from a pickle. Its content is as large as its shape and type say."""

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, by_columns, content = state
        if not isinstance(kind, _Type) or not all(type(size) is int and size >= 0 for size in shape):
            raise pickle.UnpicklingError("an array has no shape or no type")
        size, dtype = math.prod(shape), kind.dtype
        items = list(content) if dtype.hasobject else _bytes(content)
        if len(items) != size * (1 if dtype.hasobject else dtype.itemsize):
            raise pickle.UnpicklingError("an array is not as large as its shape and type say")
        super().__setstate__((1, tuple(shape), dtype, bool(by_columns), items))  # type: ignore[arg-type]


def _reconstruct(kind: Any, shape: Any, code: Any) -> Array:
    """Return an empty array, to which the pickle gives its state."""
    if kind is not _NDARRAY:
        raise pickle.UnpicklingError("an array is of another class than numpy.ndarray")
    return Array((0,), dtype=np.int8)


def _scalar(kind: Any, content: Any) -> Any:
    """Return a number or a text."""
    if not isinstance(kind, _Type) or kind.dtype.hasobject or len(raw := _bytes(content)) != kind.dtype.itemsize:
        raise pickle.UnpicklingError("a number has no type, or not its size")
    return np.frombuffer(raw, dtype=kind.dtype)[0]


def _no_array(*arguments: Any) -> None:
    raise pickle.UnpicklingError("arrays are built from their content alone")


def _bytes(content: Any) -> bytes:
    """Return bytes, which Python 2 wrote as text."""
    return content.encode("latin1") if isinstance(content, str) else bytes(memoryview(content))


def _encode(text: str, encoding: str) -> bytes:
    """Call `_codecs.encode`, by which Python 3 writes bytes for Python 2."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes are encoded as {encoding}, not as latin1")
    return text.encode(encoding)


_CODES = re.compile(r"b1|[iu][1248]|f[248]|O8?|[SU][0-9]{1,4}")
_NDARRAY = _Function(_no_array)

# Old and new names: old files name modules that the libraries have moved since.
_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _NDARRAY,
    ("numpy", "dtype"): _Function(_Type),
    ("collections", "defaultdict"): defaultdict,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
    ("_codecs", "encode"): _Function(_encode),
    ("igraph", "Graph"): IgraphGraph,
    **{(f"scipy.sparse.{module}", "csr_matrix"): SparseMatrix for module in ("csr", "_csr")},
    **{
        (f"numpy.{core}.multiarray", name): _Function(function)
        for core in ("core", "_core")
        for name, function in (("_reconstruct", _reconstruct), ("scalar", _scalar))
    },
}


class _RestrictedUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise pickle.UnpicklingError(f"the file asks for {module}.{name}, which such a file does not need")
        return _ADMITTED[module, name]


def load_restricted(content: bytes) -> Any:
    """Unpickle bytes that contain only the admitted types; refuse all others.

    >>> load_restricted(pickle.dumps({"ones": np.ones(2)}))
    {'ones': Array([1., 1.])}
    >>> load_restricted(pickle.dumps(print))
    Traceback (most recent call last):
    _pickle.UnpicklingError: the file asks for builtins.print, which such a file does not need
    """
    return _RestrictedUnpickler(io.BytesIO(content), encoding="latin1").load()
