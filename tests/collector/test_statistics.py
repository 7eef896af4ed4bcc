"""Statistics of the dashboard: right, made seldom enough, and without torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.blocked_imports import run_without
from tests.support.collection import Collection
from veilgraph.campaign.assemble import read_codes
from veilgraph.collector.statistics import SnapshotCache, take_snapshot
from veilgraph.collector.store import ReportStore

COLLECTION = Collection.ring(10)


ESTIMATE_SHARES = """
from tests.support.collection import Collection
from veilgraph.campaign.assemble import read_codes
from veilgraph.collector.statistics import take_snapshot
ring = Collection.ring(10)
reports = [ring.report(f"n{i}") for i in range(10)]
snapshot = take_snapshot(ring.campaign, ring.graph, read_codes(ring.campaign, ring.graph, reports))
shares = [sum(share.estimate for share in marginal.shares) for marginal in (snapshot.label, *snapshot.features)]
print(max(abs(share - 1) for share in shares) < 1e-9)
"""


def test_the_collector_does_not_load_torch() -> None:
    code = "import sys, veilgraph.collector.app, veilgraph.collector.server; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_the_dashboards_estimates_need_no_torch() -> None:
    result = run_without({"torch"}, ESTIMATE_SHARES)
    assert result.stdout.strip() == "True", result.stderr


def test_coverage_counts_nodes_by_degree_and_by_reach() -> None:
    codes = read_codes(COLLECTION.campaign, COLLECTION.graph, [COLLECTION.report("n0"), COLLECTION.report("n5")])
    snapshot = take_snapshot(COLLECTION.campaign, COLLECTION.graph, codes)
    assert snapshot.in_reach == 6  # both, and two neighbours each
    assert [(part.name, part.nodes, part.reports) for part in snapshot.cover] == [("2 to 3", 10, 2)]


def test_a_snapshot_is_made_anew_only_when_reports_came_and_time_has_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    now = [0.0]

    def clock() -> float:
        now[0] += 0.25  # whatever is done takes a quarter of a second
        return now[0]

    monkeypatch.setattr("veilgraph.collector.statistics.time.monotonic", clock)
    cache = SnapshotCache(COLLECTION.campaign, COLLECTION.graph, store)
    first = cache.get()
    assert cache.get() is first
    store.put([COLLECTION.report("n0")], now=0)
    assert cache.get() is first, "it was made anew too soon"
    now[0] += 10
    assert cache.get().reports == 1
    store.close()
