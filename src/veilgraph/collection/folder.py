"""The folder of a collection: where its files are, and what they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from veilgraph.campaign import Campaign
from veilgraph.campaign.assemble import check_graph
from veilgraph.collection.models import Models
from veilgraph.collection.open_document import OpenDocument
from veilgraph.collection.optional_files import OptionalFiles
from veilgraph.collection.settings import read_settings
from veilgraph.collection.store_address import StoreAddress
from veilgraph.errors import RunError
from veilgraph.graph import Graph
from veilgraph.graph.shards import read_graph

CAMPAIGN = "campaign.json"
_TABLES = (".csv", ".parquet")


@dataclass(frozen=True)
class Collection:
    """A collection in a folder.

    Args:
        folder: the folder.
        environment: variables of the process; `DATABASE_URL` names a database instead of a file in the folder.
    """

    folder: Path
    environment: Mapping[str, str] | None = None

    @classmethod
    def open(cls, folder: Path) -> Collection:
        """Return the collection in a folder; refuse a folder that has none."""
        if not (folder / CAMPAIGN).is_file():
            raise RunError(f"{folder} is no collection: 'veilgraph init {folder}' begins one")
        return cls(folder)

    @property
    def campaign_file(self) -> Path:
        """The public campaign document."""
        return self.folder / CAMPAIGN

    @property
    def schema_file(self) -> Path:
        """The declared questions and answers."""
        return self.folder / "schema.toml"

    @property
    def notice_file(self) -> Path:
        """What people are told, in each language; the owner edits it."""
        return self.folder / "notice.toml"

    @property
    def settings_file(self) -> Path:
        """What the owner decided when the collection began, and how it is served."""
        return self.folder / "settings.toml"

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """What the owner decided when the collection began."""
        return read_settings(self.settings_file) if self.settings_file.is_file() else {}

    @property
    def waves(self) -> Path | None:
        """Folder of published waves about private neighbours; None if people are asked about no neighbours."""
        return self.folder / "waves" if self.ids_file.is_file() else None

    @property
    def keys_file(self) -> Path:
        """Secret keys, which sign the links of participants and the receipts."""
        return self.folder / "keys.txt"

    @property
    def admin_token_file(self) -> Path:
        """Secret token of the owner, for the dashboard."""
        return self.folder / "admin-token.txt"

    @property
    def people_file(self) -> Path:
        """Table of the people, with a column `id`."""
        return self._table("people")

    @property
    def ids_file(self) -> Path:
        """Table of the people with the column `id` alone, if they keep their contacts to themselves."""
        return self.folder / "ids.csv"

    @property
    def links_file(self) -> Path | None:
        """Edge table of the links; None if people keep their contacts to themselves."""
        return None if self.ids_file.is_file() else self._table("links")

    def _table(self, name: str) -> Path:
        for suffix in _TABLES:
            if (path := self.folder / f"{name}{suffix}").is_file():
                return path
        raise RunError(f"{self.folder / name}.csv is missing: put back the table that the collection was begun with")

    @property
    def graph_files(self) -> tuple[Path, Path | None]:
        """Edge table and node table, as all commands take them; without links, the ids of the people alone."""
        links = self.links_file
        return (self.ids_file, None) if links is None else (links, self.people_file)

    @property
    def store(self) -> StoreAddress:
        """Where the reports are."""
        return StoreAddress(file=self.folder / "reports.db", environment=self.environment)

    @property
    def models(self) -> Models:
        """The models that were trained on the reports."""
        return Models(self.folder / "models")

    @property
    def optional(self) -> OptionalFiles:
        """Files that are there only if somebody made them."""
        return OptionalFiles(self.folder)

    @cached_property
    def document(self) -> OpenDocument:
        """The document that is open now: the campaign, or the newest wave about neighbours after it."""
        return OpenDocument.read(self.campaign_file, waves=self.waves)

    @property
    def campaign(self) -> Campaign:
        """The document that is open now, checked."""
        return self.document.campaign

    @cached_property
    def graph(self) -> Graph:
        """People and links, as the campaign was made for."""
        links, people = self.graph_files
        return check_graph(self.campaign, read_graph(links, nodes=people))
