"""Why a request was not granted: a status, a fixed word for counting, and a sentence for the sender."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse

RETRY_SECONDS = 2
_RETRY = {429, 503, 507}


class AsciiJSON(JSONResponse):
    """JSON that any text survives, half a surrogate pair from a sender included."""

    def render(self, content: Any) -> bytes:
        """As bytes."""
        return json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii")


class Refusal(Exception):  # noqa: N818 (an answer to a sender, not an error of ours)
    """Raised wherever a request cannot be granted.

    Args:
        status: of the HTTP response.
        reason: one of a fixed few words; it is counted, and nothing else of the request is kept.
        sentence: what is wrong and what to do, for the sender only. It is never logged.
    """

    def __init__(self, status: int, reason: str, sentence: str) -> None:
        super().__init__(reason)
        self.status, self.reason, self.sentence = status, reason, sentence

    def response(self) -> AsciiJSON:
        """As JSON, with the headers that belong to the status."""
        headers = {"Retry-After": str(RETRY_SECONDS)} if self.status in _RETRY else {}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return AsciiJSON({"error": self.reason, "detail": self.sentence}, self.status, headers)
