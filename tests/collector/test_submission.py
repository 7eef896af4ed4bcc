"""A batch is bounded by the campaign's longest report, and others are served while it is worked off."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

from tests.support.collection import Collection
from tests.support.running_collector import collecting
from veilgraph.campaign.report import Report
from veilgraph.collector.database import Database
from veilgraph.collector.reports import PutResult, Reports
from veilgraph.collector.store import ReportStore
from veilgraph.collector.submission import MAX_BATCH_REPORTS

COLLECTION = Collection.ring(MAX_BATCH_REPORTS + 1)
BATCH = COLLECTION.batch(*(COLLECTION.entry(node) for node in COLLECTION.graph.names[:-1]))


class Counting(Reports):
    """Reports that remember how many each transaction had, and take their time."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.sizes: list[int] = []

    def put(self, submitted: Sequence[Report], *, now: float) -> list[PutResult]:
        self.sizes.append(len(submitted))
        time.sleep(0.02)
        return super().put(submitted, now=now)


def test_a_report_does_not_wait_for_a_whole_batch(tmp_path: Path) -> None:
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    store.reports = counting = Counting(store.database)
    with collecting(COLLECTION, store) as client:
        answered: list[float] = []
        sender = threading.Thread(
            target=lambda: answered.append(
                client.post("/v1/reports", content=BATCH).status_code and time.perf_counter()
            )
        )
        sender.start()
        while not counting.sizes:
            time.sleep(0.001)
        last = COLLECTION.graph.names[-1]
        stored = client.put(
            f"/v1/reports/{last}", content=COLLECTION.report(last).to_json(), headers=COLLECTION.headers(last)
        )
        alone = time.perf_counter()
        sender.join()
        assert stored.status_code == 201
        assert alone < answered[0]
        assert max(counting.sizes) <= 101
        assert sum(counting.sizes) == MAX_BATCH_REPORTS + 1


def test_a_batch_of_the_longest_reports_fits_and_a_longer_one_is_refused(tmp_path: Path) -> None:
    with collecting(COLLECTION, ReportStore.open(f"sqlite:///{tmp_path}/reports.db")) as client:
        answer = client.post("/v1/reports", content=BATCH)
        assert [result["status"] for result in answer.json()["results"]] == [201] * MAX_BATCH_REPORTS
        spaces = b" " * 1024
        padded = b"".join(line + spaces + b"\n" for line in BATCH.splitlines())
        assert client.post("/v1/reports", content=padded).status_code == 200
        # The first line of a sender with a token, and more than any campaign of this size needs.
        too_long = BATCH.splitlines(keepends=True)[0] + spaces * 8 * 1024
        assert client.post("/v1/reports", content=too_long).status_code == 413
        one_long_line = BATCH.splitlines(keepends=True)[0] + spaces * 1024
        assert client.post("/v1/reports", content=one_long_line).json()["results"][1]["status"] == 413
