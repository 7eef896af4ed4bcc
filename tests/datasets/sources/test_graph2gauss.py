"""Archives of graph2gauss, and their pickled copies, are converted without loss."""

from __future__ import annotations

import io
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.originals import graph2gauss_file, small_archive
from tests.support.public_data import real_archive
from veilgraph.datasets.catalogue import find_dataset
from veilgraph.datasets.sources.graph2gauss import convert


@pytest.mark.parametrize("pickled", [False, True])
def test_a_small_graph_is_converted_whole(pickled: bool) -> None:
    archive = small_archive()
    assert convert("small", graph2gauss_file(archive, pickled=pickled)).checksum == archive.checksum


@pytest.mark.parametrize("pickled", [False, True])
def test_a_file_like_the_real_one_gives_the_catalogued_arrays(pickled: bool) -> None:
    files = graph2gauss_file(real_archive("dblp"), pickled=pickled)
    assert convert("dblp", files).checksum == find_dataset("dblp").checksum


def test_a_member_that_is_a_program_is_not_executed(tmp_path: Path) -> None:
    class Payload:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {tmp_path}/executed",)

    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=True, adj_matrix=np.array(Payload(), dtype=object))
    with pytest.raises(pickle.UnpicklingError, match="which such a file does not need"):
        convert("small", {"archive": buffer.getvalue()})
    assert not list(tmp_path.iterdir())
