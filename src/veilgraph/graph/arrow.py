"""pyarrow, which has no type stubs, imported on first use; the types of its values, in words."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from veilgraph.errors import MissingExtraError

ArrowArray: TypeAlias = Any
"""A `pyarrow.Array`: one column."""

ArrowBuffer: TypeAlias = Any
"""A `pyarrow.Buffer`: bytes."""

ArrowTable: TypeAlias = Any
"""A `pyarrow.Table`."""

ArrowBatch: TypeAlias = Any
"""A `pyarrow.RecordBatch`: some rows of a table."""


def arrow(part: str = "") -> Any:
    """Import pyarrow, or a part of it.

    >>> arrow("compute").sum(arrow().array([1, 2])).as_py()
    3
    """
    try:
        return importlib.import_module(f"pyarrow.{part}" if part else "pyarrow")
    except ImportError as error:
        raise MissingExtraError(error.name or "pyarrow", "server") from error


def column_type(schema: Mapping[str, Any]) -> Any:
    """Return the type of a column for values of a JSON schema: codes, lists of codes, or nothing.

    >>> str(column_type({"type": "integer"})), str(column_type({"anyOf": [{"type": "array"}, {"type": "null"}]}))
    ('int32', 'list<item: int32>')
    """
    pa = arrow()
    (kind, *_) = schema.get("anyOf", [schema])
    types = {"array": pa.list_(pa.int32()), "integer": pa.int32(), "string": pa.string(), "null": pa.null()}
    return types[kind["type"]]


def read_buffer(path: Path) -> ArrowBuffer:
    """Read a file into memory of Arrow.

    Threads of Arrow release a buffer some time after the reading is finished. For memory of Python they then need the
    interpreter; if it ends at this time, C++ aborts the process. Hence Arrow gets neither `bytes` nor files of Python.
    """
    with path.open("rb") as file:
        buffer = arrow().allocate_buffer(os.fstat(file.fileno()).st_size)
        return buffer.slice(0, file.readinto(buffer))
