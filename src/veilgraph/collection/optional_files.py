"""Files of a collection that are there only if somebody made them; commands on the folder take them up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from veilgraph.graph import read_ids


@dataclass(frozen=True)
class OptionalFiles:
    """Optional files in the folder of a collection.

    Args:
        folder: the folder.
    """

    folder: Path

    @property
    def roles(self) -> Path:
        """Secret tokens of viewer, auditor and scraper, which `veilgraph rotate-token` makes."""
        return self.folder / "roles.toml"

    @property
    def joined(self) -> Path:
        """Table of people who joined later and may report too, with a column `id`; the owner makes it."""
        return self.folder / "joined.csv"

    @property
    def contact_names(self) -> Path:
        """Table with the columns `id` and `name`: participants choose contacts by name; the owner makes it."""
        return self.folder / "contact-names.csv"

    @property
    def plausible(self) -> Path:
        """Class shares that the owner declared plausible."""
        return self.folder / "plausible.toml"

    @property
    def assessment(self) -> Path:
        """How accurate a model on the reports so far is, which `veilgraph status` writes and the dashboard shows."""
        return self.folder / "assessment.json"

    @property
    def served(self) -> dict[str, Path]:
        """Those of the files that a collector reads, by its options."""
        files = {
            "roles_file": self.roles,
            "joined": self.joined,
            "plausible": self.plausible,
            "contact_names": self.contact_names,
        }
        return {option: path for option, path in files.items() if path.is_file()}

    @property
    def names_joined(self) -> tuple[str, ...]:
        """Ids of people who joined later."""
        return tuple(read_ids(self.joined)) if self.joined.is_file() else ()
