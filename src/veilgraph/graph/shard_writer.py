"""Writing of shards from tables, in memory that depends on the size of a shard and not on that of the graph.

The tables are read once, in batches. Each row is spilled to a file of its shard; then one shard after another is
sorted, checked and written. The folder gets its name when it is complete.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.atomic_files import is_draft, make_private_file, make_private_folder, write_atomically
from veilgraph.errors import GraphError
from veilgraph.graph.arrow import ArrowArray, ArrowBatch, ArrowTable, arrow
from veilgraph.graph.graph import Graph
from veilgraph.graph.io import check_table, edge_columns
from veilgraph.graph.links import LINK_COLUMNS
from veilgraph.graph.shard_fingerprint import merged_fingerprint
from veilgraph.graph.shard_manifest import FORMAT, KINDS, MANIFEST, shard_name
from veilgraph.graph.shard_public import described_columns, encode_columns, table_of_columns
from veilgraph.graph.shards import (
    MAX_PARTS,
    ShardFolder,
    first_empty_report,
    is_text,
    node_keys,
    shard_of,
)
from veilgraph.graph.text_tables import read_layout
from veilgraph.privacy.public_columns import PublicColumn
from veilgraph.progress import Progress, no_progress

MAX_FINGERPRINT_EDGES = 1_000_000
"""Up to this number of edges the identity of a graph is `Graph.fingerprint`, which needs the whole graph."""

_SPILL = "spill"


@dataclass(frozen=True, kw_only=True)
class ShardOptions:
    """How shards are written.

    Attributes:
        fingerprinted: identify a graph of any size by `Graph.fingerprint`, as a campaign on its edge table does.
        fingerprint_edges: number of edges up to which a graph is identified by `Graph.fingerprint` in any case.
        batch_bytes: size of a batch of a CSV table.
        batch_rows: number of rows in a batch of a Parquet table.
    """

    fingerprinted: bool = False
    fingerprint_edges: int = MAX_FINGERPRINT_EDGES
    batch_bytes: int = 2**24
    batch_rows: int = 2**18


USUAL = ShardOptions()


@dataclass(frozen=True, eq=False)
class ShardedReports:
    """Reports to write beside a graph.

    Attributes:
        batches: batches of reports with columns `node`, `features` and `label`; at most one for each node.
        described: facts about the reports for the manifest, JSON-ready: `campaign` is the id of their campaign.
        public: public columns that their campaign declares; they are read from the table of nodes.
    """

    batches: Iterable[ArrowBatch]
    described: Mapping[str, Any] = field(default_factory=dict)
    public: Sequence[PublicColumn] = ()


def write_shards(
    folder: Path,
    edges: Path,
    *,
    parts: int,
    nodes: Path | None = None,
    reports: ShardedReports | None = None,
    campaign_graph: str | None = None,
    options: ShardOptions = USUAL,
    progress: Progress = no_progress,
) -> ShardFolder:
    """Write a folder of shards from an edge table, and return it.

    Self loops, repeated edges and reports of nodes that the graph lacks are dropped and counted. A run that is killed
    leaves a draft whose name begins with a dot; the next run removes it.

    Args:
        folder: folder to write; it must not exist yet, or be empty.
        edges: table whose first two columns are the end nodes of edges, .csv or .parquet.
        parts: number of shards.
        nodes: table with a column `id`; default: the nodes that have an edge.
        reports: reports to write beside the graph; default: none.
        campaign_graph: identity of the graph that the campaign was made for; another graph is refused.
        options: how the graph is identified, and how much of a table is read at once.
        progress: called with the work, and the number of finished and of all shards.
    """
    with drafted_folder(folder, parts) as draft:
        spill = _Spill(draft / _SPILL, parts)
        with spill:
            kind = _spill_edges(spill, edges, options, progress)
            if nodes is not None:
                for ids in _columns(nodes, ["id"], options):
                    spill.add("nodes", [("id", as_ids(ids[0], kind, nodes))])
            for batch in () if reports is None else reports.batches:
                spill.add("reports", [(name, batch.column(name)) for name in batch.schema.names], kind)
        writer = ShardWriter(draft, ids=kind, reports=reports is not None)
        for shard in range(parts):
            progress("shards", shard, parts)
            _finish(writer, spill, shard, nodes)
        if reports is not None and reports.public:
            _write_public(writer, nodes, reports.public, draft / _SPILL, options)
        progress("shards", parts, parts)
        shutil.rmtree(draft / _SPILL)
        described = {} if reports is None else reports.described
        writer.write_manifest(loops=spill.loops, described=described, fingerprint_edges=options.fingerprint_edges)
        shards = ShardFolder.open(draft)
        is_large = shards.num_edges > options.fingerprint_edges
        if is_large and (options.fingerprinted or campaign_graph not in (None, shards.identity)):
            writer.write_manifest(loops=spill.loops, described=described, identity=merged_fingerprint(shards))
            shards = ShardFolder.open(draft)
        if campaign_graph not in (None, shards.identity):
            same_parts = ", or the same number of parts if it was given shards" if is_large else ""
            raise GraphError(
                f"the graph of {edges} ({shards.num_nodes} nodes) is not the campaign's: give the tables that "
                f"'veilgraph init' was given{same_parts}"
            )
    return ShardFolder.open(folder)


@contextmanager
def drafted_folder(folder: Path, parts: int) -> Iterator[Path]:
    """Yield a draft of a folder of shards, which gets its name if the context ends without an error.

    Args:
        folder: the final folder; it must not exist yet, or be empty.
        parts: number of shards, which is checked here before anything is read.
    """
    if not 1 <= parts <= MAX_PARTS:
        raise GraphError(f"parts is {parts}: give a whole number from 1 to {MAX_PARTS}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise GraphError(f"{folder} exists already: choose another folder, or remove it")
    for other in folder.absolute().parent.glob(f".{folder.name}.*.part"):
        if is_draft(other) and other.is_dir():
            shutil.rmtree(other)  # of a run that was killed
    draft = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}.part")
    make_private_folder(draft)
    try:
        yield draft
        if folder.exists():
            folder.rmdir()
        draft.rename(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def write_shard(folder: Path, kind: str, shard: int, table: ArrowTable) -> dict[str, Any]:
    """Write one file of a shard, and return what a manifest says about it: rows, bytes and SHA-256."""
    pq = arrow("parquet")

    path = folder / shard_name(kind, shard)
    # Whole numbers that are hashes do not compress, and a dictionary of them would be as large as they are. Predictions
    # have them in one column of many.
    numbers = kind in KINDS and any(arrow().types.is_int64(each) for each in table.schema.types)
    make_private_file(path)
    pq.write_table(table, path, compression="none" if numbers else "zstd", use_dictionary=not numbers)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"rows": table.num_rows, "bytes": path.stat().st_size, "sha256": digest}


@dataclass(eq=False)
class ShardWriter:
    """Collects the descriptions of shards, and writes the manifest.

    Args:
        folder: folder of the shards.
        ids: type of the ids: "text" or "integer".
        reports: whether there are shards of reports.
        public: description of the public columns; None if there are none.
        shards: description of each shard, by kind.
        duplicates: number of repeated edges that were dropped.
        unknown_reports: number of reports that were dropped, of nodes that the graph lacks.
    """

    folder: Path
    ids: str
    reports: bool
    public: list[dict[str, Any]] | None = None
    shards: list[dict[str, Any]] = field(default_factory=list)
    duplicates: int = 0
    unknown_reports: int = 0

    def write_manifest(
        self,
        *,
        loops: int = 0,
        described: Mapping[str, Any] | None = None,
        identity: str | None = None,
        fingerprint_edges: int = MAX_FINGERPRINT_EDGES,
    ) -> None:
        """Write the manifest, from the descriptions of all shards in `shards`.

        Args:
            loops: number of self loops that were dropped.
            described: facts about the reports, JSON-ready.
            identity: identity of the graph, if it is known already.
            fingerprint_edges: number of edges up to which the fingerprint of the whole graph is computed.
        """
        counts = {
            kind: sum(shard[kind]["rows"] for shard in self.shards)
            for kind in ("nodes", "edges", *(["reports"] if self.reports else []))
        }
        if not counts["edges"]:
            raise GraphError("the graph has no edges: there is no neighbourhood to reconstruct anything from")
        digests = [[shard[kind]["sha256"] for kind in ("nodes", "edges")] for shard in self.shards]
        manifest = {
            "format": FORMAT,
            "ids": self.ids,
            "nodes": counts["nodes"],
            "edges": counts["edges"],
            "reports": counts.get("reports"),
            "public": self.public,
            "campaign": None,
            **(described or {}),
            "dropped_self_loops": loops,
            "dropped_duplicates": self.duplicates,
            "dropped_reports": self.unknown_reports,
            "graph": identity or hashlib.sha256(json.dumps(digests).encode()).hexdigest(),
            "shards": self.shards,
        }
        path = self.folder / MANIFEST
        write_atomically(path, json.dumps(manifest, indent=1))
        if identity is None and counts["edges"] <= fingerprint_edges:
            graph = ShardFolder.open(self.folder).graph()
            plain = Graph(num_nodes=graph.num_nodes, edges=graph.edges, node_ids=graph.names)
            manifest["graph"] = plain.fingerprint
            write_atomically(path, json.dumps(manifest, indent=1))


def as_ids(values: ArrowArray, kind: str | None, path: Path) -> ArrowArray:
    """Return ids as text or as 64-bit whole numbers; refuse a missing one.

    Args:
        values: the ids.
        kind: "text" or "integer"; None takes the type of the values.
        path: table of the ids, for the error.
    """
    pa = arrow()
    pc = arrow("compute")

    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if values.null_count:
        raise GraphError(f"{path}: an id is missing; complete the row or leave it out")
    integers, texts = pa.types.is_integer(values.type), is_text(values.type)
    if not integers and not texts:
        raise GraphError(f"{path}: ids have type {values.type}; they must be text or whole numbers")
    if kind == "text" or (kind is None and texts):
        return values.cast(pa.string())
    try:
        numbers = values.cast(pa.int64())
    except pa.ArrowInvalid:
        numbers = None
    if numbers is None or (texts and not pc.all(pc.equal(numbers.cast(pa.string()), values.cast(pa.string()))).as_py()):
        raise GraphError(f"{path}: an id is not a whole number as those of the edge table are; give the same ids")
    return numbers


class _Spill:
    """Rows of tables, in one file for each shard and kind."""

    def __init__(self, folder: Path, parts: int) -> None:
        self._folder, self._parts = folder, parts
        self._files, self._writers = ExitStack(), dict[tuple[str, int], Any]()
        self.loops = 0

    def __enter__(self) -> _Spill:
        make_private_folder(self._folder)
        return self

    def __exit__(self, *exception: object) -> None:
        self._files.close()

    def add(
        self, kind: str, columns: list[tuple[str, Any]], ids: str | None = None, keys: NDArray[np.uint64] | None = None
    ) -> None:
        """Add rows to the shards of their first column, or of given keys.

        Args:
            kind: kind of the rows.
            columns: name and values of each column.
            ids: type to convert the ids of the first column to; None if they have it.
            keys: keys that decide on the shard.
        """
        pa = arrow()

        if ids is not None:
            columns = [(columns[0][0], as_ids(columns[0][1], ids, Path("the reports"))), *columns[1:]]
        table = pa.table(dict(columns))
        shards = shard_of(node_keys(table.column(0).combine_chunks()) if keys is None else keys, self._parts)
        order = np.argsort(shards, kind="stable")
        table, ends = table.take(order), np.cumsum(np.bincount(shards, minlength=self._parts))
        for shard in np.flatnonzero(np.bincount(shards, minlength=self._parts)).tolist():
            start = int(ends[shard - 1]) if shard else 0
            self._writer(kind, shard, table.schema).write_table(table.slice(start, int(ends[shard]) - start))

    def read(self, kind: str, shard: int) -> ArrowTable | None:
        """Return the rows of a shard; None if there are none."""
        pa = arrow()

        path = self._path(kind, shard)
        if not path.exists():
            return None
        with pa.ipc.open_stream(pa.OSFile(str(path))) as stream:
            return stream.read_all().combine_chunks()

    def _writer(self, kind: str, shard: int, schema: Any) -> Any:
        pa = arrow()

        if (kind, shard) not in self._writers:
            make_private_file(path := self._path(kind, shard))
            file = self._files.enter_context(pa.OSFile(str(path), "wb"))
            self._writers[kind, shard] = self._files.enter_context(pa.ipc.new_stream(file, schema))
        return self._writers[kind, shard]

    def _path(self, kind: str, shard: int) -> Path:
        return self._folder / f"{kind}-{shard}.arrow"


def _spill_edges(spill: _Spill, path: Path, options: ShardOptions, progress: Progress) -> str:
    """Spill edges with the lower key first, and the ends of each batch as nodes; return the type of the ids."""
    pa = arrow()
    pc = arrow("compute")

    kind: str | None = None
    total, done = max(path.stat().st_size if path.exists() else 0, 1), 0
    for columns in _columns(path, None, options):
        source, target = (as_ids(each, kind, path) for each in columns)
        kind = kind or ("integer" if pa.types.is_integer(source.type) else "text")
        if source.type != target.type:
            raise GraphError(f"{path}: ids are {source.type} and {target.type}; both ends must have the same type")
        keys = np.stack([node_keys(source), node_keys(target)])
        apart, low = keys[0] != keys[1], pa.array(keys[0] < keys[1])
        spill.loops += int((~apart).sum())
        table = pa.table({"source": pc.if_else(low, source, target), "target": pc.if_else(low, target, source)})
        spill.add(
            "edges",
            list(zip(table.column_names, table.filter(pa.array(apart)).columns, strict=True)),
            keys=keys.min(axis=0)[apart],
        )
        ends = pa.concat_arrays([source, target])
        _, first = np.unique(keys.ravel(), return_index=True)
        spill.add("ends", [("id", ends.take(first))])
        done += source.nbytes + target.nbytes
        progress("edge table", min(done, total), total)
    if kind is None:
        raise GraphError(f"{path} has no rows: the graph needs an edge")
    return kind


def _columns(path: Path, names: list[str] | None, options: ShardOptions) -> Iterator[list[Any]]:
    """Yield columns of a table, batch by batch.

    Args:
        path: the table, .csv or .parquet. All values of a CSV table are text.
        names: columns to read; default: the first two.
        options: size of a batch.
    """
    damaged = arrow().ArrowException

    reader: Callable[..., Iterator[list[Any]]]
    check_table(path)
    reader = _csv_columns if path.suffix == ".csv" else _parquet_columns
    try:
        yield from reader(path, names, options.batch_bytes if path.suffix == ".csv" else options.batch_rows)
    except damaged as error:
        raise GraphError(f"{path} is not a readable {path.suffix} table ({type(error).__name__})") from None
    except OSError as error:
        raise GraphError(f"{path} cannot be read: {error.strerror or 'it is damaged'}") from None


def _csv_columns(path: Path, names: list[str] | None, batch_bytes: int) -> Iterator[list[Any]]:
    pa = arrow()
    pc = arrow("csv")

    layout = read_layout(path)
    wanted = _wanted(path, list(layout.columns), names)
    convert = pc.ConvertOptions(
        column_types=dict.fromkeys(layout.columns, pa.string()),
        include_columns=wanted,
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
        null_values=[""],
    )
    blocks = pc.ReadOptions(
        block_size=batch_bytes,
        use_threads=False,
        column_names=layout.columns,
        skip_rows=1,  # the header
        encoding=layout.encoding,
    )
    cells = pc.ParseOptions(delimiter=layout.separator)
    with pc.open_csv(path, read_options=blocks, parse_options=cells, convert_options=convert) as batches:
        for batch in batches:
            yield [batch.column(name) for name in wanted]


def _parquet_columns(path: Path, names: list[str] | None, batch_rows: int) -> Iterator[list[Any]]:
    pq = arrow("parquet")

    with pq.ParquetFile(path) as file:
        wanted = _wanted(path, file.schema_arrow.names, names)
        for batch in file.iter_batches(batch_size=batch_rows, columns=wanted, use_threads=False):
            yield [batch.column(name) for name in wanted]


def _wanted(path: Path, present: list[str], names: list[str] | None) -> list[str]:
    if names is None:
        if known := [name for name in LINK_COLUMNS if name in present[2:]]:
            raise GraphError(
                f"{path} has a column '{known[0]}', which shards do not hold yet: train from the table in one process, "
                "or leave the column out"
            )
        return edge_columns(present, path)
    if lacking := [name for name in names if name not in present]:
        what = "which names the nodes" if lacking[0] == "id" else "which is declared as public: add it"
        raise GraphError(f"{path} has no column '{lacking[0]}', {what}")
    return names


def _finish(writer: ShardWriter, spill: _Spill, shard: int, nodes: Path | None) -> None:
    """Sort, check and write one shard."""
    pa = arrow()

    kind = pa.int64() if writer.ids == "integer" else pa.string()
    ends, given = spill.read("ends", shard), spill.read("nodes", shard)
    empty = pa.array([], type=kind)
    ids, keys = _sorted_ids(empty if ends is None else ends.column("id"), repeated=True)
    if nodes is not None:
        known, known_keys = _sorted_ids(empty if given is None else given.column("id"), repeated=False, path=nodes)
        unknown = ~np.isin(keys, known_keys)
        if unknown.any():
            raise GraphError(f"an edge names node '{ids[int(unknown.argmax())]}', which {nodes} lacks: add it there")
        ids, keys = known, known_keys
    described = {"nodes": write_shard(writer.folder, "nodes", shard, pa.table({"id": ids}))}
    edges = spill.read("edges", shard)
    table = pa.table({"source": empty, "target": empty}) if edges is None else _distinct_edges(edges)
    writer.duplicates += 0 if edges is None else edges.num_rows - table.num_rows
    described["edges"] = write_shard(writer.folder, "edges", shard, table)
    if writer.reports:
        reports = spill.read("reports", shard)
        known = _known_reports(reports, keys, kind)
        writer.unknown_reports += 0 if reports is None else reports.num_rows - known.num_rows
        described["reports"] = write_shard(writer.folder, "reports", shard, known)
    writer.shards.append(described)


def _write_public(
    writer: ShardWriter, nodes: Path | None, columns: Sequence[PublicColumn], spill: Path, options: ShardOptions
) -> None:
    """Write the public columns of all nodes, which depend on the whole table of nodes, shard by shard."""
    if nodes is None:
        raise GraphError(
            f"public columns are declared ({', '.join(column.name for column in columns)}): give the table of people, "
            "which has them"
        )
    pq = arrow("parquet")
    shards = range(len(writer.shards))
    read = [pq.read_table(writer.folder / shard_name("nodes", shard)).column("id").to_pylist() for shard in shards]
    ids = [str(each) for shard in read for each in shard]
    encoded = list(encode_columns(nodes, columns, ids, spill, lambda path, names: _columns(path, names, options)))
    writer.public, start = described_columns(encoded), 0
    for shard in shards:
        here = slice(start, start := start + len(read[shard]))
        writer.shards[shard]["public"] = write_shard(writer.folder, "public", shard, table_of_columns(encoded, here))


def _sorted_ids(ids: Any, *, repeated: bool, path: Path | None = None) -> tuple[Any, NDArray[np.uint64]]:
    """Return ids sorted by key, each once, with their keys; refuse a repeated one, or two ids with one key."""
    ids = ids.combine_chunks() if hasattr(ids, "combine_chunks") else ids
    keys = node_keys(ids)
    order = np.argsort(keys, kind="stable")
    ids, keys = ids.take(order), keys[order]
    same = np.flatnonzero(keys[1:] == keys[:-1])
    for place in same[:1].tolist() if not repeated else ():
        raise GraphError(f"{path}: node id '{ids[place]}' occurs twice; ids must be unique")
    if len(same) and not ids.take(same).equals(ids.take(same + 1)):
        raise GraphError("two different ids have the same 64-bit key: rename one of the nodes")
    first = np.ones(len(keys), dtype=np.bool_)
    first[1:] = keys[1:] != keys[:-1]
    return ids.filter(arrow().array(first)), keys[first]


def _distinct_edges(table: Any) -> Any:
    keys = [node_keys(table.column(name).combine_chunks()) for name in ("source", "target")]
    order = np.lexsort((keys[1], keys[0]))
    first = np.ones(len(order), dtype=np.bool_)
    low, high = keys[0][order], keys[1][order]
    first[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    return table.take(order[first])


def _known_reports(table: Any, keys: NDArray[np.uint64], kind: Any) -> Any:
    """Return the reports of nodes of the shard in their order; reports of other nodes are left out."""
    pa = arrow()

    if table is None:
        return pa.table({"node": pa.array([], type=kind)})
    if (row := first_empty_report(table)) is not None:
        raise GraphError(
            f"the report of node '{table.column('node')[row]}' has neither features nor a label: remove it"
        )
    of = node_keys(table.column("node").combine_chunks())
    order = np.argsort(of, kind="stable")
    if (of[order][1:] == of[order][:-1]).any():
        raise GraphError("a node has two reports: give one for each node; reports of a series are trained from a store")
    return table.take(order[np.isin(of[order], keys)])
