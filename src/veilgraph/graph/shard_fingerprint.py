"""The fingerprint of a graph in shards, in memory that depends on the size of a shard and not on that of the graph."""

from __future__ import annotations

import hashlib
import heapq
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from veilgraph.graph.shards import ShardFolder


def merged_fingerprint(folder: ShardFolder) -> str:
    """Return `Graph.fingerprint` of a graph in shards: each is sorted by itself, and the sorted shards are merged.

    Args:
        folder: folder of the shards; sorted ones are written there for the time being.
    """
    digest = hashlib.sha256()
    for before, keys_of in (('{"edges":[', _edges), ('],"nodes":[', _nodes)):
        digest.update(before.encode())
        for number, key in enumerate(_merged(folder, keys_of)):
            digest.update((("," if number else "") + json.dumps(key, separators=(",", ":"))).encode())
    digest.update(b"]}")
    return digest.hexdigest()


def _edges(folder: ShardFolder, shard: int) -> Iterable[Any]:
    """Return the names of the ends of each edge, the lower one first."""
    columns = (map(str, column.to_pylist()) for column in folder.edge_ids(shard))
    return map(sorted, zip(*columns, strict=True))


def _nodes(folder: ShardFolder, shard: int) -> Iterable[Any]:
    return map(str, folder.nodes(shard).ids.to_pylist())


def _merged(folder: ShardFolder, keys_of: Callable[[ShardFolder, int], Iterable[Any]]) -> Iterator[Any]:
    """Yield the keys of all shards in ascending order."""
    with tempfile.TemporaryDirectory(dir=folder.path, prefix="sorted-") as spill, ExitStack() as files:
        runs = []
        for shard in range(folder.parts):
            path = Path(spill) / str(shard)
            path.write_text("".join(f"{json.dumps(key)}\n" for key in sorted(keys_of(folder, shard))), encoding="ascii")
            runs.append(files.enter_context(path.open(encoding="ascii")))
        yield from heapq.merge(*(map(json.loads, lines) for lines in runs))
