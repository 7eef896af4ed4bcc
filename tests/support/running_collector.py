"""A collector that listens on a port, in a thread of the test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from starlette.types import ASGIApp

from tests.support.collection import Collection
from veilgraph.campaign import Campaign
from veilgraph.collector.app import CampaignApp
from veilgraph.collector.auth import Credentials
from veilgraph.collector.collector import Collector, SharedParts
from veilgraph.collector.middleware import Limits
from veilgraph.collector.served_campaign import ServedCampaign
from veilgraph.collector.server import ConnectionLimits, DeadlineProtocol, make_server
from veilgraph.collector.store import ReportStore
from veilgraph.graph import Graph

_TIMEOUT = 20.0


@contextmanager
def listening(
    app: ASGIApp,
    *,
    protocol: type[DeadlineProtocol] = DeadlineProtocol,
    limits: ConnectionLimits | None = None,
    trusted_proxy: str | None = None,
) -> Iterator[httpx.Client]:
    """Serve the application on a free port; yield a client of it."""
    server = make_server(app, host="127.0.0.1", port=0, protocol=protocol, limits=limits, trusted_proxy=trusted_proxy)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive())
        port = server.servers[0].sockets[0].getsockname()[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=_TIMEOUT) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(_TIMEOUT)


def collector_of(
    campaign: Campaign,
    graph: Graph,
    credentials: Credentials,
    *,
    store: ReportStore,
    limits: Limits | None = None,
    clock: Callable[[], float] = time.time,
    maintenance_seconds: float = 60.0,
    **served: Any,
) -> Collector:
    """Make the collector of one campaign; the other arguments are those of `SharedParts` and `ServedCampaign`."""
    shared = SharedParts(store, limits=limits, clock=clock, maintenance_seconds=maintenance_seconds)
    files = ServedCampaign(campaign=campaign, graph=graph, credentials=credentials, **served)
    return Collector(CampaignApp(files, shared), shared)


@contextmanager
def collecting(collection: Collection, store: ReportStore) -> Iterator[httpx.Client]:
    """Serve a collector of the collection, without a rate limit; yield a client of it."""
    app = collector_of(
        campaign=collection.campaign,
        graph=collection.graph,
        store=store,
        credentials=collection.credentials,
        limits=Limits(requests_per_second=0),
    )
    with listening(app) as client:
        yield client


def wait_until(condition: Callable[[], bool], *, seconds: float = _TIMEOUT) -> None:
    """Wait until the condition is true."""
    ends = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > ends:
            raise TimeoutError(f"the condition was not true within {seconds:g} seconds")
        time.sleep(0.01)
