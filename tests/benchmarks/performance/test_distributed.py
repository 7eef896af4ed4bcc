"""Training from shards is measured stage by stage in every process, and bytes of products are those of the formula."""

from __future__ import annotations

import pytest
from benchmarks.performance.distributed import (
    CLASSES,
    FIRST_FIT,
    SHORT_FIT,
    VEIL,
    Case,
    growth,
    measure,
    table,
    veil_table,
)
from benchmarks.performance.machines import Model, measured_parts

from tests.support.torchrun import FORKED

CASE = Case(nodes=1_500, mean_degree=8.0, homophily=0.8, features=5)


@pytest.mark.slow
def test_every_stage_of_every_process_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    measured = measure(CASE, (1, 2), FORKED)
    assert [len(row["ranks"]) for row in measured] == [1, 2]
    for row in measured:
        assert sum(rank["nodes"] for rank in row["ranks"]) == CASE.nodes
        assert sum(rank["entries"] for rank in row["ranks"]) == CASE.nodes * CASE.mean_degree
        assert all({"read", "bags", "reports", FIRST_FIT, VEIL} <= rank["stages"].keys() for rank in row["ranks"])
        assert all(growth(rank) < 2**28 for rank in row["ranks"])
    for part, rank in measured_parts(measured)[1:]:
        # Two products follow the last epoch.
        expected = part.received("reconstruct") + part.received("epoch") + 8 * part.halo * CLASSES
        assert rank["stages"][FIRST_FIT]["received"] == rank["stages"][SHORT_FIT]["received"] == expected
    assert len(table(measured).splitlines()) == len(veil_table(measured).splitlines()) == 4
    assert Model.fitted(measured).memory.rows == 3
