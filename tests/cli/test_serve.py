"""`veilgraph serve` says what is missing or wrong before it serves."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from benchmarks.performance.collecting import Server

from tests.support.collection import Collection
from tests.support.health_folder import QUESTION, begun
from tests.support.neighbour_series import CLOSES, HISTOGRAM, NAMES, PEOPLE, TABLE, waves_of
from veilgraph.atomic_files import write_atomically
from veilgraph.campaign import Campaign
from veilgraph.campaign.neighbours.next_wave import NextWave
from veilgraph.campaign.neighbours.series import table_path
from veilgraph.campaign.series_folder import wave_path
from veilgraph.campaign.tokens import new_key, read_keys, token_for
from veilgraph.cli import main
from veilgraph.client import answer, send
from veilgraph.collection import Collection as Home
from veilgraph.collector.auth import Role, new_role_token
from veilgraph.collector.store import ReportStore
from veilgraph.privacy.belief_table import BeliefTable

Capture = pytest.CaptureFixture[str]
COLLECTION = Collection.ring(6)


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Write the files of a campaign, and campaigns.toml that names them; return the options of the campaign."""
    monkeypatch.chdir(tmp_path)
    given = COLLECTION.write(tmp_path)
    named = zip(["--campaign", *given[1::2]], [given[0], *given[2::2]], strict=True)
    lines = [f"{option[2:]} = {json.dumps(path)}" for option, path in named]
    Path("campaigns.toml").write_text("\n".join(["[flu]", *lines]), encoding="utf-8")
    return given


def test_files_can_be_checked_without_serving_and_without_a_store(options: list[str], capsys: Capture) -> None:
    for arguments, address in ((options, "/"), (["campaigns.toml"], "/c/flu/")):
        assert main(["serve", *arguments, "--store", "sqlite:///reports.db", "--check"]) == 0
        printed = capsys.readouterr().out
        assert printed.startswith(f"{address}: campaign {COLLECTION.campaign.id}, 6 nodes, open until ")
        assert "All files are in order." in printed
    assert not Path("reports.db").exists()


def test_files_of_an_editor_that_marks_utf_8_are_read(options: list[str], capsys: Capture) -> None:
    Path("shares.toml").write_text('"ill" = [0.0, 1.0]')
    Path("roles.toml").write_text(f'viewer = "{new_role_token(Role.VIEWER)}"')
    secrets = [Path(path) for name, path in zip(options[1::2], options[2::2], strict=True) if name.endswith("-file")]
    for path in (*map(Path, ("shares.toml", "roles.toml", "campaigns.toml")), *secrets):
        path.write_text(path.read_text(), encoding="utf-8-sig")
        path.chmod(0o600)
    check = ["serve", "--store", "sqlite:///reports.db", "--check"]
    assert main([*check, *options, "--set", "plausible=shares.toml", "--set", "roles_file=roles.toml"]) == 0
    assert main([*check, "campaigns.toml"]) == 0


def test_a_mistake_is_one_sentence_with_the_remedy(options: list[str], capsys: Capture) -> None:
    for arguments, message in (
        (options[:1], "a campaign alone needs more: give --graph, --keys-file, --admin-token-file, or the folder"),
        (["nowhere"], "nowhere is no collection"),
        (["campaigns.toml", *options[1:3]], "graph is of one campaign: write it into its table in campaigns.toml"),
        (["campaigns.toml", "--set", "joined=x.csv"], "joined is of one campaign: write it into its table in"),
        (["none.toml"], "none.toml: No such file or directory"),
    ):
        assert main(["serve", *arguments, "--store", "sqlite:///reports.db", "--check"]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert len(error.splitlines()) == 1


def published(tables: Path, *waves: Campaign) -> None:
    tables.mkdir()
    table_path(tables, TABLE.sha256).write_bytes(TABLE.to_bytes())
    for number, wave in enumerate(waves, start=1):
        wave_path(tables, number).write_text(wave.to_json(), encoding="utf-8")


@pytest.mark.parametrize("several", [False, True])
def test_a_wave_that_would_not_be_taken_up_fails_the_check(
    several: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """A collector that has opened the second wave does not start without its table, and neither is the check passed."""
    monkeypatch.chdir(tmp_path)
    other = BeliefTable(3, TABLE.codes[::-1].copy())
    first, one = waves_of(HISTOGRAM)
    two = NextWave(answer=HISTOGRAM, closes=CLOSES).after(one, people=PEOPLE, table=other.sha256)
    published(Path("tables"), one, two)
    table_path(Path("tables"), other.sha256).write_bytes(other.to_bytes())
    files = {"campaign": "campaign.json", "graph": "people.csv", "keys-file": "keys", "admin-token-file": "admin"}
    files |= {"tables": "tables"}
    Path("campaign.json").write_text(first.to_json(), encoding="utf-8")
    Path("people.csv").write_text("id\n" + "\n".join(NAMES) + "\n", encoding="utf-8")
    write_atomically(Path("keys"), new_key())
    write_atomically(Path("admin"), new_role_token(Role.OWNER))
    lines = ["[flu]", *(f'{name} = "{path}"' for name, path in files.items())]
    Path("campaigns.toml").write_text("\n".join(lines), encoding="utf-8")
    options = [word for name in ("graph", "keys-file", "admin-token-file") for word in (f"--{name}", files[name])]
    alone = ["campaign.json", *options, "--set", "tables=tables"]
    check = ["serve", *(["campaigns.toml"] if several else alone), "--store", "sqlite:///r.db"]
    assert main([*check, "--check"]) == 0
    assert f"campaign {two.id}" in capsys.readouterr().out
    table_path(Path("tables"), other.sha256).unlink()
    assert main([*check, "--check"]) == 2
    told = capsys.readouterr()
    assert "All files are in order" not in told.out
    assert "wave-2.json is not taken up: " in told.err
    assert "the table of wave 2, cannot be read" in told.err
    assert len(told.err.splitlines()) == 1
    store = ReportStore.open("sqlite:///r.db")
    for document in (first, one, two):
        store.documents.register(document, now=0.0)
    store.close()
    assert main([*check, "--port", "0"]) == 2, "it was served"


def test_several_folders_are_served_by_their_names_each_from_its_own_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    homes = {}
    for name in ("flu", "mobility"):
        (tmp_path / name).mkdir()
        homes[name] = Home(begun(tmp_path / name).folder.rename(tmp_path / name / name))
    folders = [str(home.folder) for home in homes.values()]
    assert main(["serve", *folders, "--check"]) == 0
    said = capsys.readouterr().out
    assert all(f"/c/{name}/: campaign {home.campaign.id}" in said for name, home in homes.items())
    with Server(folders, log=tmp_path / "log") as server, httpx.Client(base_url=server.url) as client:
        assert client.get("/health/ready").status_code == 200
        for name, home in homes.items():
            node = home.graph.names[0]
            token = token_for(read_keys(home.keys_file)[0], home.campaign.series, node)
            report = answer(
                home.campaign.to_json(),
                {QUESTION: "yes"},
                node=node,
                store=tmp_path / "devices" / name,
                max_epsilon=4.0,
            )
            assert send(f"{server.url}/c/{name}", report, token)
        assert server.stop() == 0
    for home in homes.values():
        store = ReportStore.open(home.store.url, create=False)
        assert store.reports.count(home.campaign.id) == 1
        store.close()
    assert main(["serve", folders[0], folders[0], "--check"]) == 2
    assert "two of these folders have one name" in capsys.readouterr().err
