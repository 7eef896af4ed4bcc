"""`veilgraph serve`: run the collector of a campaign."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veilgraph.cli._common import needs_extra
from veilgraph.errors import RunError


def serve(
    campaign: Annotated[Path, typer.Option(help="The campaign, .json.")],
    graph: Annotated[Path, typer.Option(help="Edge table of the public graph that the campaign was made for.")],
    store: Annotated[
        str, typer.Option(help="Database of the reports: sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE.")
    ],
    keys_file: Annotated[Path, typer.Option(help="File of the keys of participants' tokens, one per line.")],
    admin_token_file: Annotated[Path, typer.Option(help="File with the admin token.")],
    nodes: Annotated[
        Path | None, typer.Option(help="Node table with a column 'id', if some nodes have no edge.")
    ] = None,
    joined: Annotated[
        Path | None, typer.Option(help="Node table with a column 'id': nodes that joined later, and may report too.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    trusted_proxy: Annotated[
        str | None, typer.Option(help="Address of the reverse proxy whose statement of a sender's address is trusted.")
    ] = None,
    plausible: Annotated[
        Path | None, typer.Option(help="Plausible class shares, .toml; others raise an alarm on the dashboard.")
    ] = None,
    rate: Annotated[float, typer.Option(help="Maximum requests per second of one address; 0 means no limit.")] = 50.0,
) -> None:
    """Collect reports over HTTP until stopped; every acknowledged report is on disk."""
    with needs_extra("collector"):
        from veilgraph.collector.app import make_app
        from veilgraph.collector.auth import Credentials
        from veilgraph.collector.middleware import Limits, max_report_bytes
        from veilgraph.collector.server import serve as serve_app
        from veilgraph.collector.store import ReportStore
    from veilgraph.campaign import Campaign
    from veilgraph.campaign.plausibility import PlausibleShares
    from veilgraph.campaign.tokens import read_keys
    from veilgraph.graph import Graph, read_ids

    loaded = Campaign.from_json(campaign.read_bytes())
    app = make_app(
        campaign=loaded,
        graph=Graph.from_files(graph, nodes=nodes),
        store=ReportStore.open(store),
        joined=[] if joined is None else [str(node) for node in read_ids(joined)],
        credentials=Credentials(keys=read_keys(keys_file), admin_token=_only_line(admin_token_file)),
        plausible=None if plausible is None else PlausibleShares.load(plausible, loaded),
        limits=Limits(report_bytes=max_report_bytes(loaded), requests_per_second=rate),
    )
    serve_app(app, host=host, port=port, trusted_proxy=trusted_proxy)


def _only_line(path: Path) -> str:
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if len(lines) != 1:
        raise RunError(f"{path} has {len(lines)} lines: it must hold the admin token and nothing else")
    return lines[0]
