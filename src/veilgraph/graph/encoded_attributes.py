"""Public columns as numbers, encoded once for a whole graph, so that each process reads those of its nodes alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import GraphError
from veilgraph.graph.attribute_kinds import Groups, PublicAttribute

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, kw_only=True, eq=False)
class EncodedColumn:
    """One public column as numbers: an encoding depends on all nodes, and is kept for some of them.

    Attributes:
        name: name of the column.
        width: number of encoded columns.
        values: numbers of each node, [nodes, width], or [nodes, entries] of a sparse encoding.
        places: encoded column of each number, [nodes, entries]; None if the encoding is dense.

    >>> EncodedColumn(name="x", width=3, values=np.ones((1, 1)), places=np.array([[2]])).encoded().toarray().tolist()
    [[0.0, 0.0, 1.0]]
    """

    name: str
    width: int
    values: NDArray[np.float32]
    places: NDArray[np.int32] | None = None

    @classmethod
    def of(cls, attribute: PublicAttribute) -> EncodedColumn:
        """Encode a column. Rows of a sparse encoding are filled up with zeros to the longest one."""
        rows = attribute.encoded()
        if isinstance(rows, np.ndarray):
            return cls(name=attribute.name, width=rows.shape[1], values=rows)
        counts = np.diff(rows.indptr)
        shape = rows.shape[0], max(int(counts.max(initial=0)), 1)
        values, places = np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=np.int32)
        filled = np.arange(shape[1]) < counts[:, None]
        values[filled], places[filled] = rows.data, rows.indices
        return cls(name=attribute.name, width=rows.shape[1], values=values, places=places)

    @classmethod
    def joined(
        cls, parts: Sequence[EncodedColumn], moved: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray
    ) -> EncodedColumn:
        """Return the nodes of several parts one after another, moved to where they belong by a function of rows."""
        places = None
        if parts[0].places is not None:
            places = moved(np.concatenate([part.places for part in parts if part.places is not None]))
        return replace(parts[0], values=moved(np.concatenate([part.values for part in parts])), places=places)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Nodes without a value [nodes]: none, because missing is encoded, too."""
        return np.zeros(len(self.values), dtype=np.bool_)

    def encoded(self) -> NDArray[np.float32] | csr_array:
        """Return the numbers, [nodes, width]."""
        if self.places is None:
            return self.values
        from scipy.sparse import csr_array

        nodes, entries = self.values.shape
        starts = np.arange(0, nodes * entries + 1, entries)
        rows = csr_array((self.values.ravel(), self.places.ravel(), starts), shape=(nodes, self.width))
        rows.eliminate_zeros()
        return rows

    def groups(self) -> Groups:
        """Refuse: an encoding does not say which value it is of."""
        raise GraphError(f"shards hold '{self.name}' as numbers without their groups: give the table of people")

    def select(self, nodes: NDArray[Any]) -> EncodedColumn:
        """Return the numbers of some nodes."""
        return replace(self, values=self.values[nodes], places=None if self.places is None else self.places[nodes])

    def contents(self) -> tuple[NDArray[Any], ...]:
        """Return the numbers."""
        return (self.values,) if self.places is None else (self.values, self.places)
