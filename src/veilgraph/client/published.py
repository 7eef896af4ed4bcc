"""Files that are published for a wave about neighbours. They are checked whole, before anybody is looked up."""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import NamedTuple

from veilgraph.client.lists import belief, count_beliefs, finest_scale
from veilgraph.client.refusals import CampaignError
from veilgraph.client.words import Codes

_TABLE_MAGIC = b"veilgraph-beliefs-1\n"
_PEOPLE_MAGIC = b"veilgraph-people-1\n"
_PER_BUCKET = 16
_PARTS_OF_HASH = 8


class People(NamedTuple):
    """The published file of all people. It is checked as a whole, before anybody is looked up.

    It is a hash table: an id belongs to a bucket, and has a fingerprint of 3 bytes in it. The number of its fingerprint
    is the person's row.
    """

    starts: array[int]
    """Row of the first fingerprint of each bucket, and the number of people after the last one."""
    parts: bytes
    """Which part of the hash the fingerprints of each bucket are."""
    fingerprints: bytes

    @classmethod
    def read(cls, content: bytes, file: PublishedFile) -> People:
        """Read the file; refuse another one than the wave names.

        Whatever the fingerprints are, an id has one row or none, so they need no check.
        """
        sizes, parts, fingerprints = file.cut(content)
        if 3 * sum(sizes) != len(fingerprints) or max(parts) >= _PARTS_OF_HASH:
            raise file.layout.damaged
        return cls(array("Q", accumulate(sizes, initial=0)), parts, fingerprints)

    def rows(self, neighbours: Iterable[str]) -> Codes:
        """Return the rows of the neighbours in ascending order, each once. An id that is not there has none."""
        return tuple(sorted({row for name in neighbours if (row := self._row(name)) is not None}))

    def unlisted(self, neighbours: Iterable[str]) -> tuple[str, ...]:
        """Return the neighbours that are not there, each once."""
        return tuple(dict.fromkeys(name for name in neighbours if self._row(name) is None))

    def check_person(self, node: str) -> None:
        """Refuse the id of a person that is not there: nobody could send its answer, which would cost all the same."""
        if self._row(node) is None:
            raise CampaignError(
                f"the node is not among the {self.starts[-1]} people of the campaign: correct it (node, --node), as it "
                "is in your invitation; nothing was drawn"
            )

    def _row(self, person: str) -> int | None:
        hashed = hashlib.sha256(person.encode(errors="surrogatepass")).digest()
        bucket = int.from_bytes(hashed[:6], "big") % len(self.parts)
        fingerprint = hashed[6 + 3 * self.parts[bucket] :][:3]
        for row in range(self.starts[bucket], self.starts[bucket + 1]):
            if self.fingerprints[3 * row : 3 * row + 3] == fingerprint:
                return row
        return None


class Beliefs(NamedTuple):
    """What is published about all people: a code for each row of the file of people. It is checked as a whole."""

    people: People
    codes: array[int]
    classes: int

    @classmethod
    def read(cls, table: bytes, file: PublishedFile, people: People, classes: int) -> Beliefs:
        """Read the table; refuse another one than the wave names, and a table with a row that is no belief.

        A row whose units sum to more than `scale` would make the guarantee false. A refusal must not depend on the
        list, so every row is checked.
        """
        codes = array("H", *file.cut(table))
        if sys.byteorder == "big":
            codes.byteswap()
        if max(codes) > count_beliefs(finest_scale(classes), classes):
            raise file.layout.damaged
        return cls(people, codes, classes)

    def sums(self, neighbours: Iterable[str]) -> Codes:
        """Add up the beliefs of the neighbours; each counts once. A neighbour who is not listed adds nothing."""
        total = [0] * self.classes
        for code, people in Counter(self.codes[row] for row in self.people.rows(neighbours)).items():
            for position, units in enumerate(belief(code, self.classes)):
                total[position] += people * units
        return tuple(total)


class Layout(NamedTuple):
    """The bytes of a published file: a title, and parts of known length."""

    what: str
    suffix: str
    title: bytes
    lengths: tuple[int, ...]

    @classmethod
    def of_people(cls, people: int) -> Layout:
        """Return the layout of the file of people: sizes of the buckets, their parts of the hash, fingerprints."""
        buckets = -(-people // _PER_BUCKET)
        title = _PEOPLE_MAGIC + f'{{"people": {people}}}\n'.encode()
        return cls("file of people", "people", title, (buckets, buckets, 3 * people))

    @classmethod
    def of_table(cls, people: int, classes: int) -> Layout:
        """Return the layout of the belief table: codes of 16 bits."""
        title = _TABLE_MAGIC + f'{{"num_classes": {classes}, "people": {people}}}\n'.encode()
        return cls("table", "beliefs", title, (2 * people,))

    @property
    def size(self) -> int:
        """Number of bytes."""
        return len(self.title) + sum(self.lengths)

    def cut(self, file: bytes) -> list[bytes]:
        """Return the parts of a file; refuse one of another layout."""
        if not file.startswith(self.title) or len(file) != self.size:
            raise self.damaged
        return [file[start:end] for start, end in pairwise(accumulate(self.lengths, initial=len(self.title)))]

    @property
    def damaged(self) -> CampaignError:
        """The refusal of a file that has the right hash, and is no such file."""
        return CampaignError(f"the {self.what} is damaged, or of another number of people or classes")


class PublishedFile(NamedTuple):
    """A published file, as the document of a wave names it."""

    layout: Layout
    sha256: str
    wave: int

    @property
    def name(self) -> str:
        """Name of the file on a device."""
        return f"{self.sha256}.{self.layout.suffix}"

    def cut(self, content: bytes) -> list[bytes]:
        """Return the parts of the file; refuse another file."""
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise CampaignError(f"the {self.layout.what} is not the one that wave {self.wave} names: get it again")
        return self.layout.cut(content)


class Published(NamedTuple):
    """What is published for a wave about neighbours: its document, the file of all people, and the belief table."""

    campaign: str | bytes
    people: bytes
    table: bytes | None = None
    """None for a randomized list, which has none."""
