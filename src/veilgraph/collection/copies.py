"""Copies of a collection: its files and its store at one time, and a list of withdrawals that is newer than any copy.

A report that was withdrawn after a copy was made would return with it. So the list is kept beside the copies, grows
with every call, and is applied when a copy is restored.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from veilgraph.atomic_files import make_private_folder
from veilgraph.campaign import Campaign
from veilgraph.collector.copies import copy_in, copy_store, restore_store
from veilgraph.collector.database import Database
from veilgraph.collector.store import ReportStore
from veilgraph.collector.withdrawal_list import add_to_list, read_list, remove_from_list
from veilgraph.errors import RunError, StoreError

_LIST = "withdrawals.csv"
_CAMPAIGN = "campaign.json"
_STAMP = "%Y-%m-%dT%H-%M-%SZ"
_NOT_COPIED = ("reports.db*", "models", "invitations", "review", "lost-*", ".*")


@dataclass(frozen=True, kw_only=True)
class Copied:
    """What a backup wrote.

    Attributes:
        copy: folder of the copy; None if the list alone was written.
        list_file: the list of withdrawals.
        withdrawals: number of people who withdrew or objected.
        added: number of names that are new in the list.
        removed: number of names that a purge took off the list; None if there was no purge.
    """

    copy: Path | None
    list_file: Path
    withdrawals: int
    added: int
    removed: int | None


@dataclass(frozen=True, kw_only=True)
class Restored:
    """What a restoration did.

    Attributes:
        copy: folder of the copy.
        moved: folder with what was there before; None if nothing was.
        reports: number of stored reports of the campaign.
        listed: number of people of the campaign in the list of withdrawals.
        withdrawn: number of those who were withdrawn again.
        unknown_after: time after which nobody knows who withdrew, or "the copy" if it has no list; None if the store
            that was there says it.
    """

    copy: Path
    moved: Path | None
    reports: int
    listed: int
    withdrawn: int
    unknown_after: str | None


def back_up(place: Path, campaign: Campaign, url: str, into: Path, *, now: datetime, list_only: bool) -> Copied:
    """Copy a collection, and add who withdrew to the list beside its copies.

    Args:
        place: folder of the collection, or its campaign file alone.
        campaign: its campaign.
        url: its store.
        into: folder of all copies.
        now: time that names the copy.
        list_only: whether nothing but the list is written.
    """
    list_file = into / _LIST
    make_private_folder(into)
    _remove_old_drafts(into, now)
    with closing(ReportStore.administer(url)) as store:
        nodes = store.withdrawals.nodes(campaign.series)
        is_purged = store.purges.hour(campaign.series) is not None
        removed = remove_from_list(list_file, campaign.series) if is_purged else None
        added = 0 if is_purged else _list(list_file, campaign.series, nodes, now=now)
        acts = {"list withdrawals": {"added": added}} if added else {}
        if not list_only:
            acts["backup"] = {"reports": store.reports.count(campaign.series)}
        for act, detail in acts.items():
            store.audit_log.record(act, {"campaign": campaign.series, **detail}, now=now.timestamp(), actor="owner")
    copy = None if list_only else _copy(place, url, into / now.strftime(_STAMP))
    return Copied(copy=copy, list_file=list_file, withdrawals=len(nodes), added=added, removed=removed)


def newest_copy(given: Path) -> Path:
    """Return the copy in a folder that `back_up` wrote, or the newest of several in it."""
    copies = [path.parent for path in (given / _CAMPAIGN, *sorted(given.glob(f"[!.]*/{_CAMPAIGN}"))) if path.is_file()]
    if not copies or not given.is_dir():
        raise RunError(f"{given} has no backup: give a folder that 'veilgraph backup' wrote")
    newest = given if copies[0] == given else copies[-1]
    copy_in(newest)  # refused before any file is put back
    return newest


def restore_files(copy: Path, folder: Path) -> None:
    """Put back the files of a collection whose folder is lost, whole or not at all; those that are there stay."""
    if not folder.exists():
        draft = _draft_of(folder)
        try:
            shutil.copytree(copy, draft, ignore=shutil.ignore_patterns("reports.*"))
            draft.rename(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def restore(copy: Path, campaign: Campaign, url: str, *, now: datetime) -> Restored:
    """Put a copy in the place of a lost store, and withdraw again who withdrew since the copy was made.

    Who withdrew according to the store that is there is in the list before that store is moved away.

    Args:
        copy: what `newest_copy` returns.
        campaign: the campaign, which must be that of the copy.
        url: the store, which no collector uses.
        now: time that names the folder of what was there.
    """
    if Campaign.from_json((copy / _CAMPAIGN).read_bytes()).series != campaign.series:
        raise RunError(f"{copy} is a backup of another collection: give one of this collection")
    list_file = copy.parent / _LIST
    present = _withdrawn_at(url, campaign)
    if present is not None:
        _list(list_file, campaign.series, present, now=now)
    is_listed = list_file.exists()
    until = (
        f"{datetime.fromtimestamp(list_file.stat().st_mtime, UTC):%Y-%m-%d %H:%M:%S} UTC" if is_listed else "the copy"
    )
    listed = read_list(list_file, campaign.series) if is_listed else set()
    moved = restore_store(copy_in(copy), url, now=now)
    with closing(ReportStore.open(url)) as store:
        again = withdraw_all(store, campaign, listed)
        reports = store.reports.count(campaign.series)
    unknown_after = until if present is None else None
    return Restored(
        copy=copy, moved=moved, reports=reports, listed=len(listed), withdrawn=again, unknown_after=unknown_after
    )


def withdraw_all(store: ReportStore, campaign: Campaign, nodes: Iterable[str]) -> int:
    """Withdraw all nodes that the store does not know as withdrawn, and return how many these are."""
    again = sorted(set(nodes) - store.withdrawals.nodes(campaign.series))
    for node in again:
        store.withdrawals.withdraw(campaign.series, node, now=time.time(), actor="owner")
    return len(again)


def _withdrawn_at(url: str, campaign: Campaign) -> set[str] | None:
    """Return who withdrew according to the store that is there; None if there is none, or it cannot be read."""
    try:
        with closing(ReportStore(Database.connect(url))) as store:
            is_purged = store.purges.hour(campaign.series) is not None
            nodes = store.withdrawals.nodes(campaign.series)
    except StoreError:
        return None
    if is_purged:
        raise RunError("the reports of this collection were deleted for good: nothing is restored; delete its copies")
    return nodes


def _list(list_file: Path, campaign_id: str, nodes: set[str], *, now: datetime) -> int:
    """Add nodes to the list, whose time becomes that of this look at the store; return how many are new."""
    added = add_to_list(list_file, campaign_id, nodes)
    os.utime(list_file, (now.timestamp(), now.timestamp()))
    return added


def _copy(place: Path, url: str, copy: Path) -> Path:
    """Write a copy, whole or not at all."""
    if copy.exists():
        raise RunError(f"{copy} exists: wait a second, and run the command again")
    draft = _draft_of(copy)
    try:
        make_private_folder(draft)
        if place.is_dir():
            shutil.copytree(place, draft, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*_NOT_COPIED))
        else:
            shutil.copy2(place, draft / _CAMPAIGN)
        copy_store(url, draft)
        for path in draft.rglob("*"):
            path.chmod(0o700 if path.is_dir() else 0o600)
        draft.rename(copy)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return copy


def _remove_old_drafts(into: Path, now: datetime) -> None:
    """Remove what backups that were killed a day ago or earlier left: reports, names and keys."""
    for draft in into.glob(".*Z.*.part"):
        if draft.name < f".{(now - timedelta(days=1)).strftime(_STAMP)}":
            shutil.rmtree(draft)


def _draft_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
