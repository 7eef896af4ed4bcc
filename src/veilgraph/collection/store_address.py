"""Where the reports of a collection are: in a file of its folder, or in a database that the environment names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_DATABASE = "DATABASE_URL"


@dataclass(frozen=True, kw_only=True)
class StoreAddress:
    """The address of the store of a collection.

    Args:
        file: file of the store, which the first `serve` makes.
        environment: variables of the process; `DATABASE_URL` names a database instead of the file.
    """

    file: Path
    environment: Mapping[str, str] | None = None

    @property
    def url(self) -> str:
        """URL of the store."""
        return self._database or f"sqlite:///{self.file}"

    @property
    def exists(self) -> bool:
        """Whether there is a store; a database that the environment names is taken to be one."""
        return self._database is not None or self.file.is_file()

    @property
    def process_environment(self) -> dict[str, str]:
        """Variables of another process that opens the store: it takes the same one, whatever this one inherited."""
        return {**os.environ, _DATABASE: self.url}

    @property
    def _database(self) -> str | None:
        return named_database(self.environment)


def named_database(environment: Mapping[str, str] | None = None) -> str | None:
    """Return the database that `DATABASE_URL` names, of the process by default; None if it is not set."""
    return (os.environ if environment is None else environment).get(_DATABASE) or None
