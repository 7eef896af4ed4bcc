"""Requests to a collector, which are repeated where it is busy or unreachable."""

from __future__ import annotations

import http.client
import ipaddress
import secrets
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from veilgraph.client.reading import T, check_node, read_json
from veilgraph.client.refusals import SendError

_RETRIED_STATUSES = {408, 429, 500, 502, 503, 504, 507}  # the same report may be sent twice
_MAX_PAUSE_SECONDS = 300.0
_MAX_ANSWER_LENGTH = 2**16


_REFUSALS = {
    **dict.fromkeys((301, 302, 303, 307, 308), "the address leads elsewhere: give the one that it leads to"),
    400: "the collector could not read the report",
    401: "the token is not this node's; ask the campaign's contact for it",
    403: "the token is not this node's; ask the campaign's contact for it",
    404: "the collector has no such address, or knows no such node",
    409: "another report of this node was stored before: the first one counts, and a second is never accepted",
    410: "the campaign is closed: no report is accepted any more",
    413: "the report is too large for the collector",
    422: "the report does not fit the collector's campaign; is it the campaign that you answered?",
}


class Patience(NamedTuple):
    """How long a device waits for a collector that is busy or cannot be reached.

    Args:
        attempts: maximum number of attempts for each request.
        timeout: seconds to wait for each response.
        sleep: function that waits between two attempts.
    """

    attempts: int = 8
    timeout: float = 30.0
    sleep: Callable[[float], None] = time.sleep


PATIENT = Patience()


def read_answer(response: http.client.HTTPResponse) -> tuple[int, bytes]:
    """Return the status and the beginning of an answer."""
    return response.status, response.read(_MAX_ANSWER_LENGTH)


def deliver(
    request: urllib.request.Request, patience: Patience, remedy: str, read: Callable[[http.client.HTTPResponse], T]
) -> T:
    """Send a request, again if necessary, and return its answer as `read` reads it; raise an error if it is refused."""
    opener = _opener(request)
    failure = ""
    for attempt in range(patience.attempts):
        pause = 0.5 * 2**attempt * (1 - secrets.randbelow(1000) / 2000)
        try:
            with opener.open(request, timeout=patience.timeout) as response:
                if response.status in (200, 201, 206):
                    return read(response)
                raise SendError(f"the collector answered {response.status}, which is not a response to a report")
        except urllib.error.HTTPError as error:
            with error:
                if error.code not in _RETRIED_STATUSES:
                    raise SendError(_refusal(error)) from None
                failure = f"the collector answered {error.code}"
                pause = max(pause, _requested_pause(error.headers.get("Retry-After")))
        except (http.client.InvalidURL, ValueError):
            raise SendError("the collector's address cannot be used; check it") from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise SendError("the collector's certificate is not valid; nothing was sent") from None
            failure = f"the collector cannot be reached ({type(reason).__name__})"
        if pause > _MAX_PAUSE_SECONDS:
            raise SendError(f"{failure} and asks to wait {pause:.0f} seconds; {remedy}")
        if attempt + 1 < patience.attempts:
            patience.sleep(pause)
    raise SendError(f"{failure}, {patience.attempts} times; {remedy}")


def _refusal(error: urllib.error.HTTPError) -> str:
    """Return why a request was refused, in words of this client: the collector's own are not shown."""
    reason = None
    with suppress(OSError, http.client.HTTPException):
        reason = read_json_object(error.read(_MAX_ANSWER_LENGTH)).get("error")
    known = REASONS.get(reason) if isinstance(reason, str) else None
    return known or _REFUSALS.get(error.code, f"the collector answered {error.code}")


# Reasons that share the HTTP status of another one.
REASONS = {
    "earlier_wave": "this part of the series is over, and the next wave is open: fetch that one, and answer it",
    "stored": "the collector holds a report of this node already: only if it is this very one, from this store, may it "
    "be sent again (again=True, --again)",
    "withdrawn": "the report of this node was withdrawn: it is deleted, and none is accepted again",
    "purged": "the campaign's reports were deleted: no report is accepted any more",
    "wrong_receipt": "the collector did not sign this receipt: it is altered, or another collector's",
}


def place_of(node: str) -> str:
    """Return the path of a node's report."""
    return f"reports/{urllib.parse.quote(check_node(node), safe='')}"


def make_request(url: str, place: str, token: str, method: str, content: bytes | None = None) -> urllib.request.Request:
    """Make a request to a place below the collector's address."""
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        raise SendError("the collector's address cannot be used; check it") from None
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_this_machine(parts.hostname or "")):
        raise SendError("the collector's address must begin with https:// (http:// only on this machine)")
    if not token.isascii() or not token.isprintable():
        raise SendError("the token is damaged: it must be plain characters")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return urllib.request.Request(  # noqa: S310 (the scheme is checked)
        f"{url.rstrip('/')}/v1/{place}",
        data=content,
        method=method,
        headers=headers | ({} if content is None else {"Content-Type": "application/json"}),
    )


def _opener(request: urllib.request.Request) -> urllib.request.OpenerDirector:
    """Use the system's proxy, but for this machine: a token for it must not travel to a proxy unencrypted.

    Nothing is redirected: who leads elsewhere could lead to an address without encryption.
    """
    if _is_this_machine(urllib.parse.urlsplit(request.full_url).hostname or ""):
        return urllib.request.build_opener(_StayHere, urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(_StayHere)


class _StayHere(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow no redirection."""


def read_json_object(answer: bytes) -> dict[str, Any]:
    """Return the JSON object in an answer, empty if it is something else."""
    document = None
    with suppress(ValueError):
        document = read_json(answer, most=_MAX_ANSWER_LENGTH)
    return document if isinstance(document, dict) else {}


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def _requested_pause(header: str | None) -> float:
    """Return the seconds of a Retry-After header, which holds seconds or a date."""
    if not header:
        return 0.0
    if header.isascii() and header.isdigit():
        return float(header[:9])
    with suppress(ValueError, TypeError):
        return (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds()
    return 0.0
