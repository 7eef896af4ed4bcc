"""The collector computes the assessment in another process, and a failure is one line of its log."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.collection import Collection
from tests.support.running_collector import collector_of, listening
from veilgraph.campaign.assessment import Assessment
from veilgraph.cli import main
from veilgraph.collector.assessment_file import AssessmentFile
from veilgraph.collector.store import ReportStore
from veilgraph.privacy.estimate import Estimate

RING = Collection.ring(10)
FOUND = Assessment(
    campaign=RING.campaign.id,
    computed=datetime(2027, 1, 31, 12, tzinfo=UTC),
    method="veil",
    label_reports=900,
    accuracy=Estimate(value=0.7, low=0.66, high=0.74, reports=900),
    control=Estimate(value=0.6, low=0.56, high=0.64, reports=900),
    second_half=Estimate(value=0.004, low=-0.006, high=0.014, reports=900),
)
# As the real command does: the file appears when it is complete.
WRITE = (
    "import os, sys; open(sys.argv[1] + '.new', 'w').write(os.environ['DATABASE_URL']); "
    "os.replace(sys.argv[1] + '.new', sys.argv[1])"
)


def test_a_failure_is_a_line_of_the_log_and_of_a_crash_it_holds_the_type_and_no_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for code, reason in CRASHES.items():
        caplog.clear()
        file = AssessmentFile(path=tmp_path / "a.json", command=[sys.executable, "-c", code], every=3600)
        with caplog.at_level(logging.WARNING):
            run_until(lambda: bool(caplog.records), file)
        assert caplog.messages == [f"the collection could not be assessed: {reason}"]


def run_until(done: Callable[[], bool], file: AssessmentFile, seconds: float = 60.0) -> None:
    """Compute regularly until something is done, or time is up."""

    async def watch() -> None:
        task = asyncio.create_task(file.compute_regularly(asyncio.Lock()))
        for _ in range(int(seconds / 0.05)):
            await asyncio.sleep(0.05)
            if done():
                break
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(watch())


def test_the_command_runs_at_once_and_gets_the_store_by_its_environment(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITE, str(tmp_path / "a.json")]
    file = AssessmentFile(path=tmp_path / "a.json", command=command, every=3600, environment={"DATABASE_URL": "secret"})
    run_until(file.path.exists, file)
    assert file.path.read_text() == "secret"
    assert "secret" not in repr(file)


CRASHES = {
    "raise ValueError('HIV-pos')": "ValueError",
    "import json; json.loads('HIV-pos')": "json.decoder.JSONDecodeError",
    "raise RuntimeError('a' + chr(10) + 'HIV-pos')": "RuntimeError",
    "import sys; print('HIV-pos', file=sys.stderr); sys.exit(1)": "the command failed",
    "import sys; print('error: no label report yet', file=sys.stderr); sys.exit(2)": "error: no label report yet",
}


@pytest.mark.parametrize("own", [True, False])
def test_the_dashboard_shows_the_assessment_of_its_campaign_alone(tmp_path: Path, own: bool) -> None:
    path = tmp_path / "a.json"
    path.write_text((FOUND if own else replace(FOUND, campaign="another")).to_json())
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    app = collector_of(
        campaign=RING.campaign,
        graph=RING.graph,
        store=store,
        credentials=RING.credentials,
        assessment=AssessmentFile(path=path),
    )
    with listening(app) as client:
        page = client.get("/dashboard", headers=RING.admin).text
    assert ("Not computed yet" in page) is not own
    assert ("66.0 to 74.0" in page) is own
    assert ("more reports like these would hardly help" in page) is own
    assert ("from 900 label reports" in page) is own


def test_an_interval_needs_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = RING.write(tmp_path)
    store = ["--store", f"sqlite:///{tmp_path}/reports.db"]
    assert main(["serve", *options, *store, "--set", "assess_every=6h"]) == 2
    assert "assess_every needs assessment" in capsys.readouterr().err
    assert main(["serve", *options, *store, "--set", "assess_every=soon", "--set", "assessment=a.json"]) == 2
    assert "such as 30min, 6h or 1d" in capsys.readouterr().err
