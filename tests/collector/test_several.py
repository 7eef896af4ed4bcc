"""Several campaigns in one collector: each works as if it were alone, and its keys are worth nothing elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from math import ceil
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import pytest
from benchmarks.performance.collecting import Server
from starlette.routing import Route

from tests.support.chromium import chromium, needs_chromium
from tests.support.collection import CLOSES, Collection
from tests.support.running_collector import listening
from veilgraph.campaign import Campaign
from veilgraph.campaign.budget import CampaignBudget
from veilgraph.campaign.notice import Notice
from veilgraph.campaign.report import Report
from veilgraph.campaign.tokens import new_key
from veilgraph.cli import main
from veilgraph.client import send, withdraw
from veilgraph.collector.app import CampaignApp
from veilgraph.collector.auth import SESSION_COOKIE, Credentials, Role, new_role_token
from veilgraph.collector.collector import Collector, SharedParts
from veilgraph.collector.middleware import Limits
from veilgraph.collector.served_campaign import ServedCampaign
from veilgraph.collector.several import CampaignsTogether
from veilgraph.collector.store import ReportStore
from veilgraph.privacy.budget import RoundBudget
from veilgraph.privacy.schema import FeatureSchema

UNLIMITED = Limits(requests_per_second=0)
RING = Collection.ring(10)


def credentials(name: str) -> Credentials:
    roles: dict[Role, str] = {role: new_role_token(role) for role in Role if role is not Role.OWNER}
    return Credentials(
        keys=[new_key()],
        admin_token=new_role_token(Role.OWNER),
        role_tokens=roles,
        session_cookie=f"{SESSION_COOKIE}_{name}",
    )


class Series(Collection):
    """A series of three rounds on a ring; reports are of the first."""

    def report(self, node: str, **_: Any) -> Report:
        return Report(campaign=self.campaign.id, node=node, features=None, label=1, number=1)


SERIES = Campaign.new(
    schema=FeatureSchema(classes=("by bicycle", "by car", "by train")),
    graph=RING.graph,
    notice=Notice(purpose="Tests of rounds", contact="tests@example.org", closes=CLOSES),
    budget=CampaignBudget(epsilon_y=1.0, rounds=RoundBudget(rounds=3, round_epsilon=0.5)),
    label="commute",
)
COLLECTIONS = {
    "flu": replace(RING, credentials=credentials("flu")),
    "mobility": Series(campaign=SERIES, graph=RING.graph, credentials=credentials("mobility")),
}
FLU, MOBILITY = COLLECTIONS.values()


@contextmanager
def together(url: str) -> Iterator[tuple[httpx.Client, dict[str, CampaignApp], ReportStore]]:
    """Serve both campaigns; yield a client, the applications and the store."""
    store = ReportStore.open(url)
    shared = SharedParts(store, limits=UNLIMITED)
    apps = {
        name: CampaignApp(
            ServedCampaign(campaign=each.campaign, graph=each.graph, credentials=each.credentials), shared
        )
        for name, each in COLLECTIONS.items()
    }
    with listening(Collector(CampaignsTogether(apps, shared), shared)) as client:
        yield client, apps, store


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[httpx.Client, ReportStore]]:
    with together(f"sqlite:///{tmp_path_factory.mktemp('together')}/reports.db") as (client, _, store):
        yield client, store


@pytest.fixture
def client(served: tuple[httpx.Client, ReportStore]) -> httpx.Client:
    return served[0]


@pytest.fixture
def store(served: tuple[httpx.Client, ReportStore]) -> ReportStore:
    return served[1]


def requests_of(app: CampaignApp, token: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield a request to each route and method of the campaign on mobility, with the token wherever one belongs."""
    bodies: dict[tuple[str, str], dict[str, Any]] = {
        ("PUT", "/v1/reports/{node:path}"): {"json": MOBILITY.report("n1").document},
        ("POST", "/v1/reports"): {
            "content": MOBILITY.batch({"token": token, "report": MOBILITY.report("n1").document})
        },
        ("POST", "/dashboard/login"): {"data": {"token": token}},
    }
    for route in app.api.routes:
        assert isinstance(route, Route)
        for method in sorted((route.methods or set()) - {"HEAD"}):
            path = "/c/mobility" + route.path.replace("{node:path}", "n1")
            yield method, path, bodies.get((method, route.path), {})


def opened(
    client: httpx.Client, app: CampaignApp, *, token: str = "", cookies: dict[str, str] | None = None
) -> set[str]:
    """Return the requests that are granted; all others must be refused for want of a credential, or of a body."""
    granted = set()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    for method, path, body in requests_of(app, token):
        client.cookies.clear()
        client.cookies.update(cookies or {})
        response = client.request(method, path, headers=headers, follow_redirects=False, **body)
        status = response.status_code
        if method == "POST" and path.endswith("/v1/reports") and status == 200:
            status = response.json()["results"][0]["status"]
        if status < 400:
            granted.add(f"{method} {path}")
        else:
            assert status in (401, 403, 404) or path.endswith("/v1/receipts"), (method, path, status)
    client.cookies.clear()
    return granted


def test_a_credential_of_one_campaign_opens_nothing_of_another(store_url: str) -> None:
    with together(store_url) as (client, apps, store):
        app = apps["mobility"]
        public, made_up = opened(client, app), opened(client, app, token=new_key())
        secrets: dict[str, str] = {role.value: token for role, token in FLU.credentials.role_tokens.items()}
        secrets |= {"owner": FLU.credentials.admin_token, "participant": FLU.token("n1")}
        assert len(secrets) == len(Role) + 1
        for token in secrets.values():
            assert opened(client, app, token=token) == made_up < public
        for role in Role:
            session = FLU.credentials.new_session(role)
            names = [FLU.credentials.session_cookie, MOBILITY.credentials.session_cookie, SESSION_COOKIE]
            assert opened(client, app, cookies=dict.fromkeys(names, session)) == public
        assert store.reports.count(MOBILITY.campaign.id) == 0
        # What is refused above is granted to the campaign's own people.
        own = opened(client, app, token=MOBILITY.credentials.admin_token)
        own |= opened(client, app, token=MOBILITY.token("n1"))
        missing = {f"{method} {path}" for method, path, _ in requests_of(app, "")} - own
        assert missing == {"POST /c/mobility/v1/receipts"}  # it needs a receipt


def test_a_receipt_of_one_campaign_is_none_of_another(store_url: str) -> None:
    with together(store_url) as (client, _, _):
        headers = FLU.headers("n2")
        stored = client.put("/c/flu/v1/reports/n2", json=FLU.report("n2").document, headers=headers).json()
        assert client.post("/c/flu/v1/receipts", json=stored["receipt"]).json() == {"status": "stored"}
        assert client.post("/c/mobility/v1/receipts", json=stored["receipt"]).json()["error"] == "wrong_receipt"


def test_clients_use_the_address_of_a_campaign(client: httpx.Client, store: ReportStore) -> None:
    root = str(client.base_url).rstrip("/")
    for ending in ("", "/"):
        for name, each in COLLECTIONS.items():
            url = f"{root}/c/{name}{ending}"
            node = f"n{3 + len(ending)}"
            send(url, each.drawn(node), each.token(node))
    withdraw(f"{root}/c/flu", "n3", FLU.token("n3"))
    assert {name: store.reports.count(each.campaign.id) for name, each in COLLECTIONS.items()} == {
        "flu": 1,
        "mobility": 2,
    }


def test_outside_of_the_campaigns_nothing_is_said_about_them(client: httpx.Client) -> None:
    page = client.get("/")
    assert page.status_code == 200
    assert not any(word in page.text for each in COLLECTIONS for word in (each, COLLECTIONS[each].campaign.id[:12]))
    assert client.get("/health").json() == {"status": "ok"}
    unknown = client.get("/c/unknown/v1/campaign")
    for path in (
        "/c",
        "/c/",
        "/c/unknown",
        "/c/unknown/",
        "/v1/campaign",
        "/metrics",
        "/dashboard",
        "/openapi.json",
    ):
        response = client.get(path, headers=FLU.admin)
        assert (response.status_code, response.json()) == (404, unknown.json()), path
        assert "Content-Security-Policy" in response.headers


def test_the_slash_after_a_name_may_be_left_out(client: httpx.Client) -> None:
    redirect = client.get("/c/flu")
    # Relative: it leads to the right address below a path of a proxy, too.
    assert (redirect.status_code, redirect.headers["location"]) == (308, "flu/")
    assert client.get("/c/flu", follow_redirects=True).text == client.get("/c/flu/").text


def test_a_browser_can_be_signed_in_to_several_dashboards(client: httpx.Client) -> None:
    for name, each in COLLECTIONS.items():
        token = each.credentials.admin_token
        client.post(f"/c/{name}/dashboard/login", data={"token": token}, follow_redirects=True)
    pages = {name: client.get(f"/c/{name}/dashboard") for name in COLLECTIONS}
    assert {page.status_code for page in pages.values()} == {200}
    assert MOBILITY.campaign.id[:12] not in pages["flu"].text
    client.post("/c/flu/dashboard/logout", follow_redirects=True)
    assert [client.get(f"/c/{name}/dashboard").status_code for name in COLLECTIONS] == [401, 200]


def test_what_a_campaign_shows_to_its_own_people_is_about_it_alone(tmp_path: Path) -> None:
    paths = ("/v1/audit-log", "/metrics", "/v1/status")

    def shown(client: httpx.Client, name: str) -> list[str]:
        return [client.get(f"/c/{name}{path}", headers=COLLECTIONS[name].admin).text for path in paths]

    with together(f"sqlite:///{tmp_path}/reports.db") as (client, _, _):
        before = shown(client, "mobility")
        for node in ("n1", "n2"):
            client.put(f"/c/flu/v1/reports/{node}", json=FLU.report(node).document, headers=FLU.headers(node))
        client.delete("/c/flu/v1/reports/n2", headers=FLU.headers("n2"))
        client.put("/c/flu/v1/reports/n1", json=FLU.report("n1").document)
        client.get("/c/flu/dashboard/missing.csv", headers=FLU.admin)
        client.post("/c/flu/dashboard/login", data={"token": FLU.credentials.role_tokens[Role.VIEWER]})
        assert shown(client, "mobility") == before
        for text in shown(client, "flu"):
            assert FLU.campaign.id[:12] in text
            assert MOBILITY.campaign.id[:12] not in text


ANSWER = """
for (const e of document.querySelectorAll('#questions select')) e.selectedIndex = e.options.length - 1;
for (const name of new Set([...document.querySelectorAll('#questions input[type=radio]')].map(e => e.name)))
  document.querySelector(`#questions input[name="${CSS.escape(name)}"]`).checked = true;
for (const e of document.querySelectorAll('#questions input[type=number], #questions input[inputmode=decimal]'))
  e.value = '40';
document.querySelector('#form').requestSubmit();
"""


@needs_chromium
def test_one_tab_answers_both_campaigns_and_shows_both_dashboards(tmp_path: Path) -> None:
    with together(f"sqlite:///{tmp_path}/reports.db") as (client, _, store), chromium() as page:
        root = str(client.base_url).rstrip("/")
        for number, (name, each) in enumerate(COLLECTIONS.items()):
            page.open(f"{root}/c/{name}/")
            page.until("!document.querySelector('#form').hidden")
            # The tab remembers the invitation to the campaign before; it is none to this one.
            assert page.run("document.querySelector('#node').offsetParent !== null"), "the page must ask who answers"
            page.open(f"{root}/c/{name}/#node=n{number}&token={each.token(f'n{number}')}")
            page.until("!document.querySelector('#form').hidden")
            assert page.run("document.querySelector('#node').offsetParent === null")
            page.run(ANSWER)
            page.until("!document.querySelector('#checking').hidden")
            page.run("consent.checked = true; document.querySelector('#checking').requestSubmit()")
            page.until("!document.querySelector('#review').hidden")
            page.run("document.querySelector('#send').click()")
            page.until("!document.querySelector('#done').hidden")
            assert [report.node for report in store.reports.iterate(each.campaign)] == [f"n{number}"]
        costs = [each.campaign.guarantee.total_user_level for each in COLLECTIONS.values()]
        spent = page.run("document.querySelector('#spent').textContent")
        assert spent == f"So far: {ceil(100 * sum(costs) - 1e-5) / 100:g} of your limit of 4."
        page.run("withdraw.click(); document.querySelector('#sure-yes').click()")
        page.until("document.querySelector('#done-heading').textContent === 'You have withdrawn.'")
        assert [store.reports.count(each.campaign.id) for each in COLLECTIONS.values()] == [1, 0]
        assert page.complaints == []
        for _ in range(2):  # the second time both are signed in
            for name, each in COLLECTIONS.items():
                page.open(f"{root}/c/{name}/dashboard", width=390)
                if page.run("document.querySelector('#token') !== null"):
                    page.run("document.querySelector('#token').focus()")  # a busy browser may not have done it yet
                    page.call("Input.insertText", text=each.credentials.admin_token)
                    page.press("Enter")
                    page.until("document.querySelector('.tiles') !== null")
                assert page.run("location.pathname") == f"/c/{name}/dashboard"
                assert page.run("document.documentElement.scrollWidth") == 390, "the page scrolls sideways"
        assert page.run("document.querySelector('.tiles') !== null")
        page.complaints.clear()  # the browser reports the 401 of a page that asks to sign in
        page.open(root, width=390)
        assert page.run("getComputedStyle(document.querySelector('main')).maxWidth") == "440px", (
            "the style did not load"
        )
        assert page.complaints == []


@pytest.mark.slow
def test_an_operator_runs_a_campaign_and_a_series_through_sigkill(store_url: str, tmp_path: Path) -> None:
    lines = []
    for name, each in COLLECTIONS.items():
        (tmp_path / name).mkdir()
        options = each.write(tmp_path / name)
        pairs = zip(["--campaign", *options[1::2]], [options[0], *options[2::2]], strict=True)
        lines += [f"[{name}]", *(f"{option.removeprefix('--')} = {json.dumps(path)}" for option, path in pairs)]
    (tmp_path / "campaigns.toml").write_text("\n".join(lines))
    command = [str(tmp_path / "campaigns.toml"), "--store", store_url]
    kept = {"flu": {"n1", "n2"}, "mobility": {"n0", "n1", "n2"}}
    with Server(command, log=tmp_path / "log") as server:
        for name, each in COLLECTIONS.items():
            for node in ("n0", "n1", "n2"):
                assert send(f"{server.url}/c/{name}", each.drawn(node), each.token(node))
        withdraw(f"{server.url}/c/flu/", "n0", FLU.token("n0"))
        server.kill()
    with Server(command, log=tmp_path / "log") as server:
        for name, each in COLLECTIONS.items():
            export = httpx.get(f"{server.url}/c/{name}/dashboard/reports.parquet", headers=each.admin).content
            table = pd.read_parquet(BytesIO(export))
            assert set(table["node"]) == kept[name]
            assert set(table.get("round", [])) == ({1} if each is MOBILITY else set())
            assert send(f"{server.url}/c/{name}", each.drawn("n3"), each.token("n3"))
        assert server.stop() == 0
    assert main(["audit-log", "--store", store_url, "--check"]) == 0
