"""The store of a device: one draw for a campaign, costs that add up, and damage that stops every draw."""

from __future__ import annotations

import json
import os
import random
import stat
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from tests.support.campaigns import CAMPAIGNS, CLOSES, campaign, records
from tests.support.device import BINARY, SETS, Untouchable, ask
from tests.support.forgeries import RECORD, rewritten
from veilgraph.campaign.document import Campaign
from veilgraph.campaign.report import Report
from veilgraph.client import NoticeWarning, answered, ledger, set_limit
from veilgraph.errors import CampaignError, RunError
from veilgraph.privacy.schema import FeatureSchema


def test_a_report_is_drawn_once_and_the_record_is_not_read_again(tmp_path: Path) -> None:
    first = ask(BINARY.to_json(), tmp_path)
    assert Report.parse(first, BINARY).node == "u1"
    assert all(ask(BINARY.to_json(), tmp_path, Untouchable()) == first for _ in range(3))


JOINT = CAMPAIGNS["joint features of mixed domains"]


NO_SETS = [
    7,
    [],
    [0, 1, 2, 3, 4],
    [0, 1, 2, 3, 4, 4],
    [5, 4, 3, 2, 1, 0],
    [0, 1, 2, 3, 4, 18],
    [-1, 1, 2, 3, 4, 5],
    "c",
]
NO_COSTS: list[Any] = ["-1", "NaN", "", "1e-9", 2, [], "٣"]
NO_NOTICES: list[Any] = [None, {}, [1], [{"version": 1}], [{"version": "1"}]]
NO_FEATURES: list[Any] = [[0] * 5, [0, 0, 0, 0, None], [0, 0, 0, None], [3, 0, 0, None, None]]


DAMAGED: list[tuple[Campaign, dict[str, Any], list[dict[str, Any]]]] = [
    (BINARY, RECORD, [{key: [7]} for key in ("features", "label", "node", "campaign")]),
    (BINARY, RECORD, [{"epsilon": cost} for cost in NO_COSTS]),
    (BINARY, RECORD, [{"notices": each} for each in NO_NOTICES]),
    (SETS, {"country": "c3"}, [{"label": label} for label in NO_SETS]),
    (JOINT, next(records(JOINT, random.Random(0))), [{"features": features} for features in NO_FEATURES]),
]


@pytest.mark.parametrize("damage", range(len(DAMAGED)))
def test_a_stored_report_that_does_not_fit_is_damaged_and_never_drawn_again(damage: int, tmp_path: Path) -> None:
    made, record, changes = DAMAGED[damage]
    ask(made.to_json(), tmp_path, record)
    (path,) = tmp_path.iterdir()
    kept = json.loads(path.read_text())
    if damage == 2:
        changes[-1]["notices"][0] = kept["notices"][0] | {"version": "1"}
    texts = [json.dumps(kept | change) for change in changes]
    unread = [json.dumps({key: value for key, value in kept.items() if key != "epsilon"})]
    unread += ["", "{", "null", '{"campaign":1}', "[" * 50_000, "\udcff", *texts]
    for text in unread:
        path.write_bytes(text.encode(errors="surrogateescape"))
        with pytest.raises(RunError, match=r"damaged.*Do not delete it"):
            ask(made.to_json(), tmp_path, Untouchable())
    for text in unread if damage in (1, 2) else unread[:7]:
        path.write_bytes(text.encode(errors="surrogateescape"))
        with pytest.raises(RunError, match="damaged"):  # neither for another campaign, nor counted
            ask(rewritten(BINARY, nonce="a" * 32), tmp_path)
        with pytest.raises(RunError, match="damaged"):
            answered(tmp_path)


def test_the_store_is_the_persons_alone_and_there_is_none_before_an_answer(tmp_path: Path) -> None:
    store = tmp_path / "new" / "store"
    assert answered(store) == ()
    assert not store.exists()
    ask(BINARY.to_json(), store)
    (path,) = store.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    ask(rewritten(BINARY, nonce="a" * 32), store)
    assert len(list(store.iterdir())) == 2


def test_200_invitations_for_invented_nodes_draw_one_report(tmp_path: Path) -> None:
    """The organiser chooses the node: 200 draws of one record would expose it."""
    first = ask(BINARY.to_json(), tmp_path, node="u0", max_epsilon=1e6)
    for i in range(1, 200):
        with pytest.raises(CampaignError, match="one device answers a campaign once"):
            ask(BINARY.to_json(), tmp_path, Untouchable(), node=f"u{i}", max_epsilon=1e6)
    (path,) = tmp_path.iterdir()
    kept = json.loads(path.read_text())
    assert {key: value for key, value in kept.items() if key not in ("epsilon", "graph", "notices")} == first


def test_a_shared_device_counts_every_person_against_the_limit(tmp_path: Path) -> None:
    """Each report of the campaign costs 2: with a limit of 5, one other person can answer, and no third."""
    first = ask(BINARY.to_json(), tmp_path)
    second = ask(BINARY.to_json(), tmp_path, node="u2/../x", shared_device=True)
    assert second["node"] == "u2/../x"
    with pytest.raises(CampaignError, match=r"With 4\.0000 for 2 reports before .* above your limit of 5"):
        ask(BINARY.to_json(), tmp_path, Untouchable(), node="u3", shared_device=True)
    for report in (first, second):
        assert ask(BINARY.to_json(), tmp_path, Untouchable(), node=report["node"]) == report
    assert [(one.node, float(round(one.epsilon, 9))) for one in answered(tmp_path)] == [("u2/../x", 2.0), ("u1", 2.0)]


def test_100_campaigns_that_differ_in_nothing_but_their_nonce_share_one_limit(tmp_path: Path) -> None:
    made = campaign(FeatureSchema.binary(8, classes=["no", "yes"]), epsilon_y=0.5, label="ill")
    texts = [rewritten(made, nonce=f"{i:032x}") for i in range(100)]
    for i, text in enumerate(texts):
        if i < 3:
            ask(text, tmp_path, max_epsilon=1.5)
        else:
            with pytest.raises(CampaignError, match=r"above your limit of 1\.5"):
                ask(text, tmp_path, Untouchable(), max_epsilon=1.5)
    assert len(answered(tmp_path)) == 3
    assert sum(one.epsilon for one in answered(tmp_path)) == pytest.approx(Decimal("1.5"))


CHEAP = campaign(FeatureSchema.binary(8, classes=["no", "yes"]), epsilon_y=1.0, label="ill", retention=CLOSES)


def test_the_persons_limit_is_kept_and_never_exceeded(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="no limit yet"):
        ask(CHEAP.to_json(), tmp_path, Untouchable(), max_epsilon=None)
    set_limit(tmp_path, 1.5)
    ask(CHEAP.to_json(), tmp_path, max_epsilon=None)
    dear = campaign(FeatureSchema.binary(8, classes=["no", "yes"]), epsilon_y=0.6, label="ill").to_json()
    for most in (None, 5.0, 1.59):
        with pytest.raises(CampaignError, match=r"With 1\.0000 for 1 reports before .* above your limit of 1\.5"):
            ask(dear, tmp_path, Untouchable(), max_epsilon=most)
    set_limit(tmp_path, 1.6)
    with pytest.raises(CampaignError, match=r"above your limit of 1\.2"):
        ask(dear, tmp_path, Untouchable(), max_epsilon=1.2)
    ask(dear, tmp_path, max_epsilon=None)
    kept = ledger(tmp_path)
    assert kept.limit == Decimal("1.6")
    assert float(kept.spent) == pytest.approx(1.6)
    assert {entry.campaign for entry in kept.entries} == {CHEAP.id, json.loads(dear)["id"]}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"limit": 5}', '{"limit": "0"}', '{"limit": "much"}', "\udcff"])
def test_a_limit_that_cannot_be_read_answers_nothing(content: str, tmp_path: Path) -> None:
    set_limit(tmp_path, 5)
    (path,) = tmp_path.iterdir()
    path.write_bytes(content.encode(errors="surrogateescape"))
    for refused in (
        lambda: ask(CHEAP.to_json(), tmp_path, Untouchable(), max_epsilon=2.0),
        lambda: ledger(tmp_path),
        lambda: set_limit(tmp_path, 9),
    ):
        with pytest.raises(RunError, match="your limit unknown"):
            refused()


@pytest.mark.parametrize("limit", [0, -1, float("nan"), float("inf"), True, "5"])
def test_what_is_no_limit_is_refused(limit: Any, tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="give a number above 0"):
        set_limit(tmp_path, limit)


def test_the_notice_that_the_person_saw_is_kept_beside_the_report(tmp_path: Path) -> None:
    """An older notice, and another one of the same version, are refused; a new one is recorded, and draws nothing."""
    first = ask(CHEAP.to_json(), tmp_path)
    later = CHEAP.revise(closes=CLOSES - timedelta(days=1))
    assert ask(later.to_json(), tmp_path, Untouchable()) == first
    assert ask(later.to_json(), tmp_path, Untouchable()) == first
    (entry,) = ledger(tmp_path).entries
    agreed, seen = entry.notices
    assert agreed == (1, CHEAP.notice.sha256, "To learn", "2100-01-01T00:00:00Z", "2099-01-01")
    assert (seen.version, seen.sha256) == (2, later.notice.sha256)
    with pytest.raises(CampaignError, match="has version 1, and this device has seen version 2"):
        ask(CHEAP.to_json(), tmp_path, Untouchable())
    with pytest.raises(CampaignError, match="another notice of version 2"):
        ask(CHEAP.revise(purpose="Another").to_json(), tmp_path, Untouchable())
    assert float(ledger(tmp_path).spent) == pytest.approx(1)


@pytest.mark.parametrize("retention", [None, CLOSES + timedelta(days=1)])
def test_a_device_warns_if_reports_are_kept_longer_than_agreed(retention: datetime | None, tmp_path: Path) -> None:
    first = ask(CHEAP.to_json(), tmp_path)
    longer = CHEAP.revise(purpose="Another")
    longer = replace(longer, notice=replace(longer.notice, retention=retention))
    with pytest.warns(NoticeWarning, match="you agreed that reports are deleted after 2100-01-01T00:00:00Z"):
        assert ask(longer.to_json(), tmp_path, Untouchable()) == first


def _answer_another(arguments: tuple[str, int]) -> bool:
    store, i = arguments
    try:
        ask(rewritten(BINARY, nonce=f"{i:032x}"), Path(store))
    except CampaignError:
        return False
    return True


def test_processes_that_answer_different_campaigns_at_once_share_one_limit(tmp_path: Path) -> None:
    with get_context("fork").Pool(4) as pool:
        drawn = pool.map(_answer_another, [(str(tmp_path), i) for i in range(40)], chunksize=1)
    assert sum(drawn) == len(answered(tmp_path)) == 2


def test_a_report_that_cannot_be_stored_is_not_returned(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file where the folder should be")
    with pytest.raises(RunError, match="store"):
        ask(BINARY.to_json(), tmp_path / "store")


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match="No space left"):
        ask(BINARY.to_json(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_draft_of_a_killed_client_is_removed_at_the_next_start(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from tests.support.device import BINARY, ask\n"
        "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
        "ask(BINARY.to_json(), Path(sys.argv[1]))"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    (draft,) = tmp_path.iterdir()
    assert draft.suffix == ".part"
    ask(BINARY.to_json(), tmp_path)
    (kept,) = tmp_path.iterdir()
    assert kept.suffix == ".json"


def _answer_in_process(store: str) -> str:
    return json.dumps(ask(BINARY.to_json(), Path(store)))


def test_processes_that_answer_at_once_agree(tmp_path: Path) -> None:
    with get_context("fork").Pool(4) as pool:
        reports = pool.map(_answer_in_process, [str(tmp_path)] * 40, chunksize=1)
    assert len(set(reports)) == 1
    assert len(list(tmp_path.iterdir())) == 1


def test_a_report_has_its_name_on_the_disk_before_it_is_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss of power that took back the name of a sent report would let the device draw a second one."""
    synced: list[tuple[str, int]] = []

    def watched(descriptor: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        synced.append((kind, len(list(tmp_path.glob("*.json")))))

    monkeypatch.setattr(os, "fsync", watched)
    ask(BINARY.to_json(), tmp_path)
    assert synced == [("file", 0), ("folder", 1)]
