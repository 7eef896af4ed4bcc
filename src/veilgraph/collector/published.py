"""Published files of a wave about neighbours: sent in pieces, and from any byte on.

A peer has time for each piece, and not for the whole: a slow device finishes, and one that does not read holds a piece.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Mapping

from fastapi import FastAPI, Request, Response
from starlette.responses import StreamingResponse

from veilgraph.campaign import Campaign
from veilgraph.collector import openapi
from veilgraph.collector.errors import Refusal, RefusalReason
from veilgraph.errors import CampaignError

_PIECE_BYTES = 64 * 1024
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def check_published(campaign: Campaign, published: Mapping[str, bytes]) -> None:
    """Refuse files that are not exactly the files that the campaign names."""
    expected = campaign.asked.published
    if published.keys() != expected or any(hashlib.sha256(each).hexdigest() != key for key, each in published.items()):
        raise CampaignError("the published files are not those that the campaign names: give its table and its people")


def add_published(app: FastAPI, published: Mapping[str, bytes]) -> None:
    """Add the route of files by their SHA-256."""
    summary = "A file of a wave about neighbours, whole or from a byte on"

    @app.get("/v1/published/{sha256}", summary=summary, responses=openapi.PUBLISHED)
    async def get_published(sha256: str, request: Request) -> Response:
        if (content := published.get(sha256)) is None:
            raise Refusal(RefusalReason.NOT_FOUND, "no file with this SHA-256 is published: look at the campaign again")
        headers = {
            "Cache-Control": "public, max-age=31536000, immutable",
            "ETag": f'"{sha256}"',
            "Accept-Ranges": "bytes",
        }
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        first, end, status = 0, len(content), 200
        if request.headers.get("if-range", headers["ETag"]) == headers["ETag"]:
            found = _RANGE.fullmatch(request.headers.get("range", ""))
            if found and found[0] != "bytes=-":
                first, end = _bounds(found[1], found[2], len(content))
                if first >= end:
                    return Response(status_code=416, headers=headers | {"Content-Range": f"bytes */{len(content)}"})
                status, headers["Content-Range"] = 206, f"bytes {first}-{end - 1}/{len(content)}"
        headers["Content-Length"] = str(end - first)
        pieces = _pieces(memoryview(content)[first:end])
        return StreamingResponse(pieces, status, headers, media_type="application/octet-stream")


def _bounds(first: str, last: str, size: int) -> tuple[int, int]:
    """Return the first byte of a range, and the one after its last.

    >>> _bounds("2", "", 10), _bounds("2", "3", 10), _bounds("2", "99", 10), _bounds("", "4", 10), _bounds("5", "4", 10)
    ((2, 10), (2, 4), (2, 10), (6, 10), (5, 5))
    """
    if not first:
        return max(0, size - int(last)), size
    return int(first), min(int(last) + 1, size) if last else size


async def _pieces(content: memoryview) -> AsyncIterator[memoryview]:
    for start in range(0, len(content), _PIECE_BYTES):
        yield content[start : start + _PIECE_BYTES]
