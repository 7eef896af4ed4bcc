"""The part of a sharded graph that one process holds: read from its own shards, and exchanged with the others.

No process ever holds more than its share. Each reads its own shards: it is the *home* of their nodes. It asks the homes
of other nodes for their numbers, and sends every edge to the processes whose parts its ends belong to.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from veilgraph.atomic_files import write_atomically
from veilgraph.distributed.exchange import Exchange
from veilgraph.distributed.graph_rows import GraphRows, Halo, graph_part, neighbours_elsewhere, with_clusters
from veilgraph.distributed.label_propagation import REVISION, measure_cut, partition_rows
from veilgraph.errors import GraphError
from veilgraph.graph.arrow import arrow
from veilgraph.graph.partition import GraphPart
from veilgraph.graph.shard_manifest import shard_name
from veilgraph.graph.shards import KeyIndex, ShardFolder, shard_of, unknown_node
from veilgraph.progress import say

Number = TypeVar("Number", bound=np.generic)

CUTS = "cuts"
"""Name of the folder beside the shards that keeps the parts which were found."""

_CUT = "cut.json"


@dataclass(frozen=True, kw_only=True, eq=False)
class ShardHomes:
    """Which process reads which shard, and the nodes of this process's shards.

    Attributes:
        folder: folder of the shards.
        exchange: exchanges between the processes.
    """

    folder: ShardFolder
    exchange: Exchange

    def __post_init__(self) -> None:
        if self.folder.parts < self.exchange.world_size:
            raise GraphError(
                f"{self.folder.path} has {self.folder.parts} shard(s) for {self.exchange.world_size} processes: write "
                f"it in {self.exchange.world_size} parts or more, or start fewer"
            )

    @cached_property
    def shards(self) -> range:
        """Shards that this process reads."""
        first, last = self._first_shards[self.exchange.rank : self.exchange.rank + 2].tolist()
        return range(first, last)

    @cached_property
    def keys(self) -> NDArray[np.uint64]:
        """Keys of the nodes of these shards, `[home]`, sorted."""
        return np.concatenate([self.folder.nodes(shard).keys for shard in self.shards])

    @cached_property
    def index(self) -> KeyIndex:
        """Index of these keys."""
        return KeyIndex(self.keys)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Numbers of these nodes in the whole graph, `[home]`: a range."""
        first, last = self._starts[self.exchange.rank : self.exchange.rank + 2].tolist()
        return np.arange(first, last)

    def of_keys(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the rank that is the home of each key."""
        return _last_start(self._first_shards, shard_of(keys, self.folder.parts))

    def of_numbers(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rank that is the home of each node."""
        return _last_start(self._starts, numbers)

    @property
    def _first_shards(self) -> NDArray[np.int64]:
        size = self.exchange.world_size
        return np.arange(size + 1) * self.folder.parts // size

    @property
    def _starts(self) -> NDArray[np.int64]:
        return self.folder.starts[self._first_shards]


def _last_start(starts: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.asarray(np.searchsorted(starts, values, side="right") - 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class ShardPart:
    """One process's part of a sharded graph, with the way of its nodes' values from home and back.

    Attributes:
        homes: which process reads which shard.
        part_of: part of each node of this home, `[home]`.
        rows: neighbours of this part's nodes.
        halo: exchange of values of neighbours in other parts.
    """

    homes: ShardHomes
    part_of: NDArray[np.int64] = field(repr=False)
    rows: GraphRows = field(repr=False)
    halo: Halo = field(repr=False)

    @classmethod
    def read(cls, folder: ShardFolder, exchange: Exchange) -> ShardPart:
        """Read this process's shards, and return its part of the graph.

        The first time, parts are found by label propagation and kept in the folder; then they are read.
        """
        homes = ShardHomes(folder=folder, exchange=exchange)
        cache = _CutCache(homes, "parts", exchange.world_size)
        part_of = cache.read()
        if part_of is not None:
            return cls._of(homes, part_of, read_rows(homes, part_of))
        here = np.full(len(homes.numbers), exchange.rank)
        first = cls._of(homes, here, read_rows(homes, here))
        part_of = partition_rows(first.rows, first.halo, exchange.world_size)
        quality = measure_cut(first.rows, first.halo, part_of, exchange.world_size)
        if exchange.rank == 0:
            say(f"partition: {exchange.world_size} parts by label propagation, {quality}")
        _check_parts(exchange, part_of, folder.num_nodes)
        cache.write(part_of)
        return cls._of(homes, part_of, _moved_rows(homes, first.rows, part_of))

    @classmethod
    def _of(cls, homes: ShardHomes, part_of: NDArray[np.int64], rows: GraphRows) -> ShardPart:
        elsewhere = neighbours_elsewhere(rows)
        arrived, answer = homes.exchange.ask(elsewhere, homes.of_numbers(elsewhere))
        owners = answer(part_of[arrived - (homes.numbers[0] if len(homes.numbers) else 0)])
        return cls(
            homes=homes,
            part_of=part_of,
            rows=rows,
            halo=Halo.of(homes.exchange, rows.numbers, elsewhere, owners),
        )

    def from_homes(self, values: NDArray[Number]) -> NDArray[Number]:
        """Send values of the nodes of this home to their parts; return this part's values, in the order of numbers.

        Ranks are homes of ascending numbers, so what arrives is in that order.
        """
        return self.homes.exchange.send(values, self.part_of)[0]

    def to_homes(self, values: NDArray[Number]) -> NDArray[Number]:
        """Send values of this part's nodes to their homes; return this home's values, in the order of its shards."""
        homes = self.homes.of_numbers(self.rows.numbers)
        numbers, _ = self.homes.exchange.send(self.rows.numbers, homes)
        received, _ = self.homes.exchange.send(values, homes)
        return received[np.argsort(numbers)]

    def graph_part(self, num_clusters: tuple[int, ...] = ()) -> GraphPart:
        """Return the part as training takes it.

        Args:
            num_clusters: numbers of clusters of the whole graph that the part carries along.
        """
        return with_clusters(graph_part(self.rows, self.halo), {each: self.clusters(each) for each in num_clusters})

    def clusters(self, count: int) -> NDArray[np.int64]:
        """Return the cluster of each node of this part, `[nodes]`, found once and kept in the folder."""
        cache = _CutCache(self.homes, "clusters", count)
        if (known := cache.read()) is not None:
            return self.from_homes(known)
        found = partition_rows(self.rows, self.halo, count)
        cache.write(self.to_homes(found))
        return found


def read_rows(homes: ShardHomes, part_of: NDArray[np.int64]) -> GraphRows:
    """Read the edges of this process's shards, and return the rows of the nodes of this process's part.

    Args:
        homes: which process reads which shard.
        part_of: part of each node of this home, `[home]`.
    """
    folder, exchange, n = homes.folder, homes.exchange, homes.folder.num_nodes
    numbers, _ = exchange.send(homes.numbers, part_of)
    received = []
    for place in range(exchange.max(len(homes.shards))):
        shard = homes.shards[place] if place < len(homes.shards) else None
        keys = np.empty((2, 0), dtype=np.uint64) if shard is None else folder.edges(shard)
        named, inverse = np.unique(keys, return_inverse=True)
        found = _resolve(homes, named, part_of)
        if shard is not None and (found < 0).any():
            raise unknown_node(folder.path / shard_name("edges", shard))
        ends, parts = (found[:, column][inverse].reshape(keys.shape) for column in (0, 1))
        pairs = np.concatenate([ends[0] * n + ends[1], ends[1] * n + ends[0]])
        del keys, named, inverse, found, ends
        received.append(exchange.send(pairs, parts.ravel())[0])
        del pairs, parts
    arrow().default_memory_pool().release_unused()  # pyarrow keeps freed memory for the next table
    return GraphRows.from_pairs(np.concatenate(received), numbers, n)


def _resolve(homes: ShardHomes, keys: NDArray[np.uint64], part_of: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ask the homes of keys for numbers and parts, `[keys, 2]`; -1 for a key that is not there."""
    arrived, answer = homes.exchange.ask(keys, homes.of_keys(keys))
    places = homes.index.find(arrived)
    first, known = (homes.numbers[0] if len(homes.numbers) else 0), places >= 0
    parts = np.full(len(places), -1)
    parts[known] = part_of[places[known]]
    return answer(np.stack([np.where(known, places + first, -1), parts], axis=1))


def _moved_rows(homes: ShardHomes, rows: GraphRows, part_of: NDArray[np.int64]) -> GraphRows:
    """Send the rows of this home's nodes to their parts."""
    numbers, _ = homes.exchange.send(rows.numbers, part_of)
    pairs, _ = homes.exchange.send(rows.pairs(), np.repeat(part_of, rows.degrees))
    return GraphRows.from_pairs(pairs, numbers, rows.num_global_nodes)


def _check_parts(exchange: Exchange, part_of: NDArray[np.int64], nodes: int) -> None:
    sizes = exchange.sum(np.bincount(part_of, minlength=exchange.world_size))
    if empty := int((sizes == 0).sum()):
        raise GraphError(
            f"{nodes} nodes in {exchange.world_size} parts leave {empty} without any: start fewer processes"
        )


@dataclass(frozen=True)
class _CutCache:
    """Labels of all nodes that were found before, in a folder beside the shards, one file for each shard."""

    homes: ShardHomes
    kind: str
    count: int

    @property
    def _folder(self) -> Path:
        return self.homes.folder.path / CUTS / f"{self.kind}-{self.count}"

    def read(self) -> NDArray[np.int64] | None:
        """Return the labels of this home's nodes; None if any process does not find its own, whole and unchanged."""
        found = self._read()
        here = np.array([found is not None])
        return found if self.homes.exchange.sum(here)[0] == self.homes.exchange.world_size else None

    def write(self, labels: NDArray[np.int64]) -> None:
        """Keep labels of this home's nodes. A folder that cannot be written is left as it is."""
        homes, exchange = self.homes, self.homes.exchange
        starts = homes.folder.starts - (homes.numbers[0] if len(homes.numbers) else 0)
        digests, failed = np.zeros((len(homes.shards), 32), dtype=np.uint8), 0
        for place, shard in enumerate(homes.shards):
            buffer = io.BytesIO()
            np.save(buffer, labels[starts[shard] : starts[shard + 1]].astype(np.int32))
            content = buffer.getvalue()
            digests[place] = np.frombuffer(hashlib.sha256(content).digest(), dtype=np.uint8)
            try:
                write_atomically(self._folder / f"{shard:05d}.npy", content)
            except OSError:
                failed = 1
        written = [bytes(row).hex() for row in exchange.gather(digests)]
        if exchange.sum(np.array([failed]))[0]:
            if exchange.rank == 0:
                say(f"partition: {self._folder} cannot be written, the next start finds it again")
        elif exchange.rank == 0:
            write_atomically(self._folder / _CUT, json.dumps(self._described() | {"sha256": written}))

    def _described(self) -> dict[str, object]:
        return {"revision": REVISION, "graph": self.homes.folder.identity, "shards": self.homes.folder.parts}

    def _read(self) -> NDArray[np.int64] | None:
        try:
            stated = json.loads((self._folder / _CUT).read_bytes())
            if not isinstance(stated, dict) or {key: stated.get(key) for key in self._described()} != self._described():
                return None
            labels = [self._shard(shard, stated["sha256"][shard]) for shard in self.homes.shards]
        except (OSError, ValueError, LookupError, TypeError):
            return None
        joined = np.concatenate(labels).astype(np.int64)
        fits = len(joined) == len(self.homes.numbers) and bool((joined < self.count).all())
        return joined if fits else None

    def _shard(self, shard: int, sha256: str) -> NDArray[np.int32]:
        content = (self._folder / f"{shard:05d}.npy").read_bytes()
        if hashlib.sha256(content).hexdigest() != sha256:
            say(f"partition: {self._folder} was changed, by its checksum; the graph is cut again")
            raise ValueError("changed")
        return np.asarray(np.load(io.BytesIO(content), allow_pickle=False), dtype=np.int32)
