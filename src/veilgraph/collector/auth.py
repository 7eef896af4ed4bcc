"""Authorization: a node's token to report for it, the admin token or a dashboard session for everything else."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field

from itsdangerous import TimestampSigner
from starlette.requests import Request

from veilgraph.campaign.receipt import Receipt
from veilgraph.campaign.report import Report
from veilgraph.campaign.tokens import check_key, check_token
from veilgraph.collector.errors import Refusal, RefusalReason
from veilgraph.errors import RunError

SESSION_COOKIE = "veilgraph_session"
SESSION_SECONDS = 8 * 3600
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

    def opens_administration(self, token: str) -> bool:
        """Return whether this is the admin token."""
        return hmac.compare_digest(_digest(token), _digest(self.admin_token))

    def new_session(self) -> str:
        """Return a value for the session cookie: a signed time stamp. The server keeps nothing of it."""
        return self._signer.sign("").decode()

    def is_session(self, value: str) -> bool:
        """Return whether `new_session` made the value at most `SESSION_SECONDS` ago.

        A time stamp in the future was made before the clock was set back; it is refused too.
        """
        return self._signer.validate(value, max_age=SESSION_SECONDS)

    @property
    def _signer(self) -> TimestampSigner:
        return TimestampSigner(self.admin_token, salt="veilgraph dashboard session", digest_method=hashlib.sha256)


def bearer_token(request: Request) -> str:
    """Return the token in the Authorization header, or the empty string."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def require_admin(request: Request, credentials: Credentials) -> None:
    """Refuse requests that have neither the admin token nor a session that was opened with it."""
    session = request.cookies.get(SESSION_COOKIE, "")
    if not (credentials.opens_administration(bearer_token(request)) or credentials.is_session(session)):
        raise Refusal(RefusalReason.NOT_ADMIN)


def _digest(text: str) -> bytes:
    """Return a digest, whose length does not depend on the text, for comparison in constant time."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
