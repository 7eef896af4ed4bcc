"""How commands name the files of a collection: by its folder, or one by one. The options mean the same everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from veilgraph.campaign import Campaign
from veilgraph.cli._common import needs_extra
from veilgraph.cli.options import StoreOption
from veilgraph.collection import Collection
from veilgraph.collection.open_document import OpenDocument
from veilgraph.errors import RunError

if TYPE_CHECKING:
    from veilgraph.collector.store import ReportStore


@dataclass(frozen=True, kw_only=True)
class GraphFiles:
    """People, links and reports.

    Attributes:
        graph: edge table of the public graph, or folder of shards.
        nodes: node table; None if every node has an edge.
        store: URL of the store of the reports; None if there is none.
    """

    graph: Path
    nodes: Path | None
    store: str | None


@dataclass(frozen=True, kw_only=True)
class CollectionFiles(GraphFiles):
    """People, links, reports and the campaign.

    Attributes:
        campaign: the campaign.
    """

    campaign: Path


@dataclass(frozen=True, kw_only=True)
class GraphOptions:
    """The folder of a collection, or its campaign alone with people, links and reports."""

    folder: Annotated[
        Path | None,
        typer.Argument(
            help="Folder of the collection; or its campaign alone, .json, and the files below.",
            metavar="FOLDER",
            show_default=False,
        ),
    ] = None
    graph: Annotated[
        Path | None,
        typer.Option(
            help="Without FOLDER, or newer for 'predict': edge table of the public graph, .csv or .parquet, or folder "
            "of shards."
        ),
    ] = None
    nodes: Annotated[
        Path | None,
        typer.Option(
            help="Without FOLDER, or newer for 'predict': node table with a column 'id', if some nodes have no edge."
        ),
    ] = None
    store: StoreOption = None

    @property
    def collection(self) -> Collection | None:
        """The collection in the folder; None if the files are named."""
        return None if self.folder is None or is_campaign_file(self.folder) else Collection.open(self.folder)

    @property
    def campaign(self) -> Path | None:
        """The campaign, of the folder or alone; None if there is neither."""
        home = self.collection
        return self.folder if home is None else home.campaign_file

    def graph_files(self, *, newer: bool = False) -> GraphFiles:
        """Return people, links and reports; refuse files that are named twice or not at all.

        Args:
            newer: whether named tables may take the place of the folder's, such as those with people who joined later.
        """
        home = self.collection
        if home is None:
            if self.graph is None:
                raise RunError(
                    "the people and links are missing: give FOLDER, which 'veilgraph init' makes, or --graph"
                )
            return GraphFiles(graph=self.graph, nodes=self.nodes, store=self.store)
        for name in ("graph", "nodes"):
            if getattr(self, name) is not None and not newer:
                raise RunError(f"{self.folder} has this file: leave --{name} out")
        graph, nodes = home.graph_files
        return GraphFiles(graph=self.graph or graph, nodes=self.nodes or nodes, store=self.store or home.store.url)

    def files(self) -> CollectionFiles:
        """Return all files; refuse those that are named twice or not at all."""
        if self.campaign is None:
            raise RunError("FOLDER is missing, which 'veilgraph init' makes: give it, or a campaign, .json")
        files = self.graph_files()
        return CollectionFiles(campaign=self.campaign, graph=files.graph, nodes=files.nodes, store=files.store)


@dataclass(frozen=True)
class Place:
    """The folder of a collection, or its campaign alone.

    Attributes:
        document: the document that is open now.
        home: the collection in the folder; None if the campaign alone was given.
    """

    document: OpenDocument
    home: Collection | None

    @classmethod
    def at(cls, path: Path) -> Place:
        """Open a folder, or a campaign."""
        if is_campaign_file(path):
            return cls(OpenDocument.read(path), None)
        home = Collection.open(path)
        return cls(home.document, home)

    @property
    def campaign(self) -> Campaign:
        """The document that is open now."""
        return self.document.campaign

    @property
    def zone(self) -> str:
        """Time zone of times without an offset."""
        return "UTC" if self.home is None else str(self.home.settings.get("zone", "UTC"))

    def revise(self, **changes: Any) -> OpenDocument:
        """Write the next version of the notice, and a new closing time into what the owner edits."""
        return self.document.revise(notice_file=None if self.home is None else self.home.notice_file, **changes)

    def store(self, named: str | None) -> str:
        """Return the URL of the store: the named one, or that of the folder."""
        if named is None and self.home is None:
            raise RunError("the store of the reports is missing: give --store, or the folder of the collection")
        return named or cast(Collection, self.home).store.url


def is_campaign_file(path: Path) -> bool:
    """Return whether a path names a campaign alone, and no folder; it need not exist."""
    return path.is_file() or (path.suffix == ".json" and not path.is_dir())


def administered(url: str) -> ReportStore:
    """Open a store that a collector made, to withdraw, purge, or read its audit log."""
    with needs_extra("collector"):
        from veilgraph.collector.store import ReportStore

    return ReportStore.administer(url)
