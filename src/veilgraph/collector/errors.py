"""Refusals: the reasons why the collector does not grant a request, and their HTTP responses."""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

from starlette.responses import JSONResponse

RETRY_SECONDS = 2
_RETRY_STATUSES = {429, 503, 507}


class RefusalReason(Enum):
    """Reason of a refusal. Its value is the word in responses, metrics and the database.

    Attributes:
        status: HTTP status of the response.
        text: explanation for senders and for the dashboard, where the refusal gives no more precise one.
    """

    status: int
    text: str

    ANOTHER_NODE = "another_node", 422, "the report names another node than the request"
    BROKEN_OFF = "broken_off", 400, "the connection ended before the request was complete"
    CLOSED = "closed", 410, "the campaign is closed: it accepts no more reports"
    CONFLICT = "conflict", 409, "another report of this node was stored before; the first one counts"
    EARLIER_WAVE = "earlier_wave", 410, "the wave is over, and a later one of its series is open"
    METHOD_NOT_ALLOWED = "http_405", 405, "this address does not support the request's method"
    NOT_ADMIN = "not_admin", 401, "the admin token is missing or wrong"
    NOT_FOUND = "http_404", 404, "there is no such address"
    NOT_JSON = "not_json", 422, "the request is not JSON"
    NOT_VALID = "not_valid", 422, "the report does not fit the campaign"
    PURGED = "purged", 410, "the campaign's reports were deleted: it accepts no more reports"
    STORE_FULL = "store_full", 507, "the store is full"
    STORE_UNAVAILABLE = "store_unavailable", 503, "the database does not answer"
    TOO_BUSY = "too_busy", 503, "too much is being received at once: wait and send again"
    TOO_LARGE = "too_large", 413, "the request is too large"
    TOO_MANY_REQUESTS = "too_many_requests", 429, "too many requests from one address: wait and send again"
    TOO_SLOW = "too_slow", 408, "the request did not arrive in time"
    UNEXPECTED = "unexpected", 500, "unexpected error in the collector; its log names the place"
    UNKNOWN_NODE = "unknown_node", 404, "the public graph has no such node"
    WITHDRAWN = "withdrawn", 410, "this node's report was withdrawn: it is deleted, and none is stored again"
    WRONG_RECEIPT = "wrong_receipt", 422, "this collector did not sign the receipt: it is altered, or another's"
    WRONG_TOKEN = "wrong_token", 401, "the token is missing, or is not this node's token in this campaign"

    def __new__(cls, value: str, status: int = 0, text: str = "") -> RefusalReason:
        """Make a member. The defaults let type checkers accept the lookup of a member by its value alone."""
        member = object.__new__(cls)
        member._value_ = value
        member.status, member.text = status, text
        return member


_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


class AsciiJSON(JSONResponse):
    """JSON response in ASCII, which can hold any text of a sender, unpaired surrogates included."""

    def render(self, content: Any) -> bytes:
        """Return the content as bytes."""
        return _ENCODER.encode(content).encode("ascii")


class Refusal(Exception):  # noqa: N818 (an answer to a sender, not an error of the collector)
    """Request, or report in a batch, that is not granted.

    Args:
        reason: why; only this is counted, and nothing else of the request is kept.
        detail: what is wrong and what to do, for the sender only; never logged. Default: the reason's text.
    """

    def __init__(self, reason: RefusalReason, detail: str | None = None) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.detail = reason.text if detail is None else detail

    def response(self) -> AsciiJSON:
        """Return the HTTP response, with the headers that its status requires."""
        status = self.reason.status
        headers = {"Retry-After": str(RETRY_SECONDS)} if status in _RETRY_STATUSES else {}
        if status == 429:
            # The sender's further requests on this connection are not even read.
            headers["Connection"] = "close"
        if status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return AsciiJSON({"error": self.reason.value, "detail": self.detail}, status, headers)
