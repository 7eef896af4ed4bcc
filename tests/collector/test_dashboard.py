"""The dashboard: for the owner only, correct about the reports, and self-contained."""

from __future__ import annotations

import importlib
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.collection import Collection
from tests.support.running_collector import collecting, collector_of, listening
from veilgraph.campaign import Campaign
from veilgraph.campaign.plausibility import PlausibleShares
from veilgraph.collector.arrivals_chart import MAX_BARS, arrivals_chart
from veilgraph.collector.auth import SESSION_COOKIE, SESSION_SECONDS, Credentials, Role, new_role_token
from veilgraph.collector.store import ReportStore
from veilgraph.privacy.mechanisms import JointGRR

COLLECTION = Collection.ring(40)


def store_of_31_reports(folder: Path) -> ReportStore:
    store = ReportStore.open(f"sqlite:///{folder}/reports.db")
    store.reports.put([COLLECTION.report(f"n{i}", features=(i % 3, 0, i % 4), label=i % 2) for i in range(30)], now=1e9)
    store.reports.put([COLLECTION.report("n30", features=None)], now=1e9 + 90_000)
    store.refusals.add(COLLECTION.campaign.id, {"not_valid": 3, "<script>": 1})
    return store


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with collecting(COLLECTION, store_of_31_reports(tmp_path_factory.mktemp("dashboard"))) as client:
        yield client


def login(client: httpx.Client, token: str = COLLECTION.credentials.admin_token) -> httpx.Response:
    client.cookies.clear()
    return client.post("/dashboard/login", data={"token": token})


def test_without_the_token_there_is_a_form_and_nothing_else(client: httpx.Client) -> None:
    client.cookies.clear()
    response = client.get("/dashboard")
    assert response.status_code == 401
    assert COLLECTION.campaign.notice.purpose not in response.text
    assert client.get("/dashboard/reports.parquet").status_code == 401
    assert "admin-token.txt" in response.text
    assert "roles.toml" in response.text
    assert "-file" not in response.text, "an option of a campaign without a folder"
    for wrong in ("", "wrong", COLLECTION.token("n1")):
        refused = login(client, wrong)
        assert refused.status_code == 401
        assert "not the admin token" in refused.text
        assert not client.cookies


def test_the_session_cookie_is_out_of_reach_for_scripts_and_other_sites(client: httpx.Client) -> None:
    response = login(client)
    assert response.status_code == 303
    cookie = response.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert COLLECTION.credentials.admin_token not in cookie
    assert client.get("/dashboard").status_code == 200
    client.post("/dashboard/logout")
    assert client.get("/dashboard").status_code == 401


@pytest.mark.parametrize("path", ["/dashboard", "/v1/campaign", "/v1/status", "/health", "/health/ready", "/metrics"])
@pytest.mark.parametrize("host", ["evil.example", "localhost:1"])
def test_no_redirection_names_the_host_that_a_client_claims(path: str, host: str, client: httpx.Client) -> None:
    answer = client.get(f"{path}/", headers={"Host": host})
    assert answer.headers.get("location", "../dashboard") == "../dashboard"
    assert answer.status_code == (308 if path == "/dashboard" else 404)


def session_of(client: httpx.Client) -> dict[str, str]:
    """Sign in; return the header that a copy of the cookie sends."""
    value = login(client).cookies[SESSION_COOKIE]
    client.cookies.clear()
    return {"Cookie": f"{SESSION_COOKIE}={value}"}


def test_a_session_ends_on_the_server_when_its_owner_signs_out(store_url: str) -> None:
    """A copy of the cookie opens nothing afterwards, at another collector or after a restart either."""
    collector, other = (collecting(COLLECTION, ReportStore.open(store_url)) for _ in range(2))
    with collector as client, other as elsewhere:
        ended, kept = session_of(client), session_of(client)
        for session in (ended, kept):
            assert elsewhere.get("/dashboard", headers=session).status_code == 200
        assert client.post("/dashboard/logout", headers=ended).status_code == 303
        for place in (client, elsewhere):
            for path in ("/dashboard", "/dashboard/reports.parquet", "/metrics"):
                assert place.get(path, headers=ended).status_code == 401
            # Another session of the same owner goes on, and so does the token.
            assert place.get("/dashboard", headers=kept).status_code == 200
            assert place.get("/dashboard", headers=COLLECTION.admin).status_code == 200
    with collecting(COLLECTION, ReportStore.open(store_url)) as restarted:
        assert restarted.get("/dashboard", headers=ended).status_code == 401
        # Signing out twice, or without a session, is no error.
        for headers in (ended, {}):
            assert restarted.post("/dashboard/logout", headers=headers).status_code == 303


def test_a_session_ends_and_cannot_be_forged(monkeypatch: pytest.MonkeyPatch) -> None:
    credentials = COLLECTION.credentials
    now = [1e9]
    monkeypatch.setattr("itsdangerous.timed.time.time", lambda: now[0])
    value = credentials.new_session()
    assert credentials.session_id(value)
    now[0] = 1e9 + SESSION_SECONDS
    assert credentials.session_id(value)
    now[0] += 1
    assert not credentials.session_id(value)
    # The clock was set back since: the session would last longer than it may.
    now[0] = 1e9 - 1
    assert not credentials.session_id(value)
    now[0] = 1e9 + 9
    later = credentials.new_session()
    start, _, signature = value.rpartition(".")
    forgeries = (f"{later.rpartition('.')[0]}.{signature}", f"{start}.", start, "", ".", f"x.{signature}", "9" * 30)
    for forged in (*forgeries, "\xff.\xff.\xff", value.replace(".", "x.", 1)):
        assert not credentials.session_id(forged)
    other = Credentials(keys=credentials.keys, admin_token=new_role_token(Role.OWNER))
    assert not other.session_id(value)


def test_the_page_shows_the_statistics_of_the_reports(tmp_path: Path) -> None:
    # A collector of its own: refusals of other tests are counted with some delay.
    with collecting(COLLECTION, store_of_31_reports(tmp_path)) as client:
        text = client.get("/dashboard", headers=COLLECTION.admin).text
    facts = dict(re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)</dd>", text))
    assert facts["Reports"] == "31"
    # Of 31 reports, one has no features; each of the others has three.
    assert (facts["Labels"], facts["Features"]) == ("31", "90")
    assert facts["Share of all nodes"] == "77.5 %"
    assert (
        facts["Nodes that reported or have a neighbour who did"] == "82.5 %"
    )  # n0 to n30, and n31 and n39 beside them
    assert facts["Refused requests"] == "4"
    assert "the report does not fit the campaign" in text
    assert "2001-09-09" in text
    assert "User level, any two records: epsilon = 2.0000" in text
    for name in (*COLLECTION.campaign.schema.feature_names, *COLLECTION.campaign.schema.classes):
        assert name in text


def test_the_page_loads_nothing_from_elsewhere_escapes_what_it_shows_and_names_no_node(client: httpx.Client) -> None:
    login(client)
    text = client.get("/dashboard").text
    assert "&lt;script&gt;" in text
    assert "<script" not in text
    assert "style=" not in text
    assert "<style" not in text
    assert not re.findall(r"""(?:src|href|action)=["'](?!dashboard/)""", text)
    assert client.get("/dashboard/style.css").headers["content-type"].startswith("text/css")
    assert "url(" not in client.get("/dashboard/style.css").text
    login(client)
    assert not re.search(r"\bn\d+\b", client.get("/dashboard").text)


def test_the_reports_can_be_downloaded(client: httpx.Client) -> None:
    login(client)
    response = client.get("/dashboard/reports.parquet")
    assert "attachment" in response.headers["content-disposition"]
    parquet: Any = importlib.import_module("pyarrow.parquet")  # it has no types
    table = parquet.read_table(io.BytesIO(response.content))
    rows = {row["node"]: row for row in table.to_pylist()}
    assert len(rows) == 31
    assert rows["n5"] == {"node": "n5", "features": [2, 0, 1], "label": 1}
    assert rows["n30"]["features"] is None
    metadata = table.schema.metadata[b"veilgraph.campaign"]
    assert Campaign.from_json(metadata) == COLLECTION.campaign


def test_who_has_not_answered_is_listed_for_the_owner_without_those_who_withdrew(tmp_path: Path) -> None:
    store = store_of_31_reports(tmp_path)
    store.withdrawals.withdraw(COLLECTION.campaign.id, "n35", now=1e9)
    store.withdrawals.withdraw(COLLECTION.campaign.id, "n0", now=1e9)
    with collecting(COLLECTION, store) as client:
        assert client.get("/dashboard/missing.csv").status_code == 401
        listed = client.get("/dashboard/missing.csv", headers=COLLECTION.admin)
        page = client.get("/dashboard", headers=COLLECTION.admin).text
    assert listed.text.split() == ['"node"', *(f'"n{i}"' for i in range(31, 40) if i != 35)]
    assert "attachment" in listed.headers["content-disposition"]
    assert "8 of 40 nodes have not answered" in page
    assert "<dt>Withdrawn</dt><dd>1</dd>" in page
    assert "<dt>Objected, without a report</dt><dd>1</dd>" in page


def test_after_a_purge_dashboard_and_status_say_so_and_list_nobody(tmp_path: Path) -> None:
    store = store_of_31_reports(tmp_path)
    store.withdrawals.withdraw(COLLECTION.campaign.id, "n35", now=1e9)
    with collecting(COLLECTION, store) as client:
        before = client.get("/v1/status").json()
        store.purges.purge(COLLECTION.campaign, now=1e9, actor="owner")
        after = client.get("/v1/status").json()
        page = client.get("/dashboard", headers=COLLECTION.admin).text
        for name in ("missing.csv", "reports.parquet"):
            refused = client.get(f"/dashboard/{name}", headers=COLLECTION.admin)
            assert (refused.status_code, refused.json()["error"]) == (410, "purged")
            assert name not in page
    assert [(each["open"], each["purged"]) for each in (before, after)] == [(True, False), (False, True)]
    assert '<span class="tag closed">purged</span>' in page
    assert "were deleted in the hour from 2001-09-09 01:00 UTC" in page
    for false in ("not answered", "No report has arrived yet", "Not computed yet", "Estimates", "announced"):
        assert false not in page


def test_joint_features_are_estimated_from_those_who_were_asked_and_downloaded(tmp_path: Path) -> None:
    """Ages are asked of 20 people, regions of 30: each is estimated from its own answers."""
    ring = Collection.ring(40)
    mechanism = JointGRR(ring.campaign.schema.domain_sizes, sampled=2, epsilon=0.5)
    collection = replace(
        ring, campaign=replace(ring.campaign, asked=replace(ring.campaign.asked, feature_mechanism=mechanism))
    )
    asked = [(i % 3, None, i % 4) if i < 20 else (None, 1, i % 4) for i in range(30)]
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    store.reports.put([collection.report(f"n{i}", features=features) for i, features in enumerate(asked)], now=1e9)
    with collecting(collection, store) as client:
        text = client.get("/dashboard", headers=collection.admin).text
        content = client.get("/dashboard/reports.parquet", headers=collection.admin).content
    assert all(name in text for name in collection.campaign.schema.feature_names)
    parquet: Any = importlib.import_module("pyarrow.parquet")
    rows = {row["node"]: row["features"] for row in parquet.read_table(io.BytesIO(content)).to_pylist()}
    assert rows == {f"n{i}": list(features) for i, features in enumerate(asked)}


def test_a_collection_without_a_report_has_a_page_too(tmp_path: Path) -> None:
    collection = Collection.ring(closes=datetime(2020, 1, 1, tzinfo=UTC))
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    app = collector_of(
        campaign=collection.campaign, graph=collection.graph, store=store, credentials=collection.credentials
    )
    with listening(app) as client:
        text = client.get("/dashboard", headers=collection.admin).text
    assert "No report has arrived yet" in text
    assert "No request was refused" in text
    assert '<span class="tag closed">closed</span>' in text


def page_of_labels(folder: Path, ill: int, plausible: PlausibleShares | None, *, classes: tuple[str, str]) -> str:
    """Return the dashboard of 300 label reports, of which some name the second class."""
    ring = Collection.ring(300)
    collection = Collection.on(ring.graph, schema=replace(ring.campaign.schema, classes=classes))
    store = ReportStore.open(f"sqlite:///{folder}/reports.db")
    store.reports.put([collection.report(f"n{i}", features=None, label=int(i < ill)) for i in range(300)], now=0)
    app = collector_of(
        campaign=collection.campaign,
        graph=collection.graph,
        store=store,
        credentials=collection.credentials,
        plausible=plausible,
    )
    with listening(app) as client:
        return client.get("/dashboard", headers=collection.admin).text


def test_a_share_that_is_not_plausible_raises_an_alarm_that_counts_the_liars(tmp_path: Path) -> None:
    """With two classes and epsilon_y = 1, a fraction x of reports is estimated as (x - 0.269) / 0.462."""
    classes = ("well", "<b>ill")
    plausible = PlausibleShares(classes=classes, ranges={"<b>ill": (0.05, 0.1)})
    text = page_of_labels(tmp_path, 150, plausible, classes=classes)
    assert "Alarm: class shares that are not plausible" in text
    # (0.5 - 0.1) / (1.582 - 0.1) = 27.0 %.
    assert "&lt;b&gt;ill&#39; is estimated at 50.0 %" in text
    assert "About 27.0 % coordinated liars who always report it would explain this: 81 of 300 people" in text
    assert "above the range" in text


def test_a_plausible_share_raises_no_alarm(tmp_path: Path) -> None:
    classes = ("well", "ill")
    plausible = PlausibleShares(classes=classes, ranges={"ill": (0.05, 0.1)})
    text = page_of_labels(tmp_path, 95, plausible, classes=classes)
    assert "Alarm" not in text
    assert "99 % interval" in text


def test_without_declared_shares_the_page_says_what_liars_can_do(tmp_path: Path) -> None:
    text = page_of_labels(tmp_path, 300, None, classes=("well", "ill"))
    assert "Alarm" not in text
    assert "<code>--plausible</code>" in text
    assert "move its estimated share by up to 1.6 points" in text


def test_label_sets_are_explained_estimated_and_downloaded(tmp_path: Path) -> None:
    """18 classes at epsilon_y = 1: sets of 6, named with probability 0.58 and 0.32. A third of them name class 0."""
    ring = Collection.ring(90)
    classes = tuple(f"country {i}" for i in range(18))
    collection = Collection.on(ring.graph, schema=replace(ring.campaign.schema, classes=classes))
    codes = [tuple(range(6)) if i % 3 == 0 else tuple(range(1 + i % 12, 7 + i % 12)) for i in range(90)]
    store = ReportStore.open(f"sqlite:///{tmp_path}/reports.db")
    store.reports.put([collection.report(f"n{i}", features=None, label=codes[i]) for i in range(90)], now=0)
    with collecting(collection, store) as client:
        text = client.get("/dashboard", headers=collection.admin).text
        parquet = client.get("/dashboard/reports.parquet", headers=collection.admin)
    assert "Reports name 6 of 18 classes each; the true class is among them with probability 0.58" in text
    assert "any other with probability 0.32" in text
    # 1.96^2 / (4 * 0.05^2 * 0.257^2)
    assert "With 5,814 label reports, the interval of each class is 5 points or less on either side" in text
    # (1/3 - 0.3190) / 0.2571 = 5.6 %
    assert re.search(r"country 0</th>.*?<td class=\"number\">5\.6 %", text, flags=re.DOTALL)
    assert "who all name one class, move its estimated share by up to 2.6 points" in text
    assert "they can move 6 shares at once" in text
    # 30 equal sets are too many: a set has a probability of 1e-4 at most.
    assert "Label sets that equal too many others" in text
    table: Any = importlib.import_module("pyarrow.parquet").read_table(io.BytesIO(parquet.content))
    assert {row["node"]: tuple(row["label"]) for row in table.to_pylist()} == {f"n{i}": codes[i] for i in range(90)}


@pytest.mark.parametrize("apart", [1000, 1_000_000])
def test_a_chart_has_few_bars_all_reports_and_begins_at_the_earliest_hour(apart: int) -> None:
    hours = [(3600 * apart * i, 2) for i in range(60)]
    chart = arrivals_chart(hours)
    assert chart is not None
    assert MAX_BARS / 3 < len(chart.bars) <= MAX_BARS
    assert chart.line.endswith(",0")
    assert arrivals_chart([]) is None
    chart = arrivals_chart(sorted([(7200, 1), (0, 1)]))
    assert chart is not None
    assert chart.first == "1970-01-01 00:00"
