"""Several campaigns in one collector: each works as if it were alone, and its keys are worth nothing elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from starlette.routing import Route

from tests.support.collection import Collection
from tests.support.running_collector import listening
from veilgraph.campaign.tokens import new_key
from veilgraph.client import send, withdraw
from veilgraph.collector.app import make_app
from veilgraph.collector.auth import SESSION_COOKIE, Credentials, Role
from veilgraph.collector.middleware import Limits
from veilgraph.collector.several import CampaignsTogether
from veilgraph.collector.shared_parts import SharedParts
from veilgraph.collector.store import ReportStore

UNLIMITED = Limits(requests_per_second=0)
SURVEYS = {"flu": 10, "mobility": 12}


def collection(name: str, nodes: int) -> Collection:
    roles: dict[Role, str] = {role: f"a token of the {role.value} of {name}" for role in Role if role is not Role.OWNER}
    credentials = Credentials(
        keys=[new_key()],
        admin_token=f"an admin token of {name}, for tests",
        role_tokens=roles,
        session_cookie=f"{SESSION_COOKIE}_{name}",
    )
    return replace(Collection.ring(nodes), credentials=credentials)


COLLECTIONS = {name: collection(name, nodes) for name, nodes in SURVEYS.items()}
FLU, MOBILITY = COLLECTIONS.values()


@contextmanager
def together(url: str) -> Iterator[tuple[httpx.Client, dict[str, FastAPI], ReportStore]]:
    """Serve both campaigns; yield a client, the applications and the store."""
    store = ReportStore.open(url)
    shared = SharedParts(store, limits=UNLIMITED)
    apps = {
        name: make_app(
            campaign=each.campaign, graph=each.graph, credentials=each.credentials, store=store, shared=shared
        )
        for name, each in COLLECTIONS.items()
    }
    with listening(CampaignsTogether(apps, shared)) as client:
        yield client, apps, store


def requests_of(app: FastAPI, token: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield a request to each route and method of the campaign on mobility, with the token wherever one belongs."""
    bodies: dict[tuple[str, str], dict[str, Any]] = {
        ("PUT", "/v1/reports/{node:path}"): {"json": MOBILITY.report("n1").document},
        ("POST", "/v1/reports"): {"json": {"reports": [{"token": token, "report": MOBILITY.report("n1").document}]}},
        ("POST", "/dashboard/login"): {"data": {"token": token}},
    }
    for route in app.routes:
        assert isinstance(route, Route)
        for method in sorted((route.methods or set()) - {"HEAD"}):
            path = "/c/mobility" + route.path.replace("{node:path}", "n1")
            yield method, path, bodies.get((method, route.path), {})


def opened(client: httpx.Client, app: FastAPI, *, token: str = "", cookies: dict[str, str] | None = None) -> set[str]:
    """Return the requests that are granted; all others must be refused for want of a credential, or of a body."""
    granted = set()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    for method, path, body in requests_of(app, token):
        client.cookies.clear()
        client.cookies.update(cookies or {})
        response = client.request(method, path, headers=headers, follow_redirects=False, **body)
        status = response.status_code
        if method == "POST" and path.endswith("/v1/reports"):
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
        assert store.count(MOBILITY.campaign.id) == 0
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


def test_clients_use_the_address_of_a_campaign(tmp_path: Path) -> None:
    with together(f"sqlite:///{tmp_path}/reports.db") as (client, _, store):
        root = str(client.base_url).rstrip("/")
        for ending in ("", "/"):
            for name, each in COLLECTIONS.items():
                url = f"{root}/c/{name}{ending}"
                node = f"n{3 + len(ending)}"
                send(url, each.report(node).document, each.token(node))
        withdraw(f"{root}/c/flu", "n3", FLU.token("n3"))
        assert {name: store.count(each.campaign.id) for name, each in COLLECTIONS.items()} == {"flu": 1, "mobility": 2}


def test_outside_of_the_campaigns_nothing_is_said_about_them(tmp_path: Path) -> None:
    with together(f"sqlite:///{tmp_path}/reports.db") as (client, _, _):
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


def test_the_slash_after_a_name_may_be_left_out(tmp_path: Path) -> None:
    with together(f"sqlite:///{tmp_path}/reports.db") as (client, _, _):
        redirect = client.get("/c/flu")
        # Relative: it leads to the right address below a path of a proxy, too.
        assert (redirect.status_code, redirect.headers["location"]) == (308, "flu/")
        assert client.get("/c/flu", follow_redirects=True).text == client.get("/c/flu/").text


def test_a_browser_can_be_signed_in_to_several_dashboards(tmp_path: Path) -> None:
    with together(f"sqlite:///{tmp_path}/reports.db") as (client, _, _):
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
