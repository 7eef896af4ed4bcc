"""`veilgraph serve`: collect the reports of one collection, or of several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilgraph.campaign.notice import time_in_words
from veilgraph.cli._common import echo, needs_extra
from veilgraph.cli.named_files import is_campaign_file
from veilgraph.cli.options import Settings, StoreOption, takes_groups
from veilgraph.collection import Collection
from veilgraph.errors import RunError
from veilgraph.privacy.plain_text import counted

if TYPE_CHECKING:
    from veilgraph.collector.campaign_files import CampaignFiles
    from veilgraph.collector.served_campaign import ServedCampaign

_REQUIRED = ("graph", "keys_file", "admin_token_file")


@dataclass(frozen=True, kw_only=True)
class _FileOptions:
    """The files of a campaign alone, and the store."""

    graph: Annotated[
        Path | None, typer.Option(help="With a campaign alone: public graph, edge table, .csv or .parquet.")
    ] = None
    nodes: Annotated[
        Path | None, typer.Option(help="With a campaign alone: node table with a column 'id', for nodes without edges.")
    ] = None
    keys_file: Annotated[
        Path | None, typer.Option(help="With a campaign alone: keys of participants' tokens, one per line.")
    ] = None
    admin_token_file: Annotated[
        Path | None, typer.Option(help="With a campaign alone: file with the owner's token.")
    ] = None
    store: StoreOption = None


@dataclass(frozen=True, kw_only=True)
class _AddressOptions:
    """Where the collector listens."""

    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000
    trusted_proxy: Annotated[
        str | None, typer.Option(help="Address of the reverse proxy whose statement of a sender's address is trusted.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class _Rare(Settings):
    """What few collections need."""

    rate: Annotated[float, typer.Option(help="Maximum requests per second of one address, 0 for no limit.")] = 50.0
    assess_every: Annotated[
        str | None, typer.Option(help="Compute 'is it enough yet?' for the dashboard this often, such as 6h.")
    ] = None
    assessment: Annotated[str | None, typer.Option(help="Campaign alone: file that 'status --out' writes.")] = None
    roles_file: Annotated[str | None, typer.Option(help="Campaign alone: tokens of other roles, .toml.")] = None
    joined: Annotated[str | None, typer.Option(help="Campaign alone: node table of people who joined later.")] = None
    plausible: Annotated[str | None, typer.Option(help="Campaign alone: plausible class shares, .toml.")] = None
    tables: Annotated[str | None, typer.Option(help="Campaign alone: folder of waves about private neighbours.")] = None
    contact_names: Annotated[
        str | None, typer.Option(help="Campaign alone: table of ids and names that all participants may read.")
    ] = None

    @property
    def files(self) -> dict[str, Any]:
        """What is said about files, by the names of `CampaignFiles`."""
        given = {name: value for name, value in asdict(self).items() if name != "rate" and value is not None}
        return {name: value if name == "assess_every" else Path(value) for name, value in given.items()}


@takes_groups
def serve(
    *,
    places: Annotated[
        list[Path],
        typer.Argument(
            help="Folder of a collection, or several, served at /c/NAME/; or a campaign alone, .json; or the files of "
            "several campaigns, .toml.",
            metavar="FOLDER...",
        ),
    ],
    named: _FileOptions,
    address: _AddressOptions,
    rare: _Rare,
    check: Annotated[
        bool, typer.Option("--check", help="Read and check all files, and end; the store is not opened.")
    ] = False,
) -> None:
    """Collect reports over HTTP until stopped; every acknowledged report is on disk."""
    with needs_extra("collector"):
        from veilgraph.collector.campaign_files import load_campaigns, make_collector, make_collector_of_several
        from veilgraph.collector.server import serve as serve_app

    served: Mapping[str, ServedCampaign]
    if len(places) == 1 and places[0].suffix != ".toml":
        files, store = _one(places[0], named, rare)
        one = files.load(store=store, is_check=check)
        served, app = {"": one}, None if check else make_collector(one, store=store, rate=rare.rate)
    else:
        campaigns, stores = _several(places, named, rare)
        served = load_campaigns(campaigns, places[0], stores=stores, is_check=check)
        app = None if check else make_collector_of_several(served, stores=stores, rate=rare.rate)
    if app is not None:
        serve_app(app, host=address.host, port=address.port, trusted_proxy=address.trusted_proxy)
        return
    for name, each in served.items():
        closes, place = time_in_words(each.campaign.notice.closes), f"/c/{name}/" if name else "/"
        echo(f"{place}: campaign {each.campaign.id}, {counted(each.campaign.nodes, 'node')}, open until {closes}.")
    echo("All files are in order.")


def _one(place: Path, named: _FileOptions, rare: _Rare) -> tuple[CampaignFiles, str]:
    """Return the files and the store of a folder, or of a campaign alone."""
    from veilgraph.collector.campaign_files import CampaignFiles

    if not is_campaign_file(place):
        return _of_folder(Collection.open(place), named, rare)
    given = {name: value for name, value in asdict(named).items() if value is not None}
    if missing := [name for name in (*_REQUIRED, "store") if name not in given]:
        raise RunError(
            f"a campaign alone needs more: give {', '.join(map(_option, missing))}, or the folder of the collection"
        )
    store = given.pop("store")
    return CampaignFiles(campaign=place, **given, **rare.files), store


def _of_folder(home: Collection, named: _FileOptions, rare: _Rare) -> tuple[CampaignFiles, str]:
    """Return the files and the store of a folder; files that the owner made there are taken as well."""
    from veilgraph.collector.campaign_files import CampaignFiles

    if twice := [name for name, value in asdict(named).items() if value is not None and name != "store"]:
        raise RunError(f"{home.folder} has this file: leave {_option(twice[0])} out")
    graph, nodes = home.graph_files
    files = CampaignFiles(
        campaign=home.campaign_file,
        graph=graph,
        nodes=nodes,
        keys_file=home.keys_file,
        admin_token_file=home.admin_token_file,
        **{"tables": home.waves, "assessment": home.optional.assessment} | home.optional.served | rare.files,
    )
    return files, named.store or home.store.url


def _several(
    places: list[Path], named: _FileOptions, rare: _Rare
) -> tuple[Mapping[str, CampaignFiles], Mapping[str, str]]:
    """Return the files and the stores of several folders, or of the campaigns in a file, by name."""
    from veilgraph.collector.campaign_files import check_name, read_campaigns

    if places[0].suffix == ".toml" and len(places) == 1:
        given = [name for name, value in asdict(named).items() if value is not None and name != "store"]
        if given := [*given, *rare.files]:
            raise RunError(f"{given[0]} is of one campaign: write it into its table in {places[0]}")
        campaigns = read_campaigns(places[0])
        if named.store is None:
            raise RunError(f"the store of the campaigns in {places[0]} is missing: give --store")
        return campaigns, dict.fromkeys(campaigns, named.store)
    folders = {check_name(place.resolve().name): Collection.open(place) for place in places}
    if len(folders) < len(places):
        raise RunError("two of these folders have one name, which is a part of their address: rename one")
    both = {name: _of_folder(home, named, rare) for name, home in folders.items()}
    return {name: files for name, (files, _) in both.items()}, {name: store for name, (_, store) in both.items()}


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
