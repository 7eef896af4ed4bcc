"""PostgreSQL for tests: a private cluster in a temporary folder, or a skip that says why."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest


def find_program(name: str, *, places: Sequence[str] = ()) -> Path | None:
    """Return a program on the path, or the newest one in the usual folders."""
    if found := shutil.which(name):
        return Path(found).resolve()
    candidates = [path for place in places for path in Path("/").glob(f"{place.lstrip('/')}/{name}")]
    return max(candidates, default=None)


class Postgres:
    """A PostgreSQL server of its own, which can be stopped and started again.

    PostgreSQL refuses to run as root; then it runs as `postgres` or `nobody`.
    """

    def __init__(self) -> None:
        initdb = find_program("initdb", places=["/usr/lib/postgresql/*/bin"])
        if initdb is None:
            pytest.skip("PostgreSQL is not installed (there is no initdb)")
        self._programs = initdb.parent
        self._folder = Path(tempfile.mkdtemp(prefix="veilgraph-pg-"))
        self._user = _unprivileged_user()
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self._run("initdb", "-D", f"{self._folder}/data", "-U", "tests", "-A", "trust", "--no-sync")
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://tests@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        options = f"-p {self.port} -k {self._folder} -c listen_addresses=127.0.0.1 -c max_connections=50"
        self._run("pg_ctl", "-D", f"{self._folder}/data", "-w", "-l", f"{self._folder}/log", "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        self._run("pg_ctl", "-D", f"{self._folder}/data", "-w", "-m", mode, "stop")

    def remove(self) -> None:
        self.stop("fast")
        shutil.rmtree(self._folder)

    def new_database(self, name: str, *, encoding: str = "UTF8") -> str:
        """Create an empty database; return its URL."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            options = f"TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'"
            connection.execute(f'CREATE DATABASE "{name}" {options}'.encode())
        return self.url.removesuffix("postgres") + name

    def _run(self, program: str, *arguments: str) -> None:
        finished = subprocess.run(
            [str(self._programs / program), *arguments],
            user=self._user,
            cwd=self._folder,
            stdout=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT if program == "initdb" else subprocess.DEVNULL,
            check=False,
        )
        assert finished.returncode == 0, f"{program} failed: {finished.stdout!r}"


def _unprivileged_user() -> str | None:
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in names)
