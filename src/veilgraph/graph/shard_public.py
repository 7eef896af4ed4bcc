"""Public columns beside the shards of a graph: encoded from the table of people, one file of numbers for each shard."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import GraphError
from veilgraph.graph.arrow import ArrowTable, arrow
from veilgraph.graph.encoded_attributes import EncodedColumn
from veilgraph.graph.public_attributes import PublicAttributes, embedding_file
from veilgraph.graph.shard_manifest import REMEDY
from veilgraph.privacy.public_columns import PublicColumn

ReadColumns = Callable[[Path, list[str]], Iterator[list[Any]]]
"""Yields batches of columns of a table, by their names."""

_CELLS = 2**23
"""Cells of a table that are held at once while columns are encoded."""

_VALUES, _PLACES = "values", "places"


def encode_columns(
    table: Path, columns: Sequence[PublicColumn], ids: Sequence[str], spill: Path, read: ReadColumns
) -> Iterator[EncodedColumn]:
    """Encode declared public columns, some at a time; numbers of all nodes are in files, and not in memory.

    Args:
        table: table of people, .csv or .parquet.
        columns: the public columns.
        ids: ids of all nodes, in the order of the shards.
        spill: folder of the files.
        read: reads columns of the table.
    """
    at_once, place = max(1, _CELLS // max(1, len(ids))), 0
    beside = [column for column in columns if embedding_file(table, column.name) is not None]
    inside = [column for column in columns if column not in beside]
    groups = [inside[start : start + at_once] for start in range(0, len(inside), at_once)]
    for group in [*groups, *([column] for column in beside)]:
        if group[0] in beside:
            found = PublicAttributes.from_file(table, ids=ids, columns=group)
        else:
            frame = _frame(read(table, ["id", *(column.name for column in group)]), group)
            found = PublicAttributes.from_table(frame, ids=ids, columns=group, where=str(table))
        for attribute in found:
            encoded = EncodedColumn.of(attribute)
            places = None if encoded.places is None else _kept(encoded.places, spill / f"places-{place}.npy")
            values = _kept(encoded.values, spill / f"values-{place}.npy")
            yield EncodedColumn(name=encoded.name, width=encoded.width, values=values, places=places)
            place += 1


def _frame(batches: Iterator[list[Any]], columns: Sequence[PublicColumn]) -> Any:
    """Return columns of a table as a frame of pandas."""
    names = ["id", *(column.name for column in columns)]
    return (
        arrow()
        .Table.from_batches([arrow().record_batch(batch, names=names) for batch in batches])
        .to_pandas(types_mapper=None, date_as_object=True)
    )


def _kept(rows: NDArray[Any], path: Path) -> NDArray[Any]:
    """Write an array to a file, and return it as read from there on demand."""
    np.save(path, rows)
    return np.lib.format.open_memmap(path, mode="r")


def described_columns(columns: Sequence[EncodedColumn]) -> list[dict[str, Any]]:
    """Return what a manifest says about public columns: names and widths."""
    return [
        {"name": each.name, "width": each.width, "entries": each.values.shape[1], "sparse": each.places is not None}
        for each in columns
    ]


def table_of_columns(columns: Sequence[EncodedColumn], nodes: slice) -> ArrowTable:
    """Return the numbers of a shard's nodes as a table: a list of fixed size for each column."""
    arrays = {}
    for place, each in enumerate(columns):
        arrays[f"{_VALUES}{place}"] = _lists(each.values[nodes])
        if each.places is not None:
            arrays[f"{_PLACES}{place}"] = _lists(each.places[nodes])
    return arrow().table(arrays)


def columns_of_table(table: ArrowTable, described: Sequence[dict[str, Any]], where: Path) -> list[EncodedColumn]:
    """Return the numbers of a shard's nodes, as its manifest describes them; refuse a table of another form."""
    try:
        return [
            EncodedColumn(
                name=each["name"],
                width=each["width"],
                values=_rows(table, f"{_VALUES}{place}", each["entries"], np.float32),
                places=_rows(table, f"{_PLACES}{place}", each["entries"], np.int32) if each["sparse"] else None,
            )
            for place, each in enumerate(described)
        ]
    except (KeyError, ValueError, TypeError, AttributeError):
        raise GraphError(f"{where} does not hold the public columns that the manifest describes: {REMEDY}") from None


def _lists(rows: NDArray[Any]) -> Any:
    return arrow().FixedSizeListArray.from_arrays(np.ascontiguousarray(rows).ravel(), rows.shape[1])


def _rows(table: ArrowTable, name: str, width: int, kind: type) -> NDArray[Any]:
    flat = table.column(name).combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return np.asarray(flat, dtype=kind).reshape(table.num_rows, width)
