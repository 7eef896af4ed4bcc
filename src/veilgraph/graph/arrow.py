"""pyarrow, which has no type stubs, imported on first use; the types of its values, in words."""

from __future__ import annotations

import importlib
from typing import Any, TypeAlias

from veilgraph.errors import MissingExtraError

ArrowArray: TypeAlias = Any
"""A `pyarrow.Array`: one column."""

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
