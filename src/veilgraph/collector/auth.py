"""Authorization: a node's token to report for it, the admin token or a dashboard session for everything else."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from itsdangerous import BadSignature, TimestampSigner
from starlette.requests import Request

from veilgraph.campaign.receipt import Receipt, WithdrawalReceipt
from veilgraph.campaign.report import Report
from veilgraph.campaign.tokens import check_key, check_token
from veilgraph.collector.errors import Refusal, RefusalReason
from veilgraph.collector.store import ReportStore
from veilgraph.errors import RunError

SESSION_COOKIE = "veilgraph_session"
SESSION_SECONDS = 8 * 3600
_SESSION_ID_BYTES = 16
_MIN_ADMIN_TOKEN_LENGTH = 24


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """The collector's secrets. Their repr shows none of them.

    Args:
        keys: signing keys of node tokens. A token of any key is accepted, so that keys can be rotated;
            the first, which is the newest, signs.
        admin_token: secret that opens counts, metrics, dashboard and export.
    """

    keys: Sequence[str] = field(repr=False)
    admin_token: str = field(repr=False)

    def __post_init__(self) -> None:
        if not self.keys:
            raise RunError("there is no key for tokens: give at least one")
        for key in self.keys:
            check_key(key)
        if len(self.admin_token) < _MIN_ADMIN_TOKEN_LENGTH:
            raise RunError(f"the admin token is shorter than {_MIN_ADMIN_TOKEN_LENGTH} characters: make a longer one")

    def opens_node(self, campaign_id: str, node: str, token: str) -> bool:
        """Return whether the token is the node's, under any of the keys."""
        return check_token(self.keys, campaign_id, node, token)

    def receipt(self, report: Report, *, hour: int) -> Receipt:
        """Return the signed receipt of a report that was stored in this hour, a Unix time."""
        return Receipt.sign(self.keys[0], report, hour=hour)

    def withdrawal_receipt(self, campaign_id: str, node: str, *, hour: int) -> WithdrawalReceipt:
        """Return the signed receipt of a node whose reports were deleted in this hour, a Unix time."""
        return WithdrawalReceipt.sign(self.keys[0], campaign_id, node, hour=hour)

    def opens_administration(self, token: str) -> bool:
        """Return whether this is the admin token."""
        return hmac.compare_digest(_digest(token), _digest(self.admin_token))

    def new_session(self) -> str:
        """Return a value for the session cookie: a random id and a time stamp, signed. The server keeps neither."""
        return self._signer.sign(secrets.token_hex(_SESSION_ID_BYTES)).decode()

    def session_id(self, value: str) -> str | None:
        """Return the id of a session that `new_session` made at most `SESSION_SECONDS` ago, or None.

        A time stamp in the future was made before the clock was set back; it is refused too.
        """
        try:
            session = self._signer.unsign(value, max_age=SESSION_SECONDS).decode()
        except BadSignature:
            return None
        return session or None

    @property
    def _signer(self) -> TimestampSigner:
        return TimestampSigner(self.admin_token, salt="veilgraph dashboard session", digest_method=hashlib.sha256)


def bearer_token(request: Request) -> str:
    """Return the token in the Authorization header, or the empty string."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


async def require_admin(request: Request, credentials: Credentials, store: ReportStore) -> None:
    """Refuse requests that have neither the admin token nor a session that was opened with it and goes on."""
    if credentials.opens_administration(bearer_token(request)):
        return
    session = credentials.session_id(request.cookies.get(SESSION_COOKIE, ""))
    if session is None or await asyncio.to_thread(store.has_ended, session):
        raise Refusal(RefusalReason.NOT_ADMIN)


async def end_session(request: Request, credentials: Credentials, store: ReportStore) -> None:
    """End the session of a request, if it has one: from now on its cookie opens nothing."""
    session = credentials.session_id(request.cookies.get(SESSION_COOKIE, ""))
    if session is not None:
        now = time.time()
        await asyncio.to_thread(store.end_session, session, expires=now + SESSION_SECONDS, now=now)


def _digest(text: str) -> bytes:
    """Return a digest, whose length does not depend on the text, for comparison in constant time."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
