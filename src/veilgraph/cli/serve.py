"""`veilgraph serve`: collect the reports of one campaign, or of several."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilgraph.campaign.notice import time_in_words
from veilgraph.cli._common import echo, needs_extra
from veilgraph.cli.named_files import CollectionOptions
from veilgraph.cli.options import takes_groups
from veilgraph.errors import RunError
from veilgraph.privacy.plain_text import counted

if TYPE_CHECKING:
    from veilgraph.collector.served_campaign import ServedCampaign

_REQUIRED = ("campaign", "graph", "keys_file", "admin_token_file")


@dataclass(frozen=True, kw_only=True)
class _SecretOptions:
    """Secrets of one campaign."""

    keys_file: Annotated[
        Path | None, typer.Option(help="Without FOLDER: keys of participants' tokens, one per line.")
    ] = None
    admin_token_file: Annotated[Path | None, typer.Option(help="Without FOLDER: file with the admin token.")] = None


@dataclass(frozen=True, kw_only=True)
class _PeopleOptions:
    """Who else may come in: other roles, and people who joined later."""

    roles_file: Annotated[
        Path | None,
        typer.Option(
            help="Tokens of viewer, auditor and scraper, .toml; none of them can export.", envvar="VEILGRAPH_ROLES"
        ),
    ] = None
    joined: Annotated[
        Path | None, typer.Option(help="Node table with a column 'id': nodes that joined later, and may report too.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class _AddressOptions:
    """Where the collector listens."""

    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000
    trusted_proxy: Annotated[
        str | None, typer.Option(help="Address of the reverse proxy whose statement of a sender's address is trusted.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class _ShownOptions:
    """What the dashboard shows, and the folder of a series."""

    plausible: Annotated[
        Path | None, typer.Option(help="Plausible class shares, .toml; others raise an alarm on the dashboard.")
    ] = None
    assessment: Annotated[
        Path | None, typer.Option(help="File that 'campaign progress --out' writes; the dashboard shows it.")
    ] = None
    assess_every: Annotated[
        str | None, typer.Option(help="Run 'campaign progress' this often, such as 6h, and write --assessment.")
    ] = None
    tables: Annotated[
        Path | None,
        typer.Option(
            help="Private neighbours: folder of the published waves. Its newest wave is served, and later ones are "
            "taken up without a restart."
        ),
    ] = None


@takes_groups
def serve(
    *,
    collection: CollectionOptions,
    secret: _SecretOptions,
    campaigns: Annotated[
        Path | None,
        typer.Option(
            help="Several campaigns, .toml: a table [NAME] for each, with the options of one; served at /c/NAME/."
        ),
    ] = None,
    people: _PeopleOptions,
    address: _AddressOptions,
    shown: _ShownOptions,
    rate: Annotated[float, typer.Option(help="Maximum requests per second of one address; 0 means no limit.")] = 50.0,
    check: Annotated[
        bool, typer.Option("--check", help="Read and check all files, and end; the store is not opened.")
    ] = False,
) -> None:
    """Collect reports over HTTP until stopped; every acknowledged report is on disk."""
    with needs_extra("collector"):
        from veilgraph.collector.campaign_files import make_collector
        from veilgraph.collector.server import serve as serve_app

    files = _files_of(collection, secret, campaigns)
    store = files.pop("store", None)
    if store is None:
        raise RunError("the store is missing: give FOLDER, the folder of a collection, or --store")
    given = {name: value for name, value in (asdict(people) | asdict(shown)).items() if value is not None}
    given = {name: value for name, value in files.items() if value is not None} | given
    served = _read(given, campaigns, store, is_check=check)
    if not check:
        app = make_collector(served, store=store, rate=rate)
        serve_app(app, host=address.host, port=address.port, trusted_proxy=address.trusted_proxy)
        return
    places = {f"/c/{name}/": each for name, each in served.items()} if isinstance(served, dict) else {"/": served}
    for place, each in places.items():
        closes = time_in_words(each.campaign.notice.closes)
        echo(f"{place}: campaign {each.campaign.id}, {counted(each.campaign.nodes, 'node')}, open until {closes}.")
    echo("All files are in order.")


def _files_of(collection: CollectionOptions, secret: _SecretOptions, campaigns: Path | None) -> dict[str, Any]:
    """Return the files of one campaign and the store, by the names of their options."""
    home, named = collection.collection, asdict(secret)
    if home is None:
        return {name: value for name, value in (asdict(collection) | named).items() if name != "folder"}
    if campaigns is not None:
        raise RunError(f"{home.folder} is one collection: leave --campaigns out")
    if twice := [name for name, path in named.items() if path is not None]:
        raise RunError(f"{home.folder} has this file: leave {_option(twice[0])} out")
    return asdict(collection.files()) | {
        "keys_file": home.keys_file,
        "admin_token_file": home.admin_token_file,
        "tables": home.waves,
    }


def _read(
    given: dict[str, Any], campaigns: Path | None, store: str, *, is_check: bool
) -> ServedCampaign | dict[str, ServedCampaign]:
    """Read the files of one campaign, or of several that a table names."""
    from veilgraph.collector.campaign_files import CampaignFiles, load_campaigns

    if campaigns is None:
        if missing := [name for name in _REQUIRED if name not in given]:
            raise RunError(
                f"{_option(missing[0])} is missing: give {', '.join(map(_option, _REQUIRED))} for one campaign, "
                "or --campaigns for several"
            )
        return CampaignFiles(**given).load(store=store, is_check=is_check)
    if given:
        raise RunError(f"{_option(next(iter(given)))} is of one campaign: write it into its table in {campaigns}")
    return load_campaigns(campaigns, store=store, is_check=is_check)


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
