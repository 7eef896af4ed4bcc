"""The file of people that is published with a table: a hash table with short fingerprints of their ids.

A device finds its neighbours' rows of the belief table in it. It is published whole, as the table is, so nobody learns
whom a device looked up. It takes about 3 bytes for each person, however long the ids are.

An id belongs to a *bucket*, by the first 6 bytes of its SHA-256, and has a *fingerprint* there, 3 bytes of the rest.
After two lines of text, `veilgraph-people-1` and `{"people": n}`, the file has:

- b bytes, with b = ceil(n / 16): how many people are in each bucket.
- b bytes: which part of the hash, 0 to 7, the fingerprints of each bucket are.
- 3 n bytes: the fingerprints, bucket by bucket, ascending in each.

Row i of a table is about fingerprint i. No two people of a bucket have the same fingerprint: where they would have, all
of the bucket take the next part of their hashes. An id that is not there is taken for one that is with a chance of at
most 16 / 2^24, one in a million. Of two ids that share a row one counts, so no guarantee depends on that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from veilgraph.errors import CampaignError
from veilgraph.graph import Graph
from veilgraph.privacy.plain_text import look, look_alikes

_MAGIC = b"veilgraph-people-1\n"
_PER_BUCKET = 16
_MOST = 255
_PARTS = 8
_START, _WIDTH = 6, 3


@dataclass(frozen=True, eq=False)
class PeopleFile:
    """The people of a series in the order of their rows, and the file that says it.

    Both depend on the set of ids alone.

    Attributes:
        names: ids of all people; row i of every table is about the i-th.
        content: the file.

    >>> file = PeopleFile.of(["u1", "u2", "u10"])
    >>> file.names == PeopleFile.of(["u10", "u2", "u1"]).names, len(file.content), file_size(3)
    (True, 44, 44)
    """

    names: tuple[str, ...] = field(repr=False)
    content: bytes = field(repr=False)

    @classmethod
    def of(cls, names: Iterable[str]) -> PeopleFile:
        """Return the file of some people, in whatever order they are named."""
        known = tuple(names)
        # Few names differ from their look, so that most campaigns need no second set of names.
        if any(look(name) != name for name in known) and (alike := look_alikes(known)):
            raise CampaignError(
                f"the ids {alike[0]!a} and {alike[1]!a} look alike, so that a contact could be taken for another "
                "one: give one of them another id"
            )
        hashed = bytearray()
        for name in known:
            hashed += hashlib.sha256(name.encode()).digest()
        digests = np.frombuffer(hashed, dtype=np.uint8).reshape(-1, hashlib.sha256().digest_size)
        count = num_buckets(len(known))
        buckets = _number(digests[:, :_START]) % max(count, 1)
        sizes, parts = np.bincount(buckets, minlength=count), np.zeros(count, dtype=np.uint8)
        if sizes.max(initial=0) > _MOST:
            raise CampaignError(
                f"more than {_MOST} ids fall into one bucket, which does not happen by chance: give people other ids"
            )
        while True:
            prints = np.empty((len(known), _WIDTH), dtype=np.uint8)
            for part in np.unique(parts).tolist():
                rows, start = parts[buckets] == part, _START + _WIDTH * part
                prints[rows] = digests[rows, start : start + _WIDTH]
            keys = buckets << 8 * _WIDTH | _number(prints)
            order = np.argsort(keys)
            shared = keys[order][1:] == keys[order][:-1]
            if not shared.any():
                break
            parts[np.unique(buckets[order][1:][shared])] += 1
            if parts.max() >= _PARTS:
                raise CampaignError("two people have the same id: name each once")
        content = _head(len(known)) + sizes.astype(np.uint8).tobytes() + parts.tobytes()
        return cls(tuple(known[i] for i in order.tolist()), content + prints[order].tobytes())

    @property
    def sha256(self) -> str:
        """Hash of the file, which the document of a wave names."""
        return hashlib.sha256(self.content).hexdigest()


@lru_cache(maxsize=1)
def people_of(graph: Graph) -> PeopleFile:
    """Return the file of the people of a graph, which is kept for the next question about the same graph."""
    return PeopleFile.of(graph.names)


def people_file(names: Iterable[str]) -> bytes:
    """Return the published file of some people."""
    return PeopleFile.of(names).content


def num_buckets(people: int) -> int:
    """Return the number of buckets of a file: one for each 16 people."""
    return -(-people // _PER_BUCKET)


def file_size(people: int) -> int:
    """Return the bytes of the file of some people.

    >>> file_size(10_000_000)
    31250040
    """
    return len(_head(people)) + 2 * num_buckets(people) + _WIDTH * people


def _head(people: int) -> bytes:
    return _MAGIC + json.dumps({"people": people}).encode() + b"\n"


def _number(digits: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the numbers whose bytes are the rows, [people, bytes], the highest first."""
    number = np.zeros(len(digits), dtype=np.int64)
    for position in range(digits.shape[1]):
        number = number << 8 | digits[:, position]
    return number
