"""Archives of graph2gauss, and their pickled copies, are converted without loss."""

from __future__ import annotations

import io
import os
import pickle
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest

from tests.support.originals import graph2gauss_file, small_archive
from tests.support.public_data import real_archive
from veilgraph.datasets.catalogue import find_dataset
from veilgraph.datasets.sources.graph2gauss import convert
from veilgraph.graph.array_files import ArchiveError


@pytest.mark.parametrize("pickled", [False, True])
def test_a_small_graph_is_converted_whole(pickled: bool) -> None:
    archive = small_archive()
    assert convert("small", graph2gauss_file(archive, pickled=pickled)).checksum == archive.checksum


@pytest.mark.parametrize("pickled", [False, True])
def test_a_file_like_the_real_one_gives_the_catalogued_arrays(pickled: bool) -> None:
    files = graph2gauss_file(real_archive("dblp"), pickled=pickled)
    assert convert("dblp", files).checksum == find_dataset("dblp").checksum


@pytest.mark.parametrize("member", ["adj_matrix", "labels"])
def test_a_header_that_claims_any_size_is_refused(member: str) -> None:
    buffer = io.BytesIO()
    with ZipFile(buffer, "w") as archive:
        text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }\n"
        content = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(8)
        archive.writestr(f"{member}.npy", content)
        archive.writestr("adj_data.npy" if member == "labels" else "node_attr.npy", content)
    with pytest.raises((ArchiveError, pickle.UnpicklingError)):
        convert("small", {"archive": buffer.getvalue()})


def test_a_member_that_is_a_program_is_not_executed(tmp_path: Path) -> None:
    class Payload:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {tmp_path}/executed",)

    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=True, adj_matrix=np.array(Payload(), dtype=object))
    with pytest.raises(pickle.UnpicklingError, match="which such a file does not need"):
        convert("small", {"archive": buffer.getvalue()})
    assert not list(tmp_path.iterdir())
