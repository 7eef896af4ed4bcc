"""After a lost database and an older backup, devices send again, and nobody who withdrew returns unnoticed."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from benchmarks.performance.collecting import Server

from tests.support.collection import Collection
from veilgraph.cli import main
from veilgraph.client import Patience, answer, check_receipt, send, withdraw
from veilgraph.collector import audit_log
from veilgraph.collector.store import ReportStore
from veilgraph.errors import SendError

pytestmark = pytest.mark.slow

NODES = 60
RECORD = {"age": 35, "smoker": "yes", "region": "west", "health": "ill"}


class Devices:
    """People with a device each, which keeps its one report, and what the collector acknowledged."""

    def __init__(self, collection: Collection, folder: Path) -> None:
        self._collection, self._folder = collection, folder
        self.acknowledged: dict[str, dict[str, Any]] = {}

    def send(self, url: str, node: str) -> bool:
        """Send the node's report, which is drawn once; return whether it is new to the collector.

        A device that knows of a receipt sends the same report again, as after an answer that was lost.
        """
        text, store = self._collection.campaign.to_json(), self._folder / "devices" / node
        report = answer(text, RECORD, node=node, store=store, max_epsilon=5.0)
        receipt = send(
            url, report, self._collection.token(node), again=node in self.acknowledged, patience=Patience(attempts=1)
        )
        self.acknowledged[node] = dict(report)
        return bool(receipt)

    def withdraw(self, url: str, node: str) -> dict[str, str]:
        """Withdraw, and return the document of the receipt."""
        return withdraw(url, node, self._collection.token(node), patience=Patience(attempts=1)).document


def lose(store: str) -> None:
    """Lose the database; of PostgreSQL, an empty one takes its place, as the documentation says."""
    if store.startswith("sqlite"):
        Path(store.removeprefix("sqlite:///")).unlink()
    else:
        server, _, name = store.rpartition("/")
        with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
            connection.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0".encode())


def test_after_a_restored_backup_everyone_sends_again_and_withdrawn_ones_do_not_return(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    collection = Collection.ring(NODES)
    campaign, nodes = collection.campaign, list(collection.graph.names)
    devices = Devices(collection, tmp_path)
    commands = ["campaign.json", "copies", "--store", store_url]
    options = [*collection.write(tmp_path), "--store", store_url]
    early, late = nodes[: NODES // 3], nodes[NODES // 3 :]
    # Who withdraws before the backup, after it, and after the list of withdrawals was written as well.
    before, listed, after = early[:3]

    with Server(options, log=tmp_path / "log") as collector:
        for node in early:
            assert devices.send(collector.url, node)
        devices.withdraw(collector.url, before)
        # The backup is made while reports arrive.
        half = threading.Event()

        def send_late(node: str) -> None:
            assert devices.send(collector.url, node)
            if len(devices.acknowledged) > NODES // 2:
                half.set()

        with ThreadPoolExecutor(4) as people:
            sent = [people.submit(send_late, node) for node in late]
            assert half.wait(60)
            assert main(["backup", *commands]) == 0
            for each in sent:
                each.result()
        devices.withdraw(collector.url, listed)
        assert main(["backup", *commands, "--list"]) == 0
        receipt = devices.withdraw(collector.url, after)
        collector.kill()
    lose(store_url)
    capsys.readouterr()
    assert main(["restore", *commands, "--json"]) == 0
    restored_now = json.loads(capsys.readouterr().out)
    assert (restored_now["listed"], restored_now["withdrawn"]) == (2, 1)

    with Server(options, log=tmp_path / "log") as collector:
        store = ReportStore.open(store_url, create=False)
        restored = {report.node: report.document for report in store.reports.iterate(campaign)}
        assert set(early) - {before, listed} <= set(restored), "the backup lacks what was acknowledged before it began"
        assert before not in restored
        assert all(devices.acknowledged[node] == report for node, report in restored.items())
        # Who withdrew after the list was written is back, and the receipt tells. Who is in the list is not.
        assert listed not in restored
        assert after in restored
        assert check_receipt(collector.url, receipt) == "another"
        assert [entry.action for entry in store.audit_log.entries(campaign.id)].count("withdraw") == 2

        first = dict(devices.acknowledged)
        for node in set(nodes) - {before, listed}:
            # The same report: nobody draws again, and what is stored already is stored once.
            assert devices.send(collector.url, node) == (node not in restored)
        assert devices.acknowledged == first
        for node in (before, listed):
            with pytest.raises(SendError, match="withdrawn"):
                devices.send(collector.url, node)
        devices.withdraw(collector.url, after)
        assert check_receipt(collector.url, receipt) == "withdrawn"
        assert collector.stop() == 0
    final = {report.node: report.document for report in store.reports.iterate(campaign)}
    assert final == {node: report for node, report in first.items() if node not in (before, listed, after)}
    audit_log.check(store.audit_log.entries(campaign.id))
    store.close()
