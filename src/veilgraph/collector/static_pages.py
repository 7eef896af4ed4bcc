"""The participant's page: static files of the browser client, from the package and nowhere else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import resources

from fastapi import FastAPI, Response

# Path, file and type.
_FILES = (
    ("/", "participant.html", "text/html; charset=utf-8"),
    ("/client.js", "veilgraph.js", "text/javascript; charset=utf-8"),
    ("/participant.js", "participant.js", "text/javascript; charset=utf-8"),
    ("/participant.css", "participant.css", "text/css; charset=utf-8"),
)


def add_participant_page(app: FastAPI) -> None:
    """Serve the page at / and what it refers to."""
    for path, name, media_type in _FILES:
        content = (resources.files("veilgraph") / "client" / "browser" / name).read_bytes()
        app.get(path, include_in_schema=False)(_sender(content, media_type))
    # Browsers ask for an icon unasked; that there is none is not worth a refusal.
    app.get("/favicon.ico", include_in_schema=False)(_sender(b"", "image/x-icon", status=204))


def _sender(content: bytes, media_type: str, *, status: int = 200) -> Callable[[], Awaitable[Response]]:
    async def send() -> Response:
        return Response(content, status, media_type=media_type, headers={"Cache-Control": "no-cache"})

    return send
