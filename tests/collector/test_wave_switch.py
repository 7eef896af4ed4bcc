"""Waves without a restart: the next one is taken up when it is complete, and nothing acknowledged is lost."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from benchmarks.performance.collecting import Server

from tests.support.neighbour_series import (
    CAPPED,
    CLASS,
    HISTOGRAM,
    NAMES,
    PEOPLE_FILE,
    TABLE,
    first_document,
    waves_of,
)
from tests.support.running_collector import listening, wait_until
from veilgraph.atomic_files import write_atomically
from veilgraph.campaign import Campaign
from veilgraph.campaign.neighbours.series import table_path
from veilgraph.campaign.neighbours.wave import series_of
from veilgraph.campaign.series_folder import wave_path
from veilgraph.campaign.tokens import new_key, token_for
from veilgraph.cli import main
from veilgraph.collector.app import CampaignApp
from veilgraph.collector.auth import Role, new_role_token
from veilgraph.collector.campaign_files import (
    CampaignFiles,
    load_campaigns,
    make_collector,
    make_collector_of_several,
    read_campaigns,
)
from veilgraph.collector.collector import Collector, SharedParts
from veilgraph.collector.documents import Documents
from veilgraph.collector.served_campaign import ServedSeries
from veilgraph.collector.store import ReportStore
from veilgraph.collector.wave_switch import WaveSwitch
from veilgraph.errors import StoreError, StoreUnavailableError

KEY, ADMIN = new_key(), new_role_token(Role.OWNER)
FIRST, ONE, TWO = waves_of(HISTOGRAM, CLASS)
SAID: dict[str, dict[str, Any]] = {
    FIRST.id: {"features": None, "label": 1},
    ONE.id: {"answer": [1, 2, 3]},
    TWO.id: {"answer": [0]},
}

pytestmark = pytest.mark.slow  # collectors run, and look at their folders every few tenths of a second


def publish(tables: Path, wave: Campaign, *, name: str | None = None) -> None:
    """Write a wave as `veilgraph open-round` does: the table first, then the document."""
    tables.mkdir(exist_ok=True)
    asked = series_of(wave.asked)
    if asked.table is not None:
        table_path(tables, asked.table).write_bytes(TABLE.to_bytes())
    draft = tables / ".draft"
    draft.write_text(wave.to_json() + "\n", encoding="utf-8")
    draft.rename(tables / name if name else wave_path(tables, asked.wave))


def files(folder: Path) -> CampaignFiles:
    (folder / "campaign.json").write_text(FIRST.to_json(), encoding="utf-8")
    (folder / "people.csv").write_text("id\n" + "\n".join(NAMES) + "\n", encoding="utf-8")
    write_atomically(folder / "keys", KEY)
    write_atomically(folder / "admin", ADMIN)
    return CampaignFiles(
        campaign=folder / "campaign.json",
        graph=folder / "people.csv",
        keys_file=folder / "keys",
        admin_token_file=folder / "admin",
        tables=folder / "tables",
    )


@contextmanager
def serving(folder: Path, store: str) -> Iterator[httpx.Client]:
    app = make_collector(files(folder).load(store=store), store=store, rate=0)
    with listening(app) as client:
        yield client


def put(client: httpx.Client, node: str, campaign: Campaign) -> httpx.Response:
    report = {"campaign": campaign.id, "node": node} | SAID[campaign.id]
    token = token_for(KEY, FIRST.id, node)
    return client.put(f"/v1/reports/{node}", json=report, headers={"Authorization": f"Bearer {token}"})


def open_campaign(client: httpx.Client) -> str:
    return str(client.get("/v1/campaign").json()["id"])


def is_open(client: httpx.Client, campaign: Campaign) -> bool:
    return open_campaign(client) == campaign.id


def test_a_running_collector_takes_up_each_wave_once(
    store_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "veilgraph.collector")
    tables, admin = tmp_path / "tables", {"Authorization": f"Bearer {ADMIN}"}
    with serving(tmp_path, store_url) as client:
        assert put(client, "u1", FIRST).status_code == 201
        for number, wave in enumerate((ONE, TWO), start=1):
            publish(tables, wave)
            wait_until(partial(is_open, client, wave))
            assert client.get(f"/v1/published/{TABLE.sha256}").content == TABLE.to_bytes()
            assert client.get(f"/v1/published/{series_of(wave.asked).people}").content == PEOPLE_FILE
            assert put(client, "u1", wave).status_code == 201
            assert put(client, "u1", wave).json()["status"] == "same"
            late = put(client, "u2", FIRST)
            assert (late.status_code, late.json()["error"]) == (410, "earlier_wave")
            assert (
                late.json()["detail"]
                == f"the label of this series is closed, and wave {number} is open: get the campaign again"
            )
            shown = client.get("/openapi.json").json()["paths"]["/v1/reports/{node}"]["put"]["requestBody"]
            assert wave.id in str(shown)
            assert client.get("/v1/status", headers=admin).json()["reports"] == 1
        assert "wave 1 of this series is closed" in put(client, "u2", ONE).json()["detail"]
        page = client.get("/dashboard", headers=admin).text
        assert "The label and 2 waves so far, together:" in page
    told = [message for message in caplog.messages if "is taken up" in message]
    assert [TWO.id in message for message in told] == [False, True]
    # The same command serves the newest wave after a restart, and tokens and reports stay.
    with serving(tmp_path, store_url) as client:
        assert open_campaign(client) == TWO.id
        assert put(client, "u1", TWO).json()["status"] == "same"
    store = ReportStore.open(store_url)
    assert [store.reports.count(FIRST.id, wave=wave) for wave in (0, 1, 2)] == [1, 1, 1]
    starts = [
        entry.document["detail"].get("wave") for entry in store.audit_log.entries(FIRST.id) if entry.action == "start"
    ]
    assert starts == [None, 1, 2, 2]
    store.close()


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda tables: table_path(tables, TABLE.sha256).write_bytes(b"half"), "give its own table"),
        (lambda tables: table_path(tables, TABLE.sha256).unlink(), "cannot be read"),
        (lambda tables: wave_path(tables, 1).write_text(ONE.to_json()[:100]), "JSON"),
        (lambda tables: wave_path(tables, 1).write_text(TWO.to_json()), "the document before it was not taken up"),
        (lambda tables: publish(tables, waves_of(CAPPED)[1], name="b.json"), "leave one of them"),
    ],
)
def test_an_incomplete_or_wrong_file_changes_nothing_until_it_is_mended(
    spoil: Any, why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tables = tmp_path / "tables"
    watch = ServedSeries.in_folder(tables, lambda _: None)
    assert watch.poll(FIRST) == []
    publish(tables, ONE)
    spoil(tables)
    assert [watch.poll(FIRST) for _ in range(3)] == [[]] * 3
    assert all(why in message and "nothing changes" in message for message in caplog.messages)
    assert len(caplog.messages) == len(set(caplog.messages))
    assert caplog.messages
    (tables / "b.json").unlink(missing_ok=True)
    publish(tables, ONE)
    assert [wave.campaign for wave in watch.poll(FIRST)] == [ONE]
    assert watch.poll(ONE) == []


def test_a_wave_that_the_store_knows_otherwise_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    url, other = f"sqlite:///{tmp_path}/reports.db", waves_of(CAPPED)[1]
    with serving(tmp_path, url) as client:
        store = ReportStore.open(url)
        store.documents.register(other, now=0.0)
        store.close()
        publish(tmp_path / "tables", ONE)
        wait_until(lambda: bool(caplog.messages))
        assert open_campaign(client) == FIRST.id
        assert put(client, "u1", FIRST).status_code == 201
    (said,) = caplog.messages
    assert "another wave 1 of this series was served before" in said


def test_a_wave_that_was_opened_stays_open_if_its_folder_is_lost(tmp_path: Path) -> None:
    """A restart without the folder would open the label again, which the next table was computed from."""
    url = f"sqlite:///{tmp_path}/reports.db"
    store = ReportStore.open(url)
    for each in (FIRST, ONE):
        store.documents.register(each, now=0.0)
    store.close()
    with pytest.raises(StoreError, match="wave 1 of this series was opened before: give the folder"):
        make_collector(files(tmp_path).load(store=url), store=url, rate=0)
    publish(tmp_path / "tables", ONE)
    with serving(tmp_path, url) as client:
        assert open_campaign(client) == ONE.id


def test_a_database_that_does_not_answer_is_asked_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/reports.db"
    served = files(tmp_path).load(store=url)
    assert served.series is not None
    shared = SharedParts(ReportStore.open(url))
    attempts: list[Campaign] = []

    class Absent(Documents):
        """Documents whose database is away when the wave is registered for the first two times."""

        def register(self, campaign: Campaign, *, now: float, actor: str = "collector") -> None:
            if campaign == ONE and len(attempts) < 3:
                attempts.append(campaign)
                if len(attempts) < 3:
                    raise StoreUnavailableError("the database does not answer")
            super().register(campaign, now=now, actor=actor)

    shared.store.documents = Absent(shared.store.database)
    switch = WaveSwitch(CampaignApp(served, shared), served.series, seconds=0.01)
    with listening(Collector(switch, shared)) as client:
        publish(tmp_path / "tables", ONE)
        wait_until(lambda: open_campaign(client) == ONE.id)
    assert len(attempts) == 3


def test_every_answer_that_is_acknowledged_during_a_switch_is_stored(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/reports.db"
    with serving(tmp_path, url) as client:

        def insist(node: str) -> list[tuple[str, int]]:
            seen: list[tuple[str, int]] = []
            while not seen or seen[-1][0] != ONE.id or seen[-1][1] != 201:
                campaign = FIRST if open_campaign(client) == FIRST.id else ONE
                seen.append((campaign.id, put(client, node, campaign).status_code))
            return seen

        with ThreadPoolExecutor(len(NAMES)) as phones:
            working = [phones.submit(insist, name) for name in NAMES]
            publish(tmp_path / "tables", ONE)
            seen = [each.result(30) for each in working]
    store = ReportStore.open(url)
    acknowledged = sum((FIRST.id, 201) in each for each in seen)
    assert [store.reports.count(FIRST.id, wave=wave) for wave in (0, 1)] == [acknowledged, len(NAMES)]
    assert {status for each in seen for _, status in each} <= {200, 201, 410}
    store.close()


def test_several_campaigns_have_folders_of_their_own(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/reports.db"
    files(tmp_path)
    other = first_document(purpose="Another", epsilon_y=1.0)
    (tmp_path / "other.json").write_text(other.to_json(), encoding="utf-8")
    write_atomically(tmp_path / "other-keys", new_key())
    write_atomically(tmp_path / "other-admin", new_role_token(Role.OWNER))
    lines = ['[contacts]\ncampaign = "campaign.json"', 'keys-file = "keys"', 'admin-token-file = "admin"']
    lines += ['graph = "people.csv"', 'tables = "tables"']
    lines += ['[other]\ncampaign = "other.json"', 'keys-file = "other-keys"', 'admin-token-file = "other-admin"']
    lines += ['graph = "people.csv"']
    (tmp_path / "several.toml").write_text("\n".join(lines))
    campaigns = read_campaigns(tmp_path / "several.toml")
    stores = dict.fromkeys(campaigns, url)
    served = load_campaigns(campaigns, tmp_path / "several.toml", stores=stores)
    app = make_collector_of_several(served, stores=stores, rate=0)
    with listening(app) as client:
        publish(tmp_path / "tables", ONE)
        wait_until(lambda: client.get("/c/contacts/v1/campaign").json()["id"] == ONE.id)
        assert client.get("/c/other/v1/campaign").json()["id"] == other.id
        assert client.get("/health/ready").status_code == 200


def test_check_names_the_wave_that_would_be_served(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files(tmp_path)
    publish(tmp_path / "tables", ONE)
    options = {"graph": "people.csv", "keys-file": "keys", "admin-token-file": "admin"}
    given = [f"--{name}={tmp_path / value}" for name, value in options.items()]
    given += [f"--set=tables={tmp_path / 'tables'}", str(tmp_path / "campaign.json")]
    assert main(["serve", "--store=sqlite:///unused.db", "--check", *given]) == 0
    assert ONE.id in capsys.readouterr().out


def test_processes_on_one_store_open_the_same_wave(store_url: str, tmp_path: Path) -> None:
    """Three collectors on one store take up the wave, and each acknowledges answers to it; it is registered once."""
    found = files(tmp_path)
    named = {"graph": found.graph, "keys-file": found.keys_file, "admin-token-file": found.admin_token_file}
    options = [*(f"--{name}={path}" for name, path in named.items()), f"--set=tables={found.tables}"]
    options.append(str(found.campaign))
    with ExitStack() as stack:
        logs = [tmp_path / f"log-{number}" for number in range(3)]
        servers = [stack.enter_context(Server([*options, "--store", store_url], log=log)) for log in logs]
        clients = [stack.enter_context(httpx.Client(base_url=server.url)) for server in servers]
        publish(tmp_path / "tables", ONE)
        for number, client in enumerate(clients):
            wait_until(partial(is_open, client, ONE))
            assert put(client, NAMES[number], ONE).status_code == 201
        assert all(server.stop() == 0 for server in servers)
    store = ReportStore.open(store_url)
    assert store.reports.count(FIRST.id, wave=1) == 3
    notices = [entry for entry in store.audit_log.entries(FIRST.id) if entry.action == "notice"]
    assert len(notices) == 2, "the label's and the wave's"
    store.close()
    assert all(log.read_text().count("is taken up") == 1 for log in logs)
