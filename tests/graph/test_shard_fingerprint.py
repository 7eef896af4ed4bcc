"""The fingerprint of shards is that of the graph in one process, whatever the names and the number of shards."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilgraph.graph import Graph
from veilgraph.graph.shard_fingerprint import merged_fingerprint
from veilgraph.graph.shard_writer import ShardOptions, write_shards

# Names that JSON escapes, that are longer than others with the same start, and beyond ASCII.
NAMES = st.text(alphabet='ab",\\ é😀1', min_size=1, max_size=3).filter(lambda name: name == name.strip())


@settings(max_examples=25, deadline=None)
@given(edges=st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=20), parts=st.integers(1, 4))
def test_merged_shards_have_the_fingerprint_of_the_graph(edges: list[tuple[str, str]], parts: int) -> None:
    if all(source == target for source, target in edges):
        return  # a graph without edges is refused
    with TemporaryDirectory() as folder:
        table = Path(folder) / "edges.parquet"
        pd.DataFrame(edges, columns=["a", "b"]).to_parquet(table)
        shards = write_shards(Path(folder) / "shards", table, parts=parts)
        before = sorted(path.name for path in shards.path.iterdir())
        assert merged_fingerprint(shards) == Graph.from_files(table).fingerprint
        assert sorted(path.name for path in shards.path.iterdir()) == before


@pytest.mark.parametrize("fingerprinted", [False, True])
def test_a_large_graph_has_its_fingerprint_if_it_is_asked_for(tmp_path: Path, fingerprinted: bool) -> None:
    table = tmp_path / "edges.parquet"
    pd.DataFrame({"a": [1, 2, 10, 1], "b": [2, 3, 1, 3]}).to_parquet(table)  # names are text: "10" is before "2"
    shards = write_shards(
        tmp_path / "shards", table, parts=3, options=ShardOptions(fingerprinted=fingerprinted, fingerprint_edges=2)
    )
    assert shards.manifest["edges"] == 4
    assert (shards.identity == Graph.from_files(table).fingerprint) is fingerprinted
