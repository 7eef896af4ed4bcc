"""Chunks: every cell once, of one kind, and no larger than allowed."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.miniatures import SMALL, shortened
from veilgraph.experiments.cells import method_of
from veilgraph.experiments.chunks import pack_draws, plan_chunks
from veilgraph.experiments.grid import Cell


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("nodes_in_flight", [1, 260 * 5, 10**9])
def test_chunks_are_of_one_kind_and_hold_every_cell_once(on_gpu: bool, nodes_in_flight: int) -> None:
    def kind(cell: Cell) -> tuple[object, ...]:
        return cell.dataset, cell.original_columns, type(method_of(cell)) if on_gpu else cell.method

    cells = [*shortened("table2", seeds=2).cells, *shortened("table1").cells]
    chunks = plan_chunks(cells, SMALL, on_gpu=on_gpu, chunk_nodes=nodes_in_flight)
    assert Counter(id(cell) for chunk in chunks for cell in chunk) == Counter(map(id, cells))
    for chunk in chunks:
        assert len({kind(cell) for cell in chunk}) == 1
        if not on_gpu:  # the limit, but at least eight cells
            assert len(chunk) <= max(8, nodes_in_flight // 260)
    if on_gpu:  # a GPU gets all cells of one kind in one chunk
        assert len(chunks) == len({kind(cell) for cell in cells})
    assert plan_chunks([], SMALL, on_gpu=on_gpu) == []


def test_a_draw_of_features_is_divided_only_if_it_is_too_large_for_a_chunk() -> None:
    cells = list(shortened("table2", seeds=2).only(datasets=["cora"], methods=["rgnn"]).cells)
    draws = [cells[start:stop] for start, stop in ((0, 3), (3, 5), (5, 6), (6, 11))]
    assert list(pack_draws(draws, 4)) == [cells[:3], cells[3:6], cells[6:10], cells[10:11]]
    assert list(pack_draws([], 4)) == []
