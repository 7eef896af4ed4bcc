"""A wave about private neighbours: its place in a series, what all waves cost together, and whose turn it is.

**In turns.** A series about private neighbours may ask each person in one of its T waves: `turn_of` says which, from
the person's id alone, so everybody can compute it. A device answers no other wave of the series, and none after the
first that it has answered, whatever later documents say about turns. So the answers of a person cost what the dearest
wave costs, and not what all waves cost together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal, localcontext
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, NoReturn

from veilgraph.client.epsilons import ListCost, shown, slack
from veilgraph.client.lists import BELIEF_CODES, ListMechanism, read_list_mechanism
from veilgraph.client.mechanisms import read_label
from veilgraph.client.published import Beliefs, Layout, People, Published, PublishedFile
from veilgraph.client.reading import read_hash, read_list, read_number, read_object, read_whole
from veilgraph.client.refusals import CampaignError
from veilgraph.client.schema import Schema
from veilgraph.client.words import Codes, Word

MAX_WAVES = 36
_BYTES_OF_TURN = slice(30, 32)  # of the hash of an id: those after the bytes that the file of people uses


class Place(NamedTuple):
    """The place of a wave about neighbours in its series, and what its answer costs."""

    series: str
    """Id of the first document, which asks for the label."""
    wave: int
    """Number of the wave, from 1."""
    cost: ListCost
    turns: int | None
    """Number of waves of which each person answers one; None: everybody answers every wave."""
    people: str
    """SHA-256 of the file of all people."""

    @property
    def in_turns(self) -> bool:
        """Whether each person answers one wave of the series."""
        return self.turns is not None

    @classmethod
    def read(cls, stated: object) -> Place | None:
        """Read the place and the cost of an answer from a device's file; None if the file has something else."""
        with suppress(TypeError, KeyError, ValueError, ArithmeticError):
            if isinstance(stated, dict) and set(stated) == {*cls._fields, *ListCost._fields} - {"cost"}:
                cost, turns = ListCost(*(Decimal(stated[key]) for key in ListCost._fields)), stated["turns"]
                is_place = (
                    all(isinstance(stated[key], str) for key in ("series", "people")) and type(stated["wave"]) is int
                )
                if is_place and type(turns) in (int, NoneType) and min(cost) > 0:
                    return cls(stated["series"], stated["wave"], cost, turns, stated["people"])
        return None

    def check_turns(self, earlier: Place, folder: Path) -> None:
        """Refuse other turns than an earlier wave of the series has, which is in a folder."""
        if self.turns != earlier.turns:
            raise CampaignError(
                f"wave {self.wave} is asked in other turns than wave {earlier.wave}, which is in {folder}: a series "
                "keeps its turns; ask the campaign's contact"
            )


class ListQuestion(NamedTuple):
    """A question about a neighbour list, with a mechanism, in a series of waves."""

    documents: tuple[str, ...]
    """Ids of all documents before it; the first one names the series."""
    mechanism: ListMechanism
    classes: int
    nodes: int
    people: str
    """SHA-256 of the file of all people."""
    table: str | None
    """SHA-256 of the belief table; None for a randomized list, which needs none."""
    so_far: ListCost
    """Epsilons of a person's answers to all waves up to this one; in turns, of the dearest wave for each relation."""
    turns: int | None
    """Number of waves of which each person answers one; None: everybody answers every wave."""

    @classmethod
    def read(cls, bound: Mapping[str, Any], schema: Schema) -> ListQuestion:
        """Read the question; refuse integers that do not give every epsilon that the campaign states."""
        classes, people = len(schema.classes), bound["graph"]["nodes"]
        if schema.columns or schema.group != 1:
            raise CampaignError("a wave about neighbours asks for nothing else")
        if classes >= BELIEF_CODES:
            raise CampaignError(f"a wave about neighbours has fewer than {BELIEF_CODES} classes")
        parts = read_object(bound["neighbours"], "answers documents label people table turns", "neighbours")
        stated = read_list(parts["documents"], "neighbours.documents")
        documents = tuple(read_hash(document, "neighbours.documents") for document in stated)
        label = read_label(parts["label"], classes)
        waves = [
            read_list_mechanism(entry, classes, people) for entry in read_list(parts["answers"], "neighbours.answers")
        ]
        if label is None or len(waves) != len(documents) or len(documents) > MAX_WAVES:
            raise CampaignError(f"a series has a label, and an answer for each of at most {MAX_WAVES} waves")
        if len(set(documents)) < len(documents):
            raise CampaignError("neighbours.documents names a document twice")
        if len(waves) > 1 and not all(mechanism.needs_beliefs for mechanism in waves):
            raise CampaignError("a randomized neighbour list is the only wave of its series, and this one has more")
        turns = _read_turns(parts["turns"], waves)
        with localcontext(prec=60):
            costs = [mechanism.cost for mechanism in waves]
            # In turns a person answers one wave, and the document does not say whose: the dearest one bounds them all.
            columns = zip(*costs, strict=True)
            so_far = ListCost(*(sum(column, Decimal(0)) if turns is None else max(column) for column in columns))
            _check_wave_guarantee(bound["guarantee"], costs[-1], so_far, label.user_level)
        return cls(
            documents,
            waves[-1],
            classes,
            people,
            read_hash(parts["people"], "neighbours.people"),
            _read_table_hash(parts["table"], waves[-1]),
            so_far,
            turns,
        )

    @property
    def wave(self) -> int:
        """Number of the wave, from 1."""
        return len(self.documents)

    @property
    def place(self) -> Place:
        """The place of the wave in its series, and what its answer costs."""
        return Place(self.documents[0], self.wave, self.mechanism.cost, self.turns, self.people)

    @property
    def epsilon(self) -> Decimal:
        """Epsilon at user level (any two records with any two lists), or 0 if whole lists are not protected."""
        return self.mechanism.cost.any_lists if self.mechanism.cost.any_lists.is_finite() else Decimal(0)

    @property
    def features(self) -> None:
        """Mechanisms of features: none."""

    @property
    def label(self) -> None:
        """Mechanism of a label: none; the first document of the series asks for it."""

    @property
    def files(self) -> dict[str, PublishedFile]:
        """Published files, by what they are: the people, and the belief table if it needs one."""
        people = PublishedFile(Layout.of_people(self.nodes), self.people, self.wave)
        if self.table is None:
            return {"people": people}
        return {
            "table": PublishedFile(Layout.of_table(self.nodes, self.classes), self.table, self.wave),
            "people": people,
        }

    @property
    def longest(self) -> dict[str, Any]:
        """The parts of a report that no other one is longer than, as text."""
        return {"answer": self.mechanism.longest}

    def fits(self, report: Mapping[str, Any]) -> bool:
        """Return whether a stored report is an answer to this wave."""
        return self.mechanism.fits(report.get("answer"))

    def check_notice(self, opened: int | None) -> None:
        """Refuse a notice that opens a round."""
        if opened is not None:
            raise CampaignError("a wave about neighbours asks for nothing else")

    def about_a_record(self) -> NoReturn:
        """Refuse a record as an answer."""
        raise CampaignError("the campaign asks about neighbours: answer it with answer_neighbours (--neighbours)")

    def about_a_list(self) -> ListQuestion:
        """Return the wave, because it is about a list."""
        return self

    def randomize(self, features: object, label: object, word: Word) -> NoReturn:
        """Refuse to report the codes of a record."""
        self.about_a_record()

    def check_turn(self, node: str, people: bytes) -> None:
        """Refuse a person whose turn another wave is."""
        turn = self.wave if self.turns is None else turn_of(node, self.turns)
        if turn != self.wave:
            People.read(people, self.files["people"]).check_person(node)  # a mistyped id has a turn, too
            raise CampaignError(
                f"wave {self.wave} is not your turn: of this series you answer wave {turn}, and no other one"
            )

    def check_after(self, campaign: str, earlier: Place) -> None:
        """Refuse this wave of a series after an answer to an earlier document of it.

        Each wave of a series is answered once, and of a series in turns one wave. It is in turns if this document says
        so or if the earlier one did: an organiser could change the number, or leave it out, to ask a person again.

        Args:
            campaign: id of the earlier document.
            earlier: its place in the series.
        """
        place = earlier.wave
        if earlier.in_turns or self.place.in_turns:
            raise CampaignError(
                f"this device has answered wave {place} of this series, which is asked in turns: a person answers one "
                "wave of it, and no other one"
            )
        if place > self.wave:
            raise CampaignError(f"wave {self.wave} is over: this device has answered a later one of its series")
        if place == self.wave:
            raise CampaignError(f"this device has answered another wave {place} of this series: each is answered once")
        if self.documents[place] != campaign:
            raise CampaignError(
                f"the wave is of another series: it does not continue the wave {place} that this device has answered"
            )

    def open_files(self, published: Published, node: str) -> tuple[People, Callable[[Iterable[str]], Codes]]:
        """Check what is published for the wave, and that the person is in it.

        Returns:
            The people, and the function that turns a list into what is reported: rows or sums.
        """
        files = self.files
        if "table" not in files:
            if published.table is not None:
                raise CampaignError(f"wave {self.wave} has no belief table: give table=None (leave --table out)")
            people = People.read(published.people, files["people"])
            people.check_person(node)
            return people, people.rows
        if published.table is None:
            raise CampaignError(f"wave {self.wave} has a belief table, and none is given: get it, and give it, too")
        people = People.read(published.people, files["people"])
        beliefs = Beliefs.read(published.table, files["table"], people, self.classes)
        people.check_person(node)
        return people, beliefs.sums


def turn_of(node: str, turns: int) -> int:
    """Return the wave that a person answers if a series is asked in turns, from 1.

    Args:
        node: the person's id.
        turns: number of waves of which each person answers one.
    """
    return 1 + int.from_bytes(hashlib.sha256(node.encode()).digest()[_BYTES_OF_TURN], "big") % turns


def _read_turns(stated: object, waves: Sequence[ListMechanism]) -> int | None:
    """Return the number of turns of a series that has these waves so far; None if everybody answers every wave."""
    if stated is None:
        return None
    if not 2 <= (turns := read_whole(stated, "neighbours.turns")) <= MAX_WAVES:
        raise CampaignError(f"neighbours.turns must be null, or a whole number from 2 to {MAX_WAVES}")
    if not all(mechanism.needs_beliefs for mechanism in waves):
        raise CampaignError("neighbours.turns must be null: everybody is asked for a randomized neighbour list")
    if len(waves) > turns:
        raise CampaignError(f"a series in {turns} turns has at most {turns} waves, and this is wave {len(waves)}")
    return turns


def _read_table_hash(stated: object, mechanism: ListMechanism) -> str | None:
    """Return the hash of the belief table; a randomized list has none, and every other answer has one."""
    if mechanism.needs_beliefs:
        return read_hash(stated, "neighbours.table")
    if stated is not None:
        raise CampaignError("neighbours.table must be null: a randomized neighbour list has no belief table")
    return None


def _check_wave_guarantee(stated: object, wave: ListCost, so_far: ListCost, label: Decimal) -> None:
    """Check every stated epsilon of a wave and of its series, under each relation."""
    parts = read_object(stated, "series wave", "guarantee")
    series = read_object(parts["series"], "label lists lists_and_record", "guarantee.series")
    pairs = [(series["label"], label)]
    for told, cost in ((parts["wave"], wave), (series["lists"], so_far)):
        levels = read_object(told, "any_lists one_entry one_relationship", "guarantee")
        pairs += [(levels[key], getattr(cost, key)) for key in ListCost._fields]
        pairs.append((levels["one_relationship"], 2 * cost.one_entry))
    with_record = read_object(series["lists_and_record"], "any_lists one_entry", "guarantee.series.lists_and_record")
    pairs += [(with_record[key], label + getattr(so_far, key)) for key in ListCost._fields]
    for text, epsilon in pairs:
        told = Decimal(read_number(text, "an epsilon"))
        if told != epsilon and not (epsilon.is_finite() and abs(told - epsilon) <= slack(epsilon)):
            raise CampaignError(
                "the wave's integers do not give the guarantee that it states: an answer would cost epsilon "
                f"{shown(wave.one_entry)} for one entry (two neighbour lists, one with a neighbour more)"
            )


def other_people(wave: int) -> CampaignError:
    """Return the refusal of a wave whose people or graph differ from its series."""
    return CampaignError(
        f"wave {wave} is about other people, or another graph, than its series: these never change between waves; do "
        "not answer it, and tell the campaign's contact"
    )
