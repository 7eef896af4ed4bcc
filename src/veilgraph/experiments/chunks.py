"""Which cells of an experiment are trained together."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

from veilgraph.experiments.cells import method_of
from veilgraph.experiments.data_source import DataSource
from veilgraph.experiments.grid import Cell

_CHUNK_NODES = 60_000
_MIN_CHUNK_CELLS = 8


def plan_chunks(
    cells: Sequence[Cell], data: DataSource, *, on_gpu: bool, chunk_nodes: int = _CHUNK_NODES
) -> list[list[Cell]]:
    """Divide cells into chunks that are worth training together, in the order in which to train them.

    All cells of a chunk have one data set, and one method on a CPU or one class of methods on a GPU. Cells of one
    draw of features share the inputs of a network, so a draw is divided only if it is larger than a chunk.

    Args:
        cells: cells to fit.
        data: returns the data of a cell.
        on_gpu: make chunks as large as possible. On a CPU they stay small, so that several processes get work.
        chunk_nodes: nodes of all graphs of a chunk together, on a CPU. A chunk has at least 8 cells all the same.
    """
    groups: dict[Hashable, dict[Hashable, list[Cell]]] = {}
    for cell in cells:
        learner = type(method_of(cell)) if on_gpu else cell.method
        draws = groups.setdefault((cell.dataset, cell.original_columns, learner), {})
        draws.setdefault((cell.method, cell.seed, cell.epsilon_x), []).append(cell)
    chunks: list[list[Cell]] = []
    for group in groups.values():
        first = next(iter(group.values()))[0]
        size = len(cells) if on_gpu else max(_MIN_CHUNK_CELLS, chunk_nodes // num_nodes(first, data))
        chunks += pack_draws(group.values(), size)
    return _small_graphs_first(chunks, data) if on_gpu else chunks


def pack_draws(draws: Iterable[Sequence[Cell]], size: int) -> Iterator[list[Cell]]:
    """Fill chunks of at most `size` cells with draws, in order; divide only a draw that is larger than a chunk."""
    chunk: list[Cell] = []
    for draw in draws:
        for start in range(0, len(draw), size):
            part = draw[start : start + size]
            if chunk and len(chunk) + len(part) > size:
                yield chunk
                chunk = []
            chunk = [*chunk, *part]
    if chunk:
        yield chunk


def num_nodes(cell: Cell, data: DataSource) -> int:
    """Return the number of nodes of a cell's graph."""
    return data(cell).graph.num_nodes


def _small_graphs_first(chunks: Sequence[list[Cell]], data: DataSource) -> list[list[Cell]]:
    """Sort chunks by graph size, but move the smallest graph to the end.

    METIS clusters the large graphs while the small ones are trained. Nothing is prepared during the last chunk, so
    that should be a short one.
    """
    sizes = [num_nodes(chunk[0], data) for chunk in chunks]
    ranked = sorted(zip(sizes, chunks, strict=True), key=lambda each: (each[0] == min(sizes), each[0]))
    return [chunk for _, chunk in ranked]
