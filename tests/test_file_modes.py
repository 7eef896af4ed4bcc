"""Whatever the commands of a collection write is for its owner alone, unless it is made to be published."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.collection import Collection
from veilgraph.atomic_files import write_atomically
from veilgraph.campaign import Campaign
from veilgraph.campaign.report import Report
from veilgraph.cli import main
from veilgraph.client import answer
from veilgraph.collector.secret_files import check_secret_file
from veilgraph.collector.store import ReportStore
from veilgraph.errors import RunError
from veilgraph.privacy.schema import FeatureSchema

PUBLIC = {
    *("campaign.json", "begun/campaign.json", "schema.toml", "begun/schema.toml", "begun/notice.toml"),
    *("signed", "signed/notice-1", "signed/notice-1/summary.en.html"),
    *("signed/notice-1/consent.en.md", "signed/notice-1/impact-assessment.en.md"),
}
"""Everything that may be readable for others; all other files of the flow must not be, nor their folders open."""
SECRETS = ("keys.txt", "admin.txt", "roles.toml")
STORE = "--store sqlite:///held/reports.db"
SERVE = f"serve campaign.json --graph edges.csv {STORE} --keys-file keys.txt --admin-token-file admin.txt"
SERVE_ROLES = f"{SERVE} --set roles_file=roles.toml --check"


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def call(line: str, code: int = 0) -> None:
    assert main(line.split()) == code, line


def entries(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*")}


def is_open(path: Path) -> bool:
    return bool(stat.S_IMODE(path.stat().st_mode) & (stat.S_IRWXG | stat.S_IRWXO))


def collect(campaign: Campaign, names: list[str]) -> ReportStore:
    """Store reports as a collector does; the store stays open, so that its journal is on the disk."""
    store = ReportStore.open("sqlite:///held/reports.db")
    store.documents.register(campaign, now=0)
    for i, name in enumerate(names):
        record = {"health": ("well", "ill")[i % 2]}
        sent = answer(campaign.to_json(), record, node=name, store=Path("devices") / name, max_epsilon=4.0)
        store.reports.put([Report.parse(sent, campaign)], now=0)
    return store


@pytest.mark.parametrize("mask", [0o000, 0o022], ids=["umask 000", "umask 022"])
def test_whatever_a_collection_writes_is_for_its_owner_unless_it_is_published(
    mask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = [f"n{i}" for i in range(40)]
    Path("edges.csv").write_text("from,to\n" + "".join(f"n{i},n{(i + 1) % 40}\n" for i in range(40)))
    Path("record.json").write_text(json.dumps({"health": "ill"}))
    given = entries(tmp_path)
    with umask(mask):
        FeatureSchema(classes=("well", "ill")).save("schema.toml")
        words = "--question health --purpose P --contact C --closes 2100-01-01 --retention 2101-01-01"
        call(f"init begun --schema schema.toml --links edges.csv --set epsilon_y=1 {words}")
        write_atomically(Path("campaign.json"), Path("begun/campaign.json").read_bytes(), public=True)
        call("review campaign.json --out signed")
        call("rotate-token keys.txt participants")
        invited = "--nodes begun/people.csv --keys-file keys.txt --out sent-to"
        call(f"invite campaign.json {invited} --url https://x.example.org")
        call("rotate-token admin.txt")
        for role in ("viewer", "auditor", "scraper"):
            call(f"rotate-token roles.toml {role}")
        call(SERVE_ROLES)
        call(
            "randomize campaign.json --record record.json --node n0 --limit 4 --device-folder device --out sent/r.json"
        )
        Path("held").mkdir(mode=0o700)
        store = collect(Campaign.from_json(Path("campaign.json").read_bytes()), names[:30])
        journal = {path.name for path in Path("held").iterdir()}
        collection = f"campaign.json {STORE}"
        call(f"withdraw campaign.json n1 --yes {STORE}")
        call(f"backup campaign.json elsewhere {STORE}")
        call(f"invite campaign.json {invited} --url https://x.example.org --remind {STORE}")
        call(f"status {collection} --graph edges.csv --out progress.json --set device=cpu")
        call(f"train {collection} --graph edges.csv --out model --device cpu")
        call(f"train --card model --graph edges.csv {STORE}")
        call("predict --model model --graph edges.csv --out predictions.csv")
        call(f"shard --graph edges.csv {collection} --parts 2 --out shards")
        call("train campaign.json --graph shards --out shard-model --device cpu")
        call("predict --model shard-model --graph shards --out predicted")
        store.close()
    assert journal == {"reports.db", "reports.db-wal", "reports.db-shm"}
    opened = {str(path) for path in entries(tmp_path) - given if is_open(tmp_path / path)}
    assert opened == PUBLIC


@pytest.mark.parametrize("name", SECRETS)
def test_serve_refuses_secrets_that_others_can_change_and_warns_of_those_that_others_can_read(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    Collection.ring(10).write(tmp_path)
    call("rotate-token roles.toml viewer")
    call(SERVE_ROLES)
    assert caplog.messages == []
    for mode in (0o644, 0o640):
        Path(name).chmod(mode)
        call(SERVE_ROLES)
        assert [message for message in caplog.messages if f"can read {name}: run chmod 600" in message]
        caplog.clear()
    for mode in (0o666, 0o660, 0o602):
        Path(name).chmod(mode)
        capsys.readouterr()
        call(SERVE_ROLES, code=2)
        assert f"{name} holds secrets, and others on this machine can change it" in capsys.readouterr().err


def test_a_secret_in_a_folder_where_everyone_can_replace_it_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "keys.txt").write_text("key")
    (folder / "keys.txt").chmod(0o600)
    folder.chmod(0o777)
    with pytest.raises(RunError, match="everyone on this machine can replace"):
        check_secret_file(folder / "keys.txt")
    link, inner = tmp_path / "link.txt", folder / "inner"
    link.symlink_to(folder / "keys.txt")
    inner.mkdir(mode=0o700)
    (inner / "keys.txt").touch(mode=0o600)
    (tmp_path / "own.txt").touch(mode=0o600)
    (folder / "named.txt").symlink_to(tmp_path / "own.txt")
    for other in (link, inner / "keys.txt", folder / "named.txt"):
        with pytest.raises(RunError, match=f"everyone on this machine can replace .*: run chmod o-w {folder}$"):
            check_secret_file(other)
    folder.chmod(0o1777)  # as /tmp: only its owner can replace a file
    for each in (folder / "keys.txt", link, inner / "keys.txt", folder / "named.txt"):
        assert check_secret_file(each) == each


@pytest.mark.parametrize("token", ["admin123admin123admin123", "owner_" + "admin123" * 6])
def test_serve_takes_no_admin_token_that_veilgraph_did_not_make_for_it(
    token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Collection.ring(10).write(tmp_path)
    Path("admin.txt").write_text(token)
    call(f"{SERVE} --check", code=2)
    told = capsys.readouterr().err
    assert "the admin token is none that veilgraph made for it" in told
    assert token not in told


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (None, "keys.txt is given as keys-file and as admin-token-file: give each a file of its own"),
        (os.link, "keys.txt is given as keys-file and as admin-token-file: give each a file of its own"),
        (os.symlink, "keys.txt is given as keys-file and as admin-token-file: give each a file of its own"),
        (shutil.copy, "the admin token is a key of participants' tokens, which cannot have a second use"),
    ],
)
def test_serve_names_the_two_uses_of_one_secret(
    second: Callable[[str, str], object] | None,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One file is refused under one name and under two, and so is a copy of it."""
    monkeypatch.chdir(tmp_path)
    Collection.ring(10).write(tmp_path)
    Path("admin.txt").unlink()
    if second is not None:
        second("keys.txt", "admin.txt")
    command = SERVE.replace("admin.txt", "keys.txt") if second is None else SERVE
    call(f"{command} --check", code=2)
    told = capsys.readouterr().err
    assert message in told
    assert Path("keys.txt").read_text().strip() not in told


def test_a_token_is_replaced_alone_and_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    call("rotate-token admin.txt")
    call("rotate-token roles.toml viewer")
    printed = capsys.readouterr().out
    assert Path("admin.txt").read_text().strip() not in printed
    before, owner = Path("roles.toml").read_text(), Path("admin.txt").read_text()
    call("rotate-token roles.toml scraper")
    assert Path("roles.toml").read_text().startswith(before)
    call("rotate-token admin.txt")
    assert Path("admin.txt").read_text() != owner
    call("rotate-token roles.toml viewer")
    viewer, scraper = Path("roles.toml").read_text().splitlines()
    assert viewer != before.strip()
    assert scraper.startswith("scraper")
    Path("precious.txt").write_text("mine")
    call("rotate-token precious.txt", code=2)
    assert Path("precious.txt").read_text() == "mine"
    call("rotate-token mistyped", code=2)
    assert not Path("mistyped").exists()
