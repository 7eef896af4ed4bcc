"""A collector of waves about private neighbours: one token for a series, whole tables, and bad answers refused."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.neighbour_lists import text_of
from tests.support.neighbour_series import (
    CAPPED,
    CLASS,
    HISTOGRAM,
    LIST,
    NAMES,
    PEOPLE,
    PEOPLE_FILE,
    TABLE,
    first_document,
    waves_of,
)
from tests.support.running_collector import collector_of, listening
from veilgraph.atomic_files import write_atomically
from veilgraph.campaign import Campaign
from veilgraph.campaign.neighbours.series import table_path
from veilgraph.campaign.neighbours.wave import series_of
from veilgraph.campaign.report import Report
from veilgraph.campaign.tokens import new_key, token_for
from veilgraph.client import Published, answer, answer_neighbours, check_receipt, send, withdraw
from veilgraph.collector.auth import Credentials, Role, new_role_token
from veilgraph.collector.campaign_files import CampaignFiles
from veilgraph.collector.middleware import Limits
from veilgraph.collector.reminders import nodes_to_remind
from veilgraph.collector.store import ReportStore
from veilgraph.errors import CampaignError, ReportError, SendError, StoreError

KEY = new_key()
CREDENTIALS = Credentials(keys=[KEY], admin_token=new_role_token(Role.OWNER))
PUBLISHED = {TABLE.sha256: TABLE.to_bytes(), hashlib.sha256(PEOPLE_FILE).hexdigest(): PEOPLE_FILE}
FIRST, ONE, TWO = waves_of(HISTOGRAM, CLASS)
LISTED = waves_of(LIST)[1]


@contextmanager
def serving(store_url: str, campaign: Campaign) -> Iterator[httpx.Client]:
    app = collector_of(
        campaign=campaign,
        graph=PEOPLE,
        store=ReportStore.open(store_url),
        credentials=CREDENTIALS,
        limits=Limits(requests_per_second=0),
        published={each: PUBLISHED[each] for each in campaign.asked.published},
    )
    with listening(app) as client:
        yield client


def token(node: str) -> str:
    return token_for(KEY, FIRST.id, node)


def put(client: httpx.Client, node: str, said: Any, campaign: Campaign = ONE) -> httpx.Response:
    report = {"campaign": campaign.id, "node": node, "answer": said}
    return client.put(f"/v1/reports/{node}", json=report, headers={"Authorization": f"Bearer {token(node)}"})


def test_a_series_is_collected_with_one_token_and_withdrawn_as_a_whole(store_url: str, tmp_path: Path) -> None:
    device, receipts = tmp_path / "device", []
    with serving(store_url, FIRST) as client:
        report = answer(FIRST.to_json(), {"label": "red"}, node="u1", store=device, max_epsilon=9.0)
        receipts.append(send(str(client.base_url), report, token("u1")))
        other = answer(FIRST.to_json(), {"label": "red"}, node="u2", store=tmp_path / "other", max_epsilon=9.0)
        send(str(client.base_url), other, token("u2"))
    for wave in (ONE, TWO):
        with serving(store_url, wave) as client:
            table, people = (client.get(f"/v1/published/{sha256}").content for sha256 in PUBLISHED)
            report = answer_neighbours(
                Published(client.get("/v1/campaign").content, people, table),
                ["u0", "ü"],
                node="u1",
                store=device,
                max_epsilon=9.0,
                max_entry_epsilon=9.0,
            )
            receipts.append(send(str(client.base_url), report, token("u1")))
            with pytest.raises(SendError, match="holds a report of this node already"):
                send(str(client.base_url), report, token("u1"))
            assert not send(str(client.base_url), report, token("u1"), again=True), "it was stored before"
    store = ReportStore.open(store_url)
    assert [store.reports.count(FIRST.id, wave=wave) for wave in (0, 1, 2)] == [2, 1, 1]
    assert [report.node for report in store.reports.iterate(TWO)] == ["u1"]
    assert [report.node for report in store.reports.iterate(FIRST)] == ["u1", "u2"]
    assert "u2" in nodes_to_remind(NAMES, store, TWO)
    assert set(nodes_to_remind(NAMES, store, FIRST)) == set(NAMES) - {"u1", "u2"}, "an answer is no label"
    assert "u1" not in nodes_to_remind(NAMES, store, TWO)
    with serving(store_url, TWO) as client:
        url = str(client.base_url)
        assert [check_receipt(url, receipt.document) for receipt in receipts] == ["stored"] * 3
        assert withdraw(url, "u1", token("u1"))
        assert [check_receipt(url, receipt.document) for receipt in receipts] == ["withdrawn"] * 3
        with pytest.raises(SendError, match="withdrawn"):
            send(url, report, token("u1"))
    assert [store.reports.count(FIRST.id, wave=wave) for wave in (0, 1, 2)] == [1, 0, 0]
    assert store.purges.purge(TWO, now=0.0, actor="owner") == 1
    assert store.purges.hour(FIRST.id) is not None
    store.close()
    with serving(store_url, TWO) as client:
        assert put(client, "u3", [0], TWO).json()["error"] == "purged"


@pytest.mark.parametrize(
    ("campaign", "said"),
    [
        (ONE, [1, 2]),
        (ONE, [1, 2, 3, 4]),
        (ONE, [1, 2, 32768]),
        (ONE, [1, 2, 3.0]),
        (ONE, [1, 2, True]),
        (ONE, None),
        (ONE, "1,2,3"),
        (TWO, []),
        (TWO, [3]),
        (TWO, [0, 1]),
        (TWO, [-1]),
        (TWO, 0),
        (LISTED, [0, 1]),
        (LISTED, "012345"),
        (LISTED, ""),
        (LISTED, "A"),
        (LISTED, "AA=="),
        (LISTED, "QA"),
        (LISTED, "AB"),
    ],
)
def test_an_answer_of_the_wrong_shape_is_refused(campaign: Campaign, said: Any) -> None:
    with pytest.raises(ReportError, match=r"answer: (it must be a list of|a neighbour list)"):
        Report.parse({"campaign": campaign.id, "node": "u1", "answer": said}, campaign)


def test_answers_of_the_wrong_shape_token_or_series_are_refused_over_http(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/reports.db"
    with serving(url, FIRST):
        pass
    with serving(url, ONE) as client:
        refused = put(client, "u1", [1, 2])
        assert refused.status_code == 422
        assert refused.json()["detail"] == "answer: it must be a list of 3 whole numbers from -32767 to 32767"
        elsewhere = waves_of(CAPPED, first=first_document(epsilon_y=1.0))[1]
        assert "answers another campaign" in put(client, "u1", [1, 2, 3], elsewhere).json()["detail"]
        wrong = {"Authorization": f"Bearer {token_for(KEY, ONE.id, 'u1')}"}
        report = {"campaign": ONE.id, "node": "u1", "answer": [1, 2, 3]}
        assert client.put("/v1/reports/u1", json=report, headers=wrong).status_code == 401
        assert put(client, "u1", [1, 2, 3]).status_code == 201
        assert put(client, "u1", [1, 2, 4]).json()["error"] == "conflict"
        label = {"campaign": ONE.id, "node": "u2", "features": None, "label": 1}
        assert client.put("/v1/reports/u2", json=label, headers=wrong).status_code == 401
        assert client.get("/v1/published/" + "0" * 64).status_code == 404
        assert client.get("/v1/published/../campaign").status_code in (200, 404)
        shown = client.get("/openapi.json").json()
        assert "answer" in str(shown["paths"]["/v1/reports/{node}"]["put"]["requestBody"])


def test_randomized_lists_are_collected_without_a_table(store_url: str, tmp_path: Path) -> None:
    with serving(store_url, FIRST):
        pass
    with serving(store_url, LISTED) as client:
        assert client.get(f"/v1/published/{TABLE.sha256}").status_code == 404
        people = client.get(f"/v1/published/{series_of(LISTED.asked).people}").content
        for node in ("u1", "u2"):
            report = answer_neighbours(
                Published(client.get("/v1/campaign").content, people),
                ["u0", "ü"],
                node=node,
                store=tmp_path / node,
                max_epsilon=9.0,
                max_entry_epsilon=9.0,
            )
            assert send(str(client.base_url), report, token(node))
        assert put(client, "u3", text_of([], 6), LISTED).status_code == 201, "nobody is named, which is an answer"
        assert put(client, "u10", text_of(range(6), 6), LISTED).status_code == 201
        assert "somebody who is not among the 6 people" in put(client, "u0", text_of([6], 8), LISTED).json()["detail"]
        admin = {"Authorization": f"Bearer {CREDENTIALS.admin_token}"}
        page = client.get("/dashboard", headers=admin).text
        assert "the list of neighbours, randomized, epsilon 3 for one entry of it" in page
        assert client.get("/dashboard/reports.parquet", headers=admin).status_code == 200
        assert "a bit for each person" in client.get("/openapi.json").text


def test_in_turns_only_the_people_of_a_wave_answer_it_and_are_reminded(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/reports.db"
    first, one = waves_of(CLASS, turns=2)
    mine = [name for name in NAMES if one.asked.documents.is_asked(name)]
    others = sorted(set(NAMES) - set(mine))
    assert mine
    assert others
    with serving(url, first):
        pass
    with serving(url, one) as client:
        refused = put(client, others[0], [0], one)
        assert refused.status_code == 422
        assert refused.json()["detail"] == "node: this person answers wave 2, and wave 1 is open"
        assert put(client, mine[0], [0], one).status_code == 201
        store = ReportStore.open(url)
        assert nodes_to_remind(NAMES, store, one) == mine[1:]
        admin = {"Authorization": f"Bearer {CREDENTIALS.admin_token}"}
        page = client.get("/dashboard", headers=admin).text
        listed = client.get("/dashboard/missing.csv", headers=admin).text.replace('"', "").split()[1:]
        assert listed == mine[1:]
        has = "has" if len(listed) == 1 else "have"
        assert f"{len(listed)} of {len(mine)} nodes whose turn it is {has} not answered." in page
        share = f"{100 / len(mine):.1f} %"
        assert f"<dt>Share of the nodes whose turn it is</dt><dd>{share}</dd>" in page
        assert f'<td class="number quiet">{share}</td>' in page
        assert "Share of all nodes" not in page
        store.withdrawals.withdraw(first.id, others[0], now=1e9)
        page = client.get("/dashboard", headers=admin).text
        assert f"{len(listed)} of {len(mine)} nodes whose turn it is {has} not" in page, (
            "another turn's withdrawal counts"
        )
        for name in mine[1:]:
            put(client, name, [0], one)
        store.close()
        assert f"0 of {len(mine)} nodes whose turn it is have not" in client.get("/dashboard", headers=admin).text


def test_a_published_file_is_whole_and_never_changes(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/reports.db"
    with serving(url, FIRST) as client:
        assert client.get(f"/v1/published/{TABLE.sha256}").status_code == 404
    with serving(url, ONE) as client:
        for sha256, content in PUBLISHED.items():
            served = client.get(f"/v1/published/{sha256}")
            assert served.content == content
            assert "immutable" in served.headers["cache-control"]


def test_the_dashboard_shows_the_waves_of_the_series(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/reports.db"
    with serving(url, FIRST):
        pass
    with serving(url, ONE) as client:
        put(client, "u1", [1, 2, 3])
    with serving(url, TWO) as client:
        admin = {"Authorization": f"Bearer {CREDENTIALS.admin_token}"}
        page = client.get("/dashboard", headers=admin).text
        assert "Waves of the series" in page
        assert "a histogram of the neighbours, epsilon 1 for one entry of a list" in page
        assert "the class of the neighbours, epsilon 2 for any two lists" in page
        assert "The label and 2 waves so far, together:" in page
        assert "Is it enough yet?" in page
        for meaningless in ("Coverage of the graph", "Estimates for all people", "Implausible reports"):
            assert meaningless not in page
        assert client.get("/v1/status", headers=admin).json()["reports"] == 0
        assert client.get("/dashboard/reports.parquet", headers=admin).status_code == 200
        assert client.get("/v1/audit-log", headers=admin).json()["entries"]


def test_a_wave_of_another_series_is_not_served(tmp_path: Path) -> None:
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    with pytest.raises(StoreError, match="is of another series"):
        store.documents.register(ONE, now=0.0)
    store.documents.register(FIRST, now=0.0)
    store.documents.register(ONE, now=0.0)
    store.documents.register(ONE, now=0.0)
    with pytest.raises(StoreError, match="another wave 1 of this series was served before"):
        store.documents.register(waves_of(CAPPED)[1], now=0.0)
    store.close()


def test_files_that_a_wave_does_not_name_are_not_served(tmp_path: Path) -> None:
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    for published in ({}, {TABLE.sha256: b"another"}, PUBLISHED | {"0" * 64: b""}):
        with pytest.raises(CampaignError, match="not those that the campaign names"):
            collector_of(ONE, graph=PEOPLE, store=store, credentials=CREDENTIALS, published=published)
    with pytest.raises(CampaignError, match="not those that the campaign names"):  # lists need no table
        collector_of(LISTED, graph=PEOPLE, store=store, credentials=CREDENTIALS, published=PUBLISHED)
    store.close()
    (tmp_path / "wave.json").write_text(ONE.to_json())
    (tmp_path / "people.csv").write_text("id\n" + "\n".join(NAMES) + "\n", encoding="utf-8")
    write_atomically(tmp_path / "keys", KEY)
    write_atomically(tmp_path / "admin", CREDENTIALS.admin_token)

    def load(tables: Path | None = None) -> dict[str, bytes]:
        files = CampaignFiles(
            campaign=tmp_path / "wave.json",
            graph=tmp_path / "people.csv",
            keys_file=tmp_path / "keys",
            admin_token_file=tmp_path / "admin",
            tables=tables,
        )
        return dict(files.load(store="sqlite:///x.db").published)

    with pytest.raises(CampaignError, match="give the folder of the published waves"):
        load()
    with pytest.raises(CampaignError, match="cannot be read"):
        load(tables=tmp_path)
    table_path(tmp_path, TABLE.sha256).write_bytes(b"another")
    with pytest.raises(CampaignError, match="give its own table"):
        load(tables=tmp_path)
    table_path(tmp_path, TABLE.sha256).write_bytes(TABLE.to_bytes())
    assert load(tables=tmp_path) == PUBLISHED
    (tmp_path / "wave.json").write_text(LISTED.to_json())
    assert load().keys() == series_of(LISTED.asked).published
