"""How commands name the files of a collection: by its folder, or one by one. The options mean the same everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from veilgraph.collection import Collection
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
        return GraphFiles(graph=graph, nodes=nodes, store=self.store or collection.store)

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
