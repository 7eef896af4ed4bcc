"""The browser withdraws a report and checks receipts at a real collector."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.support.browser_module import BROWSER, NODE, needs_node
from tests.support.collection import Collection
from tests.support.running_collector import collecting
from veilgraph.campaign.receipt import parse_receipt
from veilgraph.collector.store import ReportStore

COLLECTION = Collection.ring(5)

SCRIPT = """
import { standing, withdraw } from "./delivery.js";
const { url, campaign, token, wrong, stored } = JSON.parse(process.argv[2]);
const report = { campaign, node: stored.node }, options = { at: url, attempts: 1 };
const settled = async (promise) => promise.catch((error) => `${error.constructor.name}: ${error.message}`);
const receipt = await withdraw(report, token, options);
console.log(JSON.stringify([
	receipt,
	await withdraw(report, token, options),
	await standing(stored, options),
	await standing(receipt, options),
	await settled(withdraw(report, wrong, options)),
	await settled(standing({ ...stored, signature: "x" }, options)),
	await settled(withdraw(report, token, { ...options, at: "http://127.0.0.1:1/" })),
	await settled(withdraw(report, token, { ...options, at: `${url}openapi.json?` })),
]));
"""


@needs_node
def test_the_browser_withdraws_and_checks_receipts(tmp_path: Path) -> None:
    assert NODE is not None
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    for file in BROWSER.glob("*.js"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "script.js").write_text(SCRIPT)
    report = COLLECTION.report("n1")
    with collecting(COLLECTION, store) as client:
        answer = client.put("/v1/reports/n1", content=report.to_json(), headers=COLLECTION.headers("n1"))
        given: dict[str, Any] = {
            "url": f"{client.base_url}/",
            "campaign": COLLECTION.campaign.id,
            "token": COLLECTION.token("n1"),
            "wrong": COLLECTION.token("n2"),
            "stored": answer.json()["receipt"],
        }
        done = subprocess.run(
            [NODE, "script.js", json.dumps(given)], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert store.withdrawals.count(COLLECTION.campaign.id) == 1
    first, again, of_report, of_withdrawal, wrong, altered, nobody, other = json.loads(done.stdout)
    assert again == first
    assert parse_receipt(first).is_signed_by(COLLECTION.credentials.keys)
    assert of_report == of_withdrawal == "withdrawn"
    assert (wrong, altered) == ("Problem: problem.code", "Problem: problem.refused")
    assert (nobody, other) == ("Problem: problem.unreachable", "Problem: problem.status")
