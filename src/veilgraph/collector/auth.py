"""Authorization: a node's token to report for it, the token of a role or a dashboard session for everything else."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from itsdangerous import BadSignature, TimestampSigner
from starlette.requests import Request

from veilgraph.campaign.made_secrets import new_secret, use_of
from veilgraph.campaign.receipt import Receipt, WithdrawalReceipt
from veilgraph.campaign.report import Report
from veilgraph.campaign.tokens import check_key, check_token
from veilgraph.collector.errors import Refusal, RefusalReason
from veilgraph.collector.store import ReportStore
from veilgraph.errors import RunError

SESSION_COOKIE = "veilgraph_session"
SESSION_SECONDS = 8 * 3600
_SESSION_ID_BYTES = 16


class Role(Enum):
    """What a token opens; nobody has more than the role needs."""

    OWNER = "owner"
    """Everything: counts, metrics, dashboard, export, reminders, audit log."""
    VIEWER = "viewer"
    """Counts and the dashboard, without export and names."""
    AUDITOR = "auditor"
    """The audit log."""
    SCRAPER = "scraper"
    """Metrics, and nothing else."""


class Session(NamedTuple):
    """A dashboard session.

    Attributes:
        id: random id.
        role: role of the token that opened it.
    """

    id: str
    role: Role


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """The collector's secrets. Their repr shows none of them.

    Args:
        keys: signing keys of node tokens. A token of any key is accepted, so that keys can be rotated;
            the first, which is the newest, signs.
        admin_token: secret of the owner.
        role_tokens: secrets of other roles.
        session_cookie: name of the cookie of a dashboard session. Campaigns of one collector have different names,
            so that a browser can hold a session of each.
    """

    keys: Sequence[str] = field(repr=False)
    admin_token: str = field(repr=False)
    role_tokens: Mapping[Role, str] = field(default_factory=dict, repr=False)
    session_cookie: str = field(default=SESSION_COOKIE, repr=False)

    def __post_init__(self) -> None:
        if not self.keys:
            raise RunError("there is no key for tokens: give at least one")
        for key in self.keys:
            check_key(key)
        if Role.OWNER in self.role_tokens:
            raise RunError("the owner's token is the admin token: leave 'owner' out")
        for role, token in self._tokens.items():
            use, name = use_of(token), "admin" if role is Role.OWNER else role.value
            if use != role.value:
                made = "none that veilgraph made for it, or it is altered" if use is None else _made_for(use)
                raise RunError(f"the {name} token is {made}: make one with 'veilgraph rotate-token'")

    def opens_node(self, campaign_id: str, node: str, token: str) -> bool:
        """Return whether the token is the node's, under any of the keys."""
        return check_token(self.keys, campaign_id, node, token)

    def receipt(self, report: Report, *, hour: int) -> Receipt:
        """Return the signed receipt of a report that was stored in this hour, a Unix time."""
        return Receipt.sign(self.keys[0], report, hour=hour)

    def withdrawal_receipt(self, campaign_id: str, node: str, *, hour: int) -> WithdrawalReceipt:
        """Return the signed receipt of a node whose reports were deleted in this hour, a Unix time."""
        return WithdrawalReceipt.sign(self.keys[0], campaign_id, node, hour=hour)

    @property
    def _tokens(self) -> dict[Role, str]:
        return {Role.OWNER: self.admin_token, **self.role_tokens}

    def role_of(self, token: str) -> Role | None:
        """Return the role that a token opens, or None; all tokens are compared, in constant time each."""
        given = _digest(token)
        opened = [role for role, known in self._tokens.items() if hmac.compare_digest(given, _digest(known))]
        return opened[0] if opened else None

    def common_with(self, other: Credentials) -> str | None:
        """Return, in words, what another campaign's credentials would open here too; None if that is nothing."""
        if set(self.keys) & set(other.keys):
            return "a key of participants' tokens"
        return "the token of a role" if set(self._tokens.values()) & set(other._tokens.values()) else None

    def new_session(self, role: Role = Role.OWNER) -> str:
        """Return a value for the session cookie: a random id and a time stamp, signed. The server keeps neither."""
        return self._signer(role).sign(secrets.token_hex(_SESSION_ID_BYTES)).decode()

    def session(self, value: str) -> Session | None:
        """Return a session that `new_session` made at most `SESSION_SECONDS` ago, or None.

        A time stamp in the future was made before the clock was set back; it is refused too. A session ends with the
        token of its role, which signs it.
        """
        for role in self._tokens:
            try:
                found = self._signer(role).unsign(value, max_age=SESSION_SECONDS).decode()
            except BadSignature:
                continue
            return Session(found, role) if found else None
        return None

    def session_id(self, value: str) -> str | None:
        """Return the id of a session of any role, or None."""
        found = self.session(value)
        return None if found is None else found.id

    def _signer(self, role: Role) -> TimestampSigner:
        salt = "veilgraph dashboard session" + ("" if role is Role.OWNER else f" of the {role.value}")
        return TimestampSigner(self._tokens[role], salt=salt, digest_method=hashlib.sha256)


def new_role_token(role: Role) -> str:
    """Return a new token of a role, which cannot be guessed and opens nothing else."""
    return new_secret(role.value)


def read_role_tokens(path: Path) -> dict[Role, str]:
    """Read the tokens of roles from TOML, with lines such as `scraper = "..."`; errors quote no token."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        raise RunError(f'{path} cannot be read: write lines such as scraper = "..."') from None
    known = {role.value: role for role in Role if role is not Role.OWNER}
    for name, token in document.items():
        if name not in known or not isinstance(token, str):
            raise RunError(f'{path}: write a text for {", ".join(known)}, such as scraper = "..."')
    return {known[name]: token for name, token in document.items()}


def bearer_token(request: Request) -> str:
    """Return the token in the Authorization header, or the empty string."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


async def require_role(request: Request, credentials: Credentials, store: ReportStore, *others: Role) -> Role:
    """Return the role of a request: the owner, or one of `others`; refuse all other requests.

    A role is shown by its token, or by a session that was opened with it and goes on.
    """
    allowed = (Role.OWNER, *others)
    if (role := credentials.role_of(bearer_token(request))) in allowed and role is not None:
        return role
    session = credentials.session(request.cookies.get(credentials.session_cookie, ""))
    if session is None or session.role not in allowed:
        raise Refusal(RefusalReason.NOT_ADMIN)
    if await asyncio.to_thread(lambda: session.id in store.ended_sessions):
        raise Refusal(RefusalReason.NOT_ADMIN)
    return session.role


async def end_session(request: Request, credentials: Credentials, store: ReportStore) -> None:
    """End the session of a request, if it has one: from now on its cookie opens nothing."""
    session = credentials.session_id(request.cookies.get(credentials.session_cookie, ""))
    if session is not None:
        now = time.time()
        await asyncio.to_thread(store.ended_sessions.add, session, expires=now + SESSION_SECONDS, now=now)


def _digest(text: str) -> bytes:
    """Return a digest, whose length does not depend on the text, for comparison in constant time."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def _made_for(use: str) -> str:
    secret = f"the token of the {use}" if use in {role.value for role in Role} else "a key of participants' tokens"
    return f"{secret}, which cannot have a second use"
