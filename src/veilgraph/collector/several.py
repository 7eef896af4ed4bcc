"""Several campaigns in one collector: each is an application of its own below /c/NAME/, as if it were alone there.

They share a process, the rate limit of senders and often a database, and no key. What is outside of these addresses
says nothing about any campaign.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Container, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import resources

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse
from starlette.types import Receive, Scope, Send

from veilgraph.collector.app import add_boundaries, answer_refusals, new_app
from veilgraph.collector.collector import Application, SharedParts
from veilgraph.collector.health import add_health
from veilgraph.collector.metrics import Metrics
from veilgraph.collector.participant_page import PageFile

logger = logging.getLogger("veilgraph.collector")


class CampaignsTogether:
    """ASGI application of several campaigns.

    Args:
        campaigns: name of each campaign, and its application.
        shared: what they share, for each store.
    """

    def __init__(self, campaigns: Mapping[str, Application], *shared: SharedParts) -> None:
        self._campaigns = campaigns
        self._entrance = _entrance(campaigns, *shared)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve each campaign, as long as the context lasts."""
        async with AsyncExitStack() as stack:
            for name, application in self._campaigns.items():
                await stack.enter_async_context(application.running())
                logger.info("campaign '%s' is served at /c/%s/", name, name)
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request to the campaign that its path names: a lookup, however many campaigns there are."""
        # "/c/NAME/rest"
        parts = scope["path"].split("/", 3)
        application = self._campaigns.get(parts[2]) if len(parts) == 4 and parts[:2] == ["", "c"] else None
        if application is None:
            await self._entrance(scope, receive, send)
        else:
            await application({**scope, "root_path": f"/c/{parts[2]}"}, receive, send)


def _entrance(campaigns: Container[str], shared: SharedParts, *others: SharedParts) -> FastAPI:
    """Make what is outside of all campaigns: a page that names none of them, and the health of the process."""
    app, metrics = new_app(openapi_url=None), Metrics(campaign="", queued=lambda: 0)
    answer_refusals(app, shared, metrics)
    pages = resources.files("veilgraph.collector") / "pages"
    files = {
        "/": PageFile((pages / "entrance.html").read_bytes(), "text/html; charset=utf-8"),
        "/style.css": PageFile((pages / "dashboard.css").read_bytes(), "text/css; charset=utf-8"),
        "/favicon.ico": PageFile(b"", "image/x-icon"),
    }
    add_boundaries(app, shared, metrics, files=files)
    add_health(app, shared, *others)

    @app.get("/c/{name}")
    async def with_slash(name: str) -> RedirectResponse:
        if name not in campaigns:
            raise HTTPException(404)
        # Relative, because a proxy may serve the collector below a path.
        return RedirectResponse(f"{name}/", 308)

    return app
