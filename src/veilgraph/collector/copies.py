"""Copies of a store: taken while a collector runs, and put in its place after the store was lost."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path

from sqlalchemy.engine import URL

from veilgraph.atomic_files import make_private_file
from veilgraph.collector.database import Database, parse_url
from veilgraph.errors import StoreError

_JOURNALS = ("", "-wal", "-shm")


def copy_store(url: str, folder: Path) -> Path:
    """Copy the store at `url` into a folder while others write it, and return the copy.

    SQLite is copied with what is in its write-ahead log, as `reports.db`; PostgreSQL by `pg_dump`, as `reports.dump`.
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        copy = folder / "reports.db"
        make_private_file(copy)
        with closing(sqlite3.connect(f"file:{parsed.database}?mode=ro", uri=True)) as store:
            store.execute("VACUUM INTO ?", (str(copy),))
        return copy
    copy = folder / "reports.dump"
    make_private_file(copy)
    _run("pg_dump", parsed, "--format=custom", "--no-owner", f"--file={copy}")
    return copy


def copy_in(folder: Path) -> Path:
    """Return the copy of a store in a folder."""
    for name in ("reports.db", "reports.dump"):
        if (copy := folder / name).is_file():
            return copy
    raise StoreError(f"{folder} has no copy of a store: give a folder that 'veilgraph backup' wrote")


def restore_store(copy: Path, url: str, *, now: datetime) -> Path | None:
    """Put a copy in the place of a store that no collector uses; return the folder to which a file was moved.

    A file of SQLite is moved away with its write-ahead log, which would be applied to the copy. A database of
    PostgreSQL must be empty.

    Args:
        copy: what `copy_store` wrote.
        url: the store.
        now: time that names the folder of what was there.
    """
    parsed = parse_url(url)
    if (parsed.get_backend_name() == "sqlite") != (copy.suffix == ".db"):
        raise StoreError(f"{copy} is a copy of another kind of store: name one of its kind")
    if copy.suffix == ".dump":
        _check_empty(url)
        _run("pg_restore", parsed, "--exit-on-error", "--single-transaction", "--no-owner", str(copy))
        return None
    store = Path(str(parsed.database))
    lost = _move_away(store, store.parent / f"lost-{now:%Y-%m-%dT%H-%M-%SZ}")
    part = store.with_name(f".{store.name}.part")
    part.unlink(missing_ok=True)
    make_private_file(part)
    shutil.copyfile(copy, part)
    part.replace(store)
    return lost


def _move_away(store: Path, folder: Path) -> Path | None:
    """Move the files of a SQLite store that no process uses into a folder; None if there are none."""
    there = [path for suffix in _JOURNALS if (path := Path(f"{store}{suffix}")).exists()]
    if not there:
        return None
    if store.exists():
        with closing(sqlite3.connect(store, timeout=0, isolation_level=None)) as connection:
            try:
                connection.execute("PRAGMA locking_mode=EXCLUSIVE")
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError:
                raise StoreError(f"{store} is in use: stop the collector first") from None
            except sqlite3.DatabaseError:
                pass  # it is damaged, which is why a copy is restored
    folder.mkdir(mode=0o700)
    for path in there:
        if path.exists():  # closing the last connection removes the journals
            path.replace(folder / path.name)
    return folder


def _check_empty(url: str) -> None:
    """Refuse a database that has tables of a collector."""
    database = Database.connect(url)
    try:
        if database.has_tables:
            raise StoreError("the database is not empty: create it again, and restore into the new one")
    finally:
        database.close()


def _run(program: str, url: URL, *arguments: str) -> None:
    """Run a program of PostgreSQL; the password is in its environment and not in the list of processes."""
    found = shutil.which(program)
    if found is None:
        raise StoreError(f"{program} is missing: install the client programs of PostgreSQL")
    environment: Mapping[str, str] = {**os.environ} | ({"PGPASSWORD": url.password} if url.password else {})
    address = url.set(drivername="postgresql", password=None).render_as_string()
    finished = subprocess.run(  # noqa: S603 (a program of PostgreSQL, whose values are one argument each)
        [found, *arguments[:-1], f"--dbname={address}", arguments[-1]],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    if finished.returncode:
        lines = finished.stderr.decode("utf-8", "replace").strip().splitlines()
        raise StoreError(f"{program} failed: {lines[0] if lines else 'it says nothing'}")
