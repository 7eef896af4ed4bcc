"""Files that Arrow reads: no thread of it may need the interpreter, which could have ended by then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from veilgraph.graph import read_table
from veilgraph.graph.arrow import arrow, read_buffer
from veilgraph.graph.shard_writer import write_shards
from veilgraph.graph.shards import ShardFolder


def test_a_file_is_read_into_memory_of_arrow(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 4096)
    before = arrow().total_allocated_bytes()
    content = read_buffer(path)
    assert arrow().total_allocated_bytes() - before >= content.size
    assert content.to_pybytes() == path.read_bytes()


def test_arrow_gets_no_file_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "edges.parquet"
    pd.DataFrame({"source": ["a", "b"], "target": ["b", "c"]}).to_parquet(table)
    write_shards(tmp_path / "shards", table, parts=2)
    pa, parquet = arrow(), arrow("parquet")
    sources, read = [], parquet.read_table

    def note(source: Any, **options: Any) -> Any:
        sources.append(source)
        return read(source, **options)

    monkeypatch.setattr(parquet, "read_table", note)
    assert len(read_table(table)) == ShardFolder.open(tmp_path / "shards").graph().num_edges == 2
    assert len(sources) == 5
    assert all(isinstance(each, pa.NativeFile) and not isinstance(each, pa.PythonFile) for each in sources)
