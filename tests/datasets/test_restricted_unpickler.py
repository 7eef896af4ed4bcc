"""A third-party pickle can build arrays and containers and nothing else."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.support.originals import igraph_pickle
from veilgraph.datasets.restricted_unpickler import IgraphGraph, SparseMatrix, load_restricted


class Payload:
    """Pickles as a call of anything."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", range(5))  # protocols of such files
def test_arrays_and_containers_come_through_in_the_protocols_of_their_time(protocol: int) -> None:
    value = {"x": np.arange(6, dtype=np.int32).reshape(2, 3), "y": [np.float64(0.5), "text"], "z": b"\x00\xff"}
    read = load_restricted(pickle.dumps(value, protocol=protocol))
    assert read["x"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert read["y"] == [0.5, "text"]
    if protocol >= 3:  # before that, bytes were text
        assert read["z"] == b"\x00\xff"


@pytest.mark.parametrize("module", [b"scipy.sparse._csr", b"scipy.sparse.csr"])
def test_a_sparse_matrix_becomes_a_stand_in_under_its_old_and_its_new_name(module: bytes) -> None:
    content = pickle.dumps(sp.csr_matrix(np.eye(2)), protocol=2).replace(b"scipy.sparse._csr", module)
    matrix = load_restricted(content)
    assert isinstance(matrix, SparseMatrix)
    assert matrix.state["indices"].tolist() == [0, 1]
    assert matrix.state["_shape"] == (2, 2)


def test_dictionaries_of_lists_and_igraph_graphs_come_through() -> None:
    neighbours = defaultdict(list, {0: [1], 1: [0]})
    assert load_restricted(pickle.dumps(neighbours, protocol=2)) == {0: [1], 1: [0]}
    graph = load_restricted(igraph_pickle([(0, 1)], {"class": [0, 1]}))
    assert isinstance(graph, IgraphGraph)
    assert graph.arguments == (2, [(0, 1)], False, {}, {"class": [0, 1]}, {})


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("nested", [False, True])
def test_a_command_is_not_executed(protocol: int, nested: bool, tmp_path: Path) -> None:
    payload = Payload(os.system, f"touch {tmp_path}/executed")
    content = pickle.dumps({"x": [[1], payload]} if nested else payload, protocol=protocol)
    with pytest.raises(pickle.UnpicklingError, match=r"asks for (posix|nt).system"):
        load_restricted(content)
    assert not list(tmp_path.iterdir())


def test_no_other_function_is_admitted_and_none_can_be_changed() -> None:
    functions: list[Any] = [eval, exec, __import__, getattr, open, print, np.load, np.fromfile, np.save]
    for function in functions:
        with pytest.raises(pickle.UnpicklingError, match="which such a file does not need"):
            load_restricted(pickle.dumps(Payload(function, "x")))
    for name in (b"c_codecs\nencode\n", b"cnumpy\ndtype\n"):
        with pytest.raises(pickle.UnpicklingError, match="a function has no state"):
            load_restricted(name + b"(dVa\nVb\nsb.")


def test_a_name_with_dots_reaches_nothing() -> None:
    with pytest.raises(pickle.UnpicklingError, match=r"numpy\.ndarray\.tofile"):
        load_restricted(b"\x80\x04\x8c\x05numpy\x8c\x0endarray.tofile\x93.")


def test_bytes_can_be_encoded_as_latin1_only() -> None:
    assert load_restricted(b"c_codecs\nencode\n(Vtext\nVlatin1\ntR.") == b"text"
    with pytest.raises(pickle.UnpicklingError, match="encoded as zip, not as latin1"):
        load_restricted(b"c_codecs\nencode\n(Vtext\nVzip\ntR.")


class Forged:
    """Pickles as a call with a state."""

    def __init__(self, function: Any, arguments: tuple[Any, ...], state: Any) -> None:
        self.reduced = function, arguments, state

    def __reduce__(self) -> Any:
        return self.reduced


RECONSTRUCT, SCALAR = np.empty(0).__reduce__()[0], np.float64(0).__reduce__()[0]
PLAIN_STATE = (3, "<", None, None, None, -1, -1, 0)
OBJECT_AT_AN_ADDRESS = Forged(np.dtype, ("V8", False, True), (3, "|", None, ("a",), {"a": (np.dtype("O"), 0)}, 8, 1, 0))


def forged_array(dtype: Any, shape: Any = (1,), content: Any = b"A" * 8) -> Forged:
    return Forged(RECONSTRUCT, (np.ndarray, (0,), b"b"), (1, shape, dtype, False, content))


FORGERIES: dict[str, Any] = {
    "objects at an address": forged_array(OBJECT_AT_AN_ADDRESS),
    "objects that are not counted": forged_array(Forged(np.dtype, ("O8", False, True), PLAIN_STATE), content=b"A" * 8),
    "a subarray": forged_array(
        Forged(np.dtype, ("V8", False, True), (3, "|", (np.dtype("O"), (1,)), None, None, 8, 1, 0))
    ),
    "fields of a number": forged_array(Forged(np.dtype, ("f8", False, True), (3, "<", None, ("a",), {}, 8, 1, 0))),
    "a state of another version": forged_array(
        Forged(np.dtype, ("f8", False, True), (4, "<", None, None, None, 8, 1, 0, {}))
    ),
    "another byte order": forged_array(Forged(np.dtype, ("f8", False, True), (3, "?", None, None, None, -1, -1, 0))),
    "no state of a type": forged_array(Forged(np.dtype, ("f8", False, True), ())),
    "times": forged_array(
        Forged(np.dtype, ("M8", False, True), (4, "<", None, None, None, -1, -1, 0, ({}, (b"s", 1, 1, 1))))
    ),
    "a type that is text": forged_array("f8"),
    "more than its content": forged_array(np.dtype("f8"), shape=(10**9,)),
    "less than its content": forged_array(np.dtype("f8"), shape=(0,)),
    "a negative shape": forged_array(np.dtype("f8"), shape=(-1, -1)),
    "a shape that is true": forged_array(np.dtype("f8"), shape=(True,)),
    "a shape that overflows": forged_array(np.dtype("f8"), shape=(2**63, 2, 2**63)),
    "fewer objects than its shape": forged_array(np.dtype("O"), shape=(2,), content=[1]),
    "a class of arrays": Forged(RECONSTRUCT, (dict, (0,), b"b"), None),
    "an array without content": Forged(np.ndarray, ((10**6,),), None),
    "a number of another size": Payload(SCALAR, np.dtype("f8"), b"A"),
    "a number of an object": Payload(SCALAR, np.dtype("O"), b"A" * 8),
    "a number of fields": Payload(SCALAR, OBJECT_AT_AN_ADDRESS, b"A" * 8),
    "a long text": forged_array(Forged(np.dtype, ("U99999", False, True), PLAIN_STATE)),
}


def test_an_array_that_points_outside_its_content_is_refused() -> None:
    for name, forgery in FORGERIES.items():
        for protocol in (2, 4):
            with pytest.raises((pickle.UnpicklingError, TypeError, ValueError)):
                pytest.fail(f"{name} was read as {load_restricted(pickle.dumps(forgery, protocol=protocol))!r}")


def test_a_forged_type_does_not_crash_the_process(tmp_path: Path) -> None:
    """Objects at an address of the file's choice used to end the process when the array was read."""
    (tmp_path / "original").write_bytes(pickle.dumps(FORGERIES["objects at an address"], protocol=2))
    program = (
        "import pathlib, sys; from veilgraph.datasets.restricted_unpickler import load_restricted\n"
        "try: print(load_restricted(pathlib.Path(sys.argv[1]).read_bytes()))\n"
        "except Exception as error: sys.exit(str(error))"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path / "original")], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr.strip()) == (1, "an array is neither of numbers nor of text nor of objects")


def test_text_objects_and_both_byte_orders_come_through() -> None:
    value = [
        np.array(["a", "bc"]),
        np.array([b"a"]),
        np.array([{}, None]),
        np.array([1.5], dtype=">f8"),
        np.array(True),
    ]
    read = load_restricted(pickle.dumps(value, protocol=2))
    assert [array.tolist() for array in read] == [array.tolist() for array in value]
    assert [array.dtype for array in read] == [array.dtype.newbyteorder("=") for array in value]
