"""Several campaigns in one collector: each is an application of its own below /c/NAME/, as if it were alone there.

They share a process, a database and the rate limit of senders, and no key. What is outside of these addresses says
nothing about any campaign.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import resources

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from veilgraph.collector.app import add_boundaries, answer_refusals, new_app
from veilgraph.collector.health import add_health
from veilgraph.collector.metrics import Metrics
from veilgraph.collector.participant_page import PageFile
from veilgraph.collector.shared_parts import SharedParts
from veilgraph.collector.wave_switch import WaveSwitch

logger = logging.getLogger("veilgraph.collector")


class CampaignsTogether:
    """ASGI application of several campaigns.

    Args:
        campaigns: name of each campaign, and the application that `make_app` made of it with the same `shared`; of a
            series whose waves are taken up from a folder, the one that switches.
        shared: what they share.
    """

    def __init__(self, campaigns: Mapping[str, FastAPI | WaveSwitch], shared: SharedParts) -> None:
        self._campaigns, self._shared = campaigns, shared
        self._entrance = _entrance(campaigns, shared)
        self._lifespan = Router(lifespan=self._running)

    @asynccontextmanager
    async def _running(self, _: object) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._shared.running())
            for name, app in self._campaigns.items():
                running = app.running() if isinstance(app, WaveSwitch) else app.router.lifespan_context(app)
                await stack.enter_async_context(running)
                logger.info("campaign '%s' is served at /c/%s/", name, name)
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request to the campaign that its path names: a lookup, however many campaigns there are."""
        if scope["type"] != "http":
            await self._lifespan(scope, receive, send)
            return
        # "/c/NAME/rest"
        parts = scope["path"].split("/", 3)
        app = self._campaigns.get(parts[2]) if len(parts) == 4 and parts[:2] == ["", "c"] else None
        if app is None:
            await self._entrance(scope, receive, send)
        else:
            await app({**scope, "root_path": f"/c/{parts[2]}"}, receive, send)


def _entrance(campaigns: Mapping[str, FastAPI | WaveSwitch], shared: SharedParts) -> FastAPI:
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
    add_health(app, shared)

    @app.get("/c/{name}")
    async def with_slash(name: str) -> RedirectResponse:
        if name not in campaigns:
            raise HTTPException(404)
        # Relative, because a proxy may serve the collector below a path.
        return RedirectResponse(f"{name}/", 308)

    return app
