"""A batch is bounded by the campaign's longest report, and others are served while it is worked off."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from tests.support.collection import Collection
from tests.support.running_collector import collecting
from veilgraph.collector.store import PutResult, ReportStore
from veilgraph.collector.submission import MAX_BATCH_REPORTS

COLLECTION = Collection.ring(MAX_BATCH_REPORTS + 1)
BATCH = COLLECTION.batch(*(COLLECTION.entry(node) for node in COLLECTION.graph.names[:-1]))


class Counting(ReportStore):
    """A store that remembers how many reports each transaction had, and takes its time."""

    sizes: list[int]

    def put(self, reports: object, *, now: float) -> list[PutResult]:
        self.sizes.append(len(reports))  # type: ignore[arg-type]
        time.sleep(0.02)
        return super().put(reports, now=now)  # type: ignore[arg-type]


def test_a_report_does_not_wait_for_a_whole_batch(tmp_path: Path) -> None:
    store = Counting.open(f"sqlite:///{tmp_path}/reports.db")
    store.sizes = []
    with collecting(COLLECTION, store) as client:
        answered: list[float] = []
        sender = threading.Thread(
            target=lambda: answered.append(
                client.post("/v1/reports", content=BATCH).status_code and time.perf_counter()
            )
        )
        sender.start()
        while not store.sizes:
            time.sleep(0.001)
        last = COLLECTION.graph.names[-1]
        stored = client.put(
            f"/v1/reports/{last}", content=COLLECTION.report(last).to_json(), headers=COLLECTION.headers(last)
        )
        alone = time.perf_counter()
        sender.join()
        assert stored.status_code == 201
        assert alone < answered[0]
        assert max(store.sizes) <= 101
        assert sum(store.sizes) == MAX_BATCH_REPORTS + 1


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
