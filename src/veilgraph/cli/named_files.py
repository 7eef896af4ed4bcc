"""How commands name the files of a collection: by its folder, or one by one. The options mean the same everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from veilgraph.campaign import Campaign
from veilgraph.collection import Collection
from veilgraph.collection.open_document import OpenDocument
from veilgraph.errors import RunError


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
    """The folder of a collection, or its people, links and reports."""

    folder: Annotated[
        Path | None,
        typer.Argument(help="Folder of the collection; or name its files.", metavar="FOLDER", show_default=False),
    ] = None
    graph: Annotated[
        Path | None,
        typer.Option(help="Without FOLDER: edge table of the public graph, .csv or .parquet, or folder of shards."),
    ] = None
    nodes: Annotated[
        Path | None, typer.Option(help="Without FOLDER: node table with a column 'id', if some nodes have no edge.")
    ] = None
    store: Annotated[
        str | None,
        typer.Option(
            help="Database of the reports, sqlite:///FILE or postgresql://...; "
            "in FOLDER, default: DATABASE_URL or a file."
        ),
    ] = None

    @property
    def collection(self) -> Collection | None:
        """The collection in the folder; None if the files are named."""
        return None if self.folder is None else Collection.open(self.folder)

    def graph_files(self) -> GraphFiles:
        """Return the files; refuse those that are named twice or not at all."""
        if self.folder is None:
            return GraphFiles(graph=self._named("graph"), nodes=self.nodes, store=self.store)
        collection = Collection.open(self.folder)
        self._refuse_named("graph", "nodes")
        graph, nodes = collection.graph_files
        return GraphFiles(graph=graph, nodes=nodes, store=self.store or collection.store.url)

    def _named(self, name: str) -> Path:
        path = getattr(self, name)
        if not isinstance(path, Path):
            raise RunError(f"FOLDER is missing, which 'veilgraph init' makes: give it, or name its files: --{name}")
        return path

    def _refuse_named(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) is not None:
                raise RunError(f"{self.folder} has this file: leave --{name} out")


@dataclass(frozen=True, kw_only=True)
class CollectionOptions(GraphOptions):
    """The folder of a collection, or its campaign, people, links and reports."""

    campaign: Annotated[Path | None, typer.Option(help="Without FOLDER: the campaign, .json.")] = None

    def files(self) -> CollectionFiles:
        """Return the files; refuse those that are named twice or not at all."""
        campaign = self._named("campaign") if self.folder is None else Collection.open(self.folder).campaign_file
        if self.folder is not None:
            self._refuse_named("campaign")
        files = self.graph_files()
        return CollectionFiles(campaign=campaign, graph=files.graph, nodes=files.nodes, store=files.store)


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
        if path.is_file():
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
