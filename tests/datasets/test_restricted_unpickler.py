"""A third-party pickle can build arrays and containers and nothing else."""

from __future__ import annotations

import os
import pickle
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


def test_a_dictionary_of_lists_comes_through() -> None:
    neighbours = defaultdict(list, {0: [1], 1: [0]})
    assert load_restricted(pickle.dumps(neighbours, protocol=2)) == {0: [1], 1: [0]}


def test_an_igraph_graph_becomes_a_stand_in() -> None:
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


@pytest.mark.parametrize("function", [eval, exec, __import__, getattr, open, print, np.load, np.fromfile, np.save])
def test_no_other_function_is_admitted(function: Any) -> None:
    with pytest.raises(pickle.UnpicklingError, match="which such a file does not need"):
        load_restricted(pickle.dumps(Payload(function, "x")))


def test_a_name_with_dots_reaches_nothing() -> None:
    with pytest.raises(pickle.UnpicklingError, match=r"numpy\.ndarray\.tofile"):
        load_restricted(b"\x80\x04\x8c\x05numpy\x8c\x0endarray.tofile\x93.")


def test_bytes_can_be_encoded_as_latin1_only() -> None:
    assert load_restricted(b"c_codecs\nencode\n(Vtext\nVlatin1\ntR.") == b"text"
    with pytest.raises(pickle.UnpicklingError, match="encoded as zip, not as latin1"):
        load_restricted(b"c_codecs\nencode\n(Vtext\nVzip\ntR.")


@pytest.mark.parametrize("name", [b"c_codecs\nencode\n", b"cnumpy\ndtype\n"])
def test_a_function_cannot_be_changed(name: bytes) -> None:
    with pytest.raises(pickle.UnpicklingError, match="a function has no state"):
        load_restricted(name + b"(dVa\nVb\nsb.")
