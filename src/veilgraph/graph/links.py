"""What is known about links beside whom they join: how strong each is, its direction, and its kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from veilgraph.errors import GraphError
from veilgraph.privacy.public_columns import LINK, PublicColumn

if TYPE_CHECKING:
    import pandas as pd

_ARGUMENTS = {"weight": "weights", "directed": "directed", "kind": "kinds"}
LINK_COLUMNS = tuple(_ARGUMENTS)
"""Columns of a table of links that are read beside the two ends."""

LINK_WORDS = {
    "weight": "how strong links are",
    "directed": "which way links go",
    "kind": "kinds of links",
}
"""What a campaign says to be known about links, by their columns; pages translate it."""
_YES_NO = {"yes": True, "no": False, "true": True, "false": False, "1": True, "0": False}


@dataclass(frozen=True, kw_only=True, eq=False)
class Links:
    """Links of a public graph, of which two nodes may have several: both directions, or several kinds.

    Attributes:
        ends: int64 `[2, links]`, where each link begins and where it ends; u < v where it has no direction.
        weights: `[links]`, how strong each link is, above 0.
        directed: `[links]`, which links have a direction.
        kinds: `[links]`, number of each link's kind.
        kind_names: names of the kinds, in the order of their numbers.

    >>> Links.of([[0, 1], [1, 2]], weights=[1, 2.5])
    Links(2 links with weights)
    >>> Links.of([[0, 1], [1, 2]], weights=[3, 3]) is None  # equal weights say nothing
    True
    """

    ends: NDArray[np.int64]
    weights: NDArray[np.float64]
    directed: NDArray[np.bool_]
    kinds: NDArray[np.int64]
    kind_names: tuple[str, ...] = ("",)

    @classmethod
    def of(
        cls, ends: ArrayLike, *, weights: ArrayLike | None = None, directed: ArrayLike = False, kinds: Any = None
    ) -> Links | None:
        """Return the links of a graph; None if all are alike: of one weight and one kind, and none has a direction.

        Self loops and rows that say the same twice are left out.

        Args:
            ends: numbers of the nodes, `[2, links]`.
            weights: `[links]`; default: all are 1.
            directed: whether links go from the first end to the second, `[links]` or one answer for all.
            kinds: name of each link's kind, `[links]`; default: all are of one kind.
        """
        if weights is None and kinds is None and not np.any(directed):
            return None
        pairs = np.array(ends, dtype=np.int64)
        count = pairs.shape[1]
        strengths = np.ones(count) if weights is None else _checked_weights(weights, count)
        ways = np.array(directed, dtype=np.bool_)
        if ways.shape not in ((), (count,)):
            raise GraphError(f"'directed' has {ways.size} entries for {count} links: give one for each, or one for all")
        ways = np.broadcast_to(ways, (count,)).copy()
        names: tuple[str, ...] = ("",)
        codes = np.zeros(count, dtype=np.int64)
        if kinds is not None:
            names, codes = _checked_kinds(kinds, count)
        pairs[:, ~ways] = np.sort(pairs[:, ~ways], axis=0)
        kept = _each_once(np.stack([codes, *pairs, ways]), strengths)
        kept = kept[pairs[0, kept] != pairs[1, kept]]
        found = cls(
            ends=pairs[:, kept], weights=strengths[kept], directed=ways[kept], kinds=codes[kept], kind_names=names
        )
        return found if found.has_weights or found.has_directions or found.has_kinds else None

    @property
    def has_weights(self) -> bool:
        """Whether weights differ."""
        return bool((self.weights != self.weights[:1]).any())

    @property
    def has_kinds(self) -> bool:
        """Whether there are several kinds."""
        return len(self.kind_names) > 1

    @property
    def has_directions(self) -> bool:
        """Whether a link has a direction, and no link back: otherwise directions say nothing."""
        there, _ = self.arcs
        forth, back = (np.unique(pair, axis=1) for pair in (there, there[::-1]))
        return not np.array_equal(forth, back)

    @property
    def arcs(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Directed links `[2, arcs]`, both ways where a link has no direction, and their weights `[arcs]`."""
        both = ~self.directed
        ends = np.concatenate([self.ends, self.ends[::-1, both]], axis=1)
        return ends, np.concatenate([self.weights, self.weights[both]])

    @property
    def in_words(self) -> str:
        """What is known about links, such as "weights and kinds (call, visit)"."""
        kinds = f"kinds ({', '.join(self.kind_names)})"
        parts = ((self.has_weights, "weights"), (self.has_directions, "directions"), (self.has_kinds, kinds))
        return " and ".join(words for present, words in parts if present)

    def columns(self) -> dict[str, Any]:
        """Return the columns of a table that say what is known, with an entry for each link."""
        known = {
            "weight": (self.has_weights, self.weights),
            "directed": (self.has_directions, np.where(self.directed, "yes", "no").astype(object)),
            "kind": (self.has_kinds, np.array(self.kind_names, dtype=object)[self.kinds]),
        }
        return {name: cells for name, (present, cells) in known.items() if present}

    def as_edge_index(self) -> dict[str, NDArray[Any]]:
        """Return `edge_index` [2, arcs], `edge_weight` [arcs] and `edge_type` [arcs], as torch_geometric names them."""
        both = ~self.directed
        index, weights = self.arcs
        kinds = np.concatenate([self.kinds, self.kinds[both]])
        return {"edge_index": index, "edge_weight": weights.astype(np.float32), "edge_type": kinds}

    def renumbered(self, numbers: NDArray[np.integer[Any]]) -> Links | None:
        """Return the links after nodes `[nodes]` got other numbers, without those of nodes with the number -1."""
        ends = numbers[self.ends]
        kept = (ends >= 0).all(axis=0)
        names = np.array(self.kind_names, dtype=object)[self.kinds[kept]] if self.has_kinds else None
        return Links.of(ends[:, kept], weights=self.weights[kept], directed=self.directed[kept], kinds=names)

    def contents(self) -> tuple[NDArray[Any], ...]:
        """Return arrays that determine all that is known, for a fingerprint."""
        names = np.frombuffer("\0".join(self.kind_names).encode(), dtype=np.uint8)
        return self.ends, self.weights, self.directed, self.kinds, names

    def stated(self, names: Sequence[str]) -> list[list[Any]]:
        """Return every link by the names of its ends, with its weight, its direction and its kind, sorted."""
        ends = np.array(names, dtype=object)[self.ends]
        parts = self.weights.tolist(), self.directed.tolist(), [self.kind_names[kind] for kind in self.kinds]
        rows = zip(*ends.tolist(), *parts, strict=True)
        return sorted([*((u, v) if way else sorted((u, v))), weight, way, kind] for u, v, weight, way, kind in rows)

    @property
    def told(self) -> tuple[PublicColumn, ...]:
        """What people are told to be known about links without asking, as public columns of a campaign."""
        return tuple(PublicColumn(name=LINK_WORDS[name], kind=LINK) for name in self.columns())

    def __repr__(self) -> str:
        return f"Links({self.ends.shape[1]} links with {self.in_words})"


def _checked_weights(weights: ArrayLike, count: int) -> NDArray[np.float64]:
    """Return the weights of links; refuse what is no number above 0, with its row."""
    cells = list(np.asarray(weights, dtype=object).reshape(-1))
    if len(cells) != count:
        raise GraphError(f"there are {len(cells)} weights for {count} links: give one for each")
    for row, cell in enumerate(cells):
        try:
            number = float(cell)
        except (TypeError, ValueError):
            raise GraphError(f"{_row(row)}: the weight is not a number; write it with a decimal point") from None
        if not (0 < number < np.inf):
            raise GraphError(
                f"{_row(row)}: the weight is {number:g}, and must be a finite number above 0; leave out a link without "
                "strength"
            )
    return np.array(cells, dtype=np.float64)


def _checked_kinds(kinds: Any, count: int) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return the names of the kinds, sorted, and the number of each link's kind."""
    cells = ["" if cell is None else str(cell).strip() for cell in kinds]
    if len(cells) != count:
        raise GraphError(f"there are {len(cells)} kinds for {count} links: give one for each")
    if "" in cells:
        raise GraphError(f"{_row(cells.index(''))}: the kind is empty; write one for every link")
    names, codes = np.unique(np.array(cells), return_inverse=True)
    return tuple(names.tolist()), codes.reshape(-1).astype(np.int64)


def _each_once(keys: NDArray[np.int64], weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the number of one link of each key `[parts, links]`; refuse one key with two weights, with its rows."""
    order = np.lexsort((np.arange(keys.shape[1]), *keys[::-1]))
    again = (keys[:, order[1:]] == keys[:, order[:-1]]).all(axis=0)
    differ = again & (weights[order[1:]] != weights[order[:-1]])
    if differ.any():
        place = int(differ.argmax())
        raise GraphError(
            f"{_row(int(order[place + 1]))}: row {order[place] + 1} gives the same link another weight; keep one of "
            "them, or write their sum"
        )
    return np.asarray(order[np.append(True, ~again)], dtype=np.int64)


def _row(number: int) -> str:
    return f"edge table, row {number + 1}"


def told_about_links(links: Links | None) -> tuple[PublicColumn, ...]:
    """Return what people are told to be known about links; nothing where all are alike."""
    return () if links is None else links.told


def known_of_links(table: pd.DataFrame) -> dict[str, Any]:
    """Return what columns `weight`, `directed` (yes or no) and `kind` say, as arguments of `Graph.from_edges`.

    Args:
        table: one row for each link.
    """
    found: dict[str, Any] = {}
    for name in (name for name in LINK_COLUMNS if name in table.columns):
        if (missing := table[name].isna().to_numpy()).any():
            raise GraphError(f"{_row(int(missing.argmax()))}: '{name}' is missing; fill it in every row")
        found[_ARGUMENTS[name]] = table[name].tolist()
    if "directed" in found:
        answers = [_YES_NO.get(str(cell).strip().casefold()) for cell in found["directed"]]
        if None in answers:
            raise GraphError(f"{_row(answers.index(None))}: 'directed' is neither yes nor no; write one of them")
        found["directed"] = answers
    return found
