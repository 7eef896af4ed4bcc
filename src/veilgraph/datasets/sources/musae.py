"""MUSAE networks (Facebook pages, Twitch streamers), stored as text files.

| part | content |
|---|---|
| `edges` | CSV with a header: the two nodes of each edge |
| `features` | JSON: from the number of a node to the numbers of its features, with duplicates |
| `target` | CSV with a header: the number of a node, and its label under one of several names |
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from veilgraph.datasets.archive import Archive

_PAGE_TYPES = ("company", "tvshow", "politician", "government")
_FACEBOOK_COLUMNS = 4714
_TWITCH_COLUMNS = 3170  # shared by all languages, so some columns are empty in each of them

# Old and new files name the label differently.
_LABELS: Mapping[str, Callable[[str], int]] = {
    "target": int,
    "page_type": _PAGE_TYPES.index,
    "mature": ("False", "True").index,
}


def convert_facebook(name: str, files: Mapping[str, bytes]) -> Archive:
    """Convert Facebook: pages that like each other, words of their descriptions, and the type of page."""
    return _convert(name, files, width=_FACEBOOK_COLUMNS, class_names=_PAGE_TYPES)


def convert_twitch(name: str, files: Mapping[str, bytes]) -> Archive:
    """Convert Twitch: streamers who follow each other, the games they like, and whether they use explicit language."""
    return _convert(name, files, width=_TWITCH_COLUMNS)


def _convert(name: str, files: Mapping[str, bytes], *, width: int, class_names: Sequence[str] = ()) -> Archive:
    _, *edges = csv.reader(_lines(files["edges"]))
    listed = json.loads(files["features"])
    ones = [(int(node), feature) for node, features in listed.items() for feature in features]
    rows, columns = np.array(ones, dtype=np.int64).T
    return Archive.from_parts(
        name=name,
        edges=np.array(edges, dtype=np.int64).T,
        labels=_labels(csv.DictReader(_lines(files["target"]))),
        rows=rows,
        columns=columns,
        width=width,
        class_names=class_names,
    )


def _labels(records: Iterable[dict[str, Any]]) -> NDArray[np.int64]:
    """Return the labels sorted by node number; every number from 0 must have one."""
    label_of: dict[int, int] = {}
    for record in records:
        key = next(key for key in _LABELS if key in record)
        label_of[int(record["new_id" if "new_id" in record else "id"])] = _LABELS[key](record[key])
    return np.array([label_of[node] for node in range(len(label_of))], dtype=np.int64)


def _lines(content: bytes) -> list[str]:
    return content.decode("utf-8").splitlines()
