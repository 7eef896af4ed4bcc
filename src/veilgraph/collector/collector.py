"""The collector of a process as one ASGI application: what it shares is started once, and what it serves after that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from veilgraph.collector.shared_parts import SharedParts


class Application(Protocol):
    """ASGI application of a campaign, a series or several of them; it answers requests as long as `running` lasts."""

    def running(self) -> AbstractAsyncContextManager[None]:
        """Do what is done beside answering."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""


class Collector:
    """ASGI application of a process.

    Args:
        application: application that answers all requests.
        shared: what its campaigns share.
    """

    def __init__(self, application: Application, shared: SharedParts) -> None:
        self._application, self._shared = application, shared
        self._lifespan = Router(lifespan=self._running)

    @asynccontextmanager
    async def _running(self, _: object) -> AsyncIterator[None]:
        async with self._shared.running(), self._application.running():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or start and stop."""
        await (self._lifespan if scope["type"] == "lifespan" else self._application)(scope, receive, send)
