"""Unpickling of third-party files, restricted to the types that they need.

A pickle is a program: by default it may import and call anything. Here it may build NumPy arrays, lists and
dictionaries. Objects of other libraries become stand-ins, which only store their arguments and their state. Any
other name is refused before it is looked up.
"""

from __future__ import annotations

import io
import pickle
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


def _dtype(code: str, align: int = 0, copy: int = 0) -> np.dtype[Any]:
    """Call `numpy.dtype`; old files write its flags as numbers."""
    return np.dtype(code, bool(align), bool(copy))


def _encode(text: str, encoding: str) -> bytes:
    """Call `_codecs.encode`, by which Python 3 writes bytes for Python 2."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes are encoded as {encoding}, not as latin1")
    return text.encode(encoding)


def _numpy_functions() -> dict[str, Any]:
    """Return NumPy's constructors of arrays and scalars, as its own pickles name them."""
    return {"_reconstruct": np.empty(0).__reduce__()[0], "scalar": np.float64(0).__reduce__()[0]}


# Old and new names: old files name modules that the libraries have moved since.
_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): _Function(_dtype),
    ("collections", "defaultdict"): defaultdict,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
    ("_codecs", "encode"): _Function(_encode),
    ("igraph", "Graph"): IgraphGraph,
    **{(f"scipy.sparse.{module}", "csr_matrix"): SparseMatrix for module in ("csr", "_csr")},
    **{
        (f"numpy.{core}.multiarray", name): function
        for core in ("core", "_core")
        for name, function in _numpy_functions().items()
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
    {'ones': array([1., 1.])}
    >>> load_restricted(pickle.dumps(print))
    Traceback (most recent call last):
    _pickle.UnpicklingError: the file asks for builtins.print, which such a file does not need
    """
    return _RestrictedUnpickler(io.BytesIO(content), encoding="latin1").load()
