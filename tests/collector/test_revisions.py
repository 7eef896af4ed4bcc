"""A running collector takes up a revised notice, and nothing else."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from benchmarks.performance.collecting import Server

from tests.support.campaigns import MIXED
from tests.support.campaigns import campaign as asked
from tests.support.collection import Collection
from veilgraph.campaign import Campaign
from veilgraph.campaign.round_schedule import ScheduledRound, read_campaign, write_schedule
from veilgraph.client import DrawnReport, answer, answered, send
from veilgraph.collector.revisions import RevisedFile, take_up_revisions
from veilgraph.collector.store import ReportStore
from veilgraph.privacy.public_columns import PublicColumn

COLLECTION = Collection.ring(40)
LATER = COLLECTION.campaign.revise(closes=COLLECTION.campaign.notice.closes + timedelta(days=30))


def test_a_revised_notice_is_taken_up_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "campaign.json"
    path.write_text(COLLECTION.campaign.to_json())
    file = RevisedFile(path, COLLECTION.campaign)
    assert file.poll() is None
    path.write_text(LATER.to_json() + "\n")
    with caplog.at_level(logging.INFO, "veilgraph.collector"):
        assert file.poll() == LATER
        assert file.poll() is None
    assert caplog.messages == [
        f"notice 2 of campaign {LATER.id} is taken up; open until {LATER.notice.closes:%Y-%m-%d %H:%M:%S} UTC"
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (replace(LATER, asked=replace(LATER.asked, graph_sha256="0" * 64)).to_json(), "holds another campaign"),
        (COLLECTION.campaign.to_json(), "holds notice 1, older than 2"),
        (
            replace(LATER, notice=replace(LATER.notice, purpose="Another")).to_json(),
            "another notice of the same version, 2",
        ),
        (
            replace(LATER, notice=replace(LATER.notice, version=3, public=(PublicColumn(name="village"),))).to_json(),
            "public columns were added or altered (village)",
        ),
        ("{", "not readable as JSON"),
        (None, "cannot be read"),
    ],
)
def test_any_other_change_is_one_line_in_the_log(
    content: str | None, message: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "campaign.json"
    path.write_text(LATER.to_json())
    file = RevisedFile(path, LATER)
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    assert [file.poll() for _ in range(3)] == [None] * 3
    (said,) = caplog.messages
    assert message in said
    path.write_text(LATER.revise(contact="next@example.org").to_json())
    revised = file.poll()
    assert revised is not None
    assert revised.notice.version == 3


def test_every_revision_is_handed_on(tmp_path: Path) -> None:
    path = tmp_path / "campaign.json"
    path.write_text(COLLECTION.campaign.to_json())
    taken: list[Campaign] = []

    async def follow() -> None:
        file = RevisedFile(path, COLLECTION.campaign)
        task = asyncio.create_task(take_up_revisions(file, taken.append, seconds=0.001))
        path.write_text(LATER.to_json())
        while not taken:
            await asyncio.sleep(0.001)
        task.cancel()

    asyncio.run(asyncio.wait_for(follow(), 10))
    assert taken == [LATER]


def test_a_scheduled_round_opens_by_the_clock(tmp_path: Path) -> None:
    """Also in a collector that runs, and one that starts later serves the same notice."""
    campaign = asked(MIXED, epsilon_y=1.0, rounds=2, closes=datetime(2100, 1, 3, tzinfo=UTC))
    path, times = tmp_path / "campaign.json", [datetime(2100, 1, day, tzinfo=UTC) for day in (4, 4, 5, 6)]
    path.write_text(campaign.to_json())
    file = RevisedFile(path, campaign, clock=lambda: times[0])
    assert file.poll() is None
    following = ScheduledRound(number=2, opens=times[2], closes=datetime(2100, 1, 9, tzinfo=UTC))
    write_schedule(path, [following])
    seen = []
    for _ in range(4):
        seen.append(file.poll())
        times.append(times.pop(0))
    opened = read_campaign(path, now=following.opens)
    assert (opened.notice.open_round, opened.notice.closes) == (2, following.closes)
    assert seen == [None, None, opened, None]


@pytest.mark.slow
def test_moving_the_deadline_changes_no_report_no_token_and_no_ledger(tmp_path: Path) -> None:
    """40 devices answer, the deadline moves, and every device has and sends the report that it had."""
    (served := tmp_path / "served").mkdir()
    url = f"sqlite:///{served}/reports.db"
    record = {"age": 40, "smoker": "yes", "region": "west", "health": "ill"}
    names = COLLECTION.graph.names

    def report(node: str, text: str) -> DrawnReport:
        return answer(text, record, node=node, store=tmp_path / node, max_epsilon=3)

    with Server([*COLLECTION.write(served), "--store", url], log=tmp_path / "log") as process:
        text = httpx.get(f"{process.url}/v1/campaign").text
        before = {node: report(node, text) for node in names}
        spent = {node: [one[:3] for one in answered(tmp_path / node)] for node in names}
        assert all(send(process.url, before[node], COLLECTION.token(node)).is_new for node in names)
        (served / "campaign.json").write_text(LATER.to_json() + "\n", encoding="utf-8")
        until = time.monotonic() + 30
        while httpx.get(f"{process.url}/v1/campaign").text == text:
            assert time.monotonic() < until, "the collector does not take the revised campaign up"
            time.sleep(0.2)
        revised = httpx.get(f"{process.url}/v1/campaign").text
        assert revised == LATER.to_json()
        assert httpx.get(f"{process.url}/v1/status").json()["closes"] == LATER.notice.document["closes"]
        assert {node: report(node, revised) for node in names} == before
        assert {node: [one[:3] for one in answered(tmp_path / node)] for node in names} == spent
        again = [send(process.url, before[node], COLLECTION.token(node), again=True) for node in names]
        assert not any(receipt.is_new for receipt in again)
        assert process.stop() == 0
    store = ReportStore.open(url)
    assert store.reports.count(LATER.id) == 40
    store.close()
    assert process.text.count("is taken up") == 1
