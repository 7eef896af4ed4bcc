"""Who may do what: a node's token to report for it, the administration's to look in."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from starlette.requests import Request

from veilgraph.campaign.tokens import check_key, check_token
from veilgraph.collector.errors import Refusal
from veilgraph.errors import RunError

SESSION_COOKIE = "veilgraph_session"
SESSION_SECONDS = 8 * 3600
_SHORTEST_ADMIN_TOKEN = 24


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """The collector's secrets. Their repr shows none of them.

    Args:
        keys: signing keys of node tokens; a token of any of them counts, so that keys can be changed one by one.
        admin_token: opens counts, metrics, dashboard and export.
    """

    keys: Sequence[str] = field(repr=False)
    admin_token: str = field(repr=False)

    def __post_init__(self) -> None:
        if not self.keys:
            raise RunError("there is no key for tokens: give at least one")
        for key in self.keys:
            check_key(key)
        if len(self.admin_token) < _SHORTEST_ADMIN_TOKEN:
            raise RunError(f"the admin token is shorter than {_SHORTEST_ADMIN_TOKEN} characters: make a longer one")

    def opens_node(self, campaign_id: str, node: str, token: str) -> bool:
        """Whether the token is the node's, under any of the keys."""
        return check_token(self.keys, campaign_id, node, token)

    def opens_administration(self, token: str) -> bool:
        """Whether this is the administration's token."""
        return hmac.compare_digest(_digest(token), _digest(self.admin_token))

    def new_session(self, *, clock: Callable[[], float] = time.time) -> str:
        """A value for the session cookie: when it ends, signed. Nothing is kept for it on the server."""
        ends = str(int(clock()) + SESSION_SECONDS)
        return f"{ends}.{self._sign(ends)}"

    def is_session(self, value: str, *, clock: Callable[[], float] = time.time) -> bool:
        """Whether `new_session` made the value, and not too long ago."""
        ends, _, signature = value.partition(".")
        signed = hmac.compare_digest(_digest(signature), _digest(self._sign(ends)))
        # A session that ends further ahead than any can was made before the clock was set back.
        return signed and 0 <= int(ends) - clock() <= SESSION_SECONDS

    def _sign(self, ends: str) -> str:
        message = b"veilgraph dashboard session\0" + ends.encode()
        return hmac.new(self.admin_token.encode(), message, hashlib.sha256).hexdigest()


def bearer_token(request: Request) -> str:
    """The token in the Authorization header, empty where there is none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def require_admin(request: Request, credentials: Credentials) -> None:
    """Refuse whoever shows neither the admin token nor a session that was opened with it."""
    session = request.cookies.get(SESSION_COOKIE, "")
    if not (credentials.opens_administration(bearer_token(request)) or credentials.is_session(session)):
        raise Refusal(401, "not_admin", "this needs the administration's token")


def _digest(text: str) -> bytes:
    """Of equal length for any text, so that a comparison tells nothing, and any text can be compared."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
