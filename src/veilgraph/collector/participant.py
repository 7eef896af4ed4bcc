"""The participant's page: static files of the browser client, from the package and nowhere else."""

from __future__ import annotations

from importlib import resources

from fastapi import FastAPI, Response

from veilgraph.collector.refusal import Refusal

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
        app.get(path, include_in_schema=False)(_sender(name, media_type))


def _sender(name: str, media_type: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
    async def send() -> Response:
        file = resources.files("veilgraph") / "client" / "browser" / name
        if not file.is_file():
            raise Refusal(404, "http_404", "there is nothing here")
        return Response(file.read_bytes(), media_type=media_type, headers={"Cache-Control": "no-cache"})

    return send
