"""Each role opens what it needs, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.collection import Collection
from tests.support.running_collector import collector_of, listening
from veilgraph.collector.auth import SESSION_COOKIE, Credentials, Role, new_role_token, read_role_tokens
from veilgraph.collector.store import ReportStore
from veilgraph.errors import RunError

RING = Collection.ring(10)
TOKENS: dict[Role, str] = {role: new_role_token(role) for role in Role if role is not Role.OWNER}
CREDENTIALS = Credentials(keys=RING.credentials.keys, admin_token=RING.credentials.admin_token, role_tokens=TOKENS)
OPENED = {
    Role.OWNER: {"/metrics", "/v1/status", "/v1/audit-log", "/dashboard", "/dashboard/missing.csv"},
    Role.VIEWER: {"/v1/status", "/dashboard"},
    Role.AUDITOR: {"/v1/audit-log"},
    Role.SCRAPER: {"/metrics"},
}
PARQUET = "/dashboard/reports.parquet"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    store = ReportStore.open(f"sqlite:///{tmp_path_factory.mktemp('roles')}/reports.db")
    store.reports.put([RING.report("n1"), RING.report("n2")], now=0)
    app = collector_of(RING.campaign, graph=RING.graph, store=store, credentials=CREDENTIALS)
    with listening(app) as client:
        yield client


@pytest.mark.parametrize("role", Role, ids=lambda role: role.value)
def test_a_role_opens_exactly_what_it_needs(client: httpx.Client, role: Role) -> None:
    token = {Role.OWNER: CREDENTIALS.admin_token, **TOKENS}[role]
    client.cookies.clear()
    headers = {"Authorization": f"Bearer {token}"}
    opened = {path for path in OPENED[Role.OWNER] if client.get(path, headers=headers).status_code == 200}
    assert opened == OPENED[role]
    assert (client.get(PARQUET, headers=headers).status_code == 200) is (role is Role.OWNER)


@pytest.mark.parametrize("role", Role, ids=lambda role: role.value)
def test_only_owner_and_viewer_can_sign_in_and_a_viewers_session_cannot_export(
    client: httpx.Client, role: Role
) -> None:
    client.cookies.clear()
    token = {Role.OWNER: CREDENTIALS.admin_token, **TOKENS}[role]
    client.post("/dashboard/login", data={"token": token})
    assert (SESSION_COOKIE in client.cookies) is (role in (Role.OWNER, Role.VIEWER))
    page = client.get("/dashboard")
    assert (page.status_code == 200) is (role in (Role.OWNER, Role.VIEWER))
    for link in ("reports.parquet", "missing.csv"):
        assert (f'href="dashboard/{link}"' in page.text) is (role is Role.OWNER)
        assert (client.get(f"/dashboard/{link}").status_code == 200) is (role is Role.OWNER)
    client.cookies.clear()


def test_the_audit_log_says_which_role_signed_in(client: httpx.Client) -> None:
    client.cookies.clear()
    client.post("/dashboard/login", data={"token": TOKENS[Role.VIEWER]})
    client.cookies.clear()
    headers = {"Authorization": f"Bearer {TOKENS[Role.AUDITOR]}"}
    last = client.get("/v1/audit-log", headers=headers).json()["entries"][-1]
    assert (last["action"], last["actor"]) == ("login", "viewer")


def test_a_session_ends_with_the_token_of_its_role() -> None:
    session = CREDENTIALS.new_session(Role.VIEWER)
    assert CREDENTIALS.session(session) is not None
    others = TOKENS | {Role.VIEWER: new_role_token(Role.VIEWER)}
    changed = Credentials(keys=CREDENTIALS.keys, admin_token=CREDENTIALS.admin_token, role_tokens=others)
    assert changed.session(session) is None


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ({Role.SCRAPER: "short"}, "make one with 'veilgraph rotate-token'"),
        ({Role.OWNER: "x" * 30}, "leave 'owner' out"),
        ({Role.SCRAPER: "x" * 30}, "the scraper token is none that veilgraph made for it"),
        ({Role.VIEWER: CREDENTIALS.admin_token}, "the viewer token is the token of the owner, which cannot have a sec"),
        ({Role.VIEWER: TOKENS[Role.SCRAPER]}, "the viewer token is the token of the scraper, which cannot have a sec"),
        ({Role.VIEWER: CREDENTIALS.keys[0]}, "the viewer token is a key of participants' tokens, which cannot have a "),
    ],
)
def test_tokens_that_would_open_too_much_are_refused(tokens: dict[Role, str], message: str) -> None:
    with pytest.raises(RunError, match=message) as refusal:
        Credentials(keys=CREDENTIALS.keys, admin_token=CREDENTIALS.admin_token, role_tokens=tokens)
    assert "x" * 30 not in str(refusal.value)


def test_a_file_names_the_roles(tmp_path: Path) -> None:
    path = tmp_path / "roles.toml"
    path.write_text(f'scraper = "{TOKENS[Role.SCRAPER]}"\n')
    assert read_role_tokens(path) == {Role.SCRAPER: TOKENS[Role.SCRAPER]}
    for text in ('owner = "x"', "viewer = 3", "viewer", 'boss = "x"'):
        path.write_text(text)
        with pytest.raises(RunError, match=r"roles\.toml"):
            read_role_tokens(path)
