"""The manifest of a folder of shards: the name, size and SHA-256 of each file, and the totals of all."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from veilgraph.errors import GraphError

MANIFEST = "manifest.json"
FORMAT = 1
KINDS = ("nodes", "edges", "reports", "public")
IDS = {"integer": "whole numbers", "text": "text"}
"""Types of the ids, with their names in errors."""

REMEDY = "copy the folder again, or write it again with veilgraph shard"
_FACTS = {"ids", "nodes", "edges", "reports", "public", "campaign", "graph"}


def shard_name(kind: str, shard: int) -> str:
    """Return the file name of a shard.

    >>> shard_name("edges", 7)
    'edges-00007.parquet'
    """
    return f"{kind}-{shard:05d}.parquet"


def read_manifest(path: Path) -> dict[str, Any]:
    """Read the manifest of a folder; refuse files that are missing, truncated or not described by it.

    The totals of the manifest must be the sums over its shards: every process lays out its arrays by them.
    """
    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
    except FileNotFoundError:
        raise GraphError(
            f"{path} has no {MANIFEST}: it is no folder of shards, or writing it was stopped; "
            "veilgraph shard writes one"
        ) from None
    except (OSError, ValueError) as error:
        raise GraphError(f"{path / MANIFEST} cannot be read ({type(error).__name__}): {REMEDY}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise GraphError(f"{path / MANIFEST} is of another format than {FORMAT}: {REMEDY}")
    _check_files(path, manifest)
    _check_totals(path, manifest)
    return manifest


def _check_files(path: Path, manifest: Mapping[str, Any]) -> None:
    """Compare names and sizes with the manifest, without reading the shards."""
    expected = dict(_expected_files(path, manifest))
    for name, size in expected.items():
        try:
            found = (path / name).stat().st_size
        except FileNotFoundError:
            raise GraphError(f"{path / name} is missing, which the manifest names: {REMEDY}") from None
        if found != size:
            state = "truncated" if found < size else "too long"
            raise GraphError(f"{path / name} is {state}: {found:,} bytes instead of {size:,}; {REMEDY}")
    for other in sorted(path.glob("*.parquet")):
        if other.name not in expected:
            raise GraphError(f"{other} is not in the manifest, a doubled or foreign shard: remove it")


def _check_totals(path: Path, manifest: Mapping[str, Any]) -> None:
    """Compare the totals of the manifest with the sums over its shards."""
    shards = manifest["shards"]
    whole = all(type(shard[kind].get("rows")) is int for shard in shards for kind in _kinds(manifest))
    if not (manifest.keys() >= _FACTS and manifest["ids"] in tuple(IDS) and shards and whole):
        raise GraphError(f"{path / MANIFEST} does not describe shards: {REMEDY}")
    for kind in _kinds(manifest):
        total, stated = sum(shard[kind]["rows"] for shard in shards), manifest["nodes" if kind == "public" else kind]
        if stated != total:
            raise GraphError(f"{path / MANIFEST} says {stated} {kind}, and its shards have {total} together: {REMEDY}")


def _kinds(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the kinds of files of a folder: graphs may have no reports, and people no public columns."""
    return tuple(kind for kind in KINDS if manifest[kind] is not None)


def _expected_files(path: Path, manifest: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    try:
        for shard, files in enumerate(manifest["shards"]):
            for kind in _kinds(manifest):
                yield shard_name(kind, shard), int(files[kind]["bytes"])
    except (KeyError, TypeError, ValueError):
        raise GraphError(f"{path / MANIFEST} does not describe shards: {REMEDY}") from None
