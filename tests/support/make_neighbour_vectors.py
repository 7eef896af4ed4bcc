"""Write the common test vectors of private neighbours: `python -m tests.support.make_neighbour_vectors`.

Each vector is what is published, an answer's mechanism with its epsilons, and lists of neighbours with the words that
were drawn and the answer that they make. Half of the words are those at which a decision turns. A randomized list needs
no table of beliefs: `table` and its hash are null, and a case has the `rows` of the neighbours in place of `sums`.
A second file says which wave a person answers in a series in turns: `id`, `turns` and `wave`.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import math
import random
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.neighbour_lists import text_of
from veilgraph.campaign.neighbours.people_file import PeopleFile, people_file
from veilgraph.privacy.belief_table import BeliefTable, finest_scale
from veilgraph.privacy.mechanisms import NeighbourhoodClass, NeighbourhoodHistogram, OSRandom, RandomizedNeighbourList
from veilgraph.privacy.mechanisms.random_source import WORDS

PATH = Path(__file__).parents[1] / "client" / "neighbour_vectors.json"
TURNS_PATH = PATH.with_name("turn_vectors.json")
Answer = NeighbourhoodClass | NeighbourhoodHistogram | RandomizedNeighbourList
NUM_PEOPLE = 30
TURN_IDS = ("u0", "a", "\u00e9", "\uffee", "\U0001f4cf", "u 1/\u00e9\uffee\U0001f4cf", "e\u0301", "x" * 256)


def histogram(classes: int, epsilon: float, cap: int | None = None, **more: int) -> NeighbourhoodHistogram:
    return NeighbourhoodHistogram(classes, epsilon, finest_scale(classes), cap=cap, **more)


MECHANISMS: dict[str, Answer] = {
    "one of two classes": NeighbourhoodClass(2, 1.0),
    "one of four classes": NeighbourhoodClass(4, 2.0),
    "a set of 6 of 18 classes": NeighbourhoodClass(18, 1.0),
    "a set of 70 classes": NeighbourhoodClass(200, 1.0, size=70),
    "a class, a large epsilon": NeighbourhoodClass(7, 40.0),
    "histogram of two classes": histogram(2, 1.0),
    "histogram of four classes": histogram(4, 2.0),
    "histogram with a cap": histogram(4, 0.5, cap=2),
    "histogram of 18 classes": histogram(18, 4.0),
    "histogram that is cut": histogram(3, 1.0, largest=70),
    "histogram, a large epsilon": histogram(7, 90.0),
    "histogram, a small epsilon": histogram(2, 0.01, cap=1),
    "list of neighbours": RandomizedNeighbourList(NUM_PEOPLE, 4.0),
    "list of neighbours, a small epsilon": RandomizedNeighbourList(NUM_PEOPLE, 1.0),
    "list of neighbours, a large epsilon": RandomizedNeighbourList(NUM_PEOPLE, 30.0),
}


class RecordedWords(OSRandom):
    """Words of a seed, half of which are those at which a decision turns."""

    def __init__(self, rng: random.Random, turns: list[int]) -> None:
        self.rng, self.turns, self.drawn = rng, turns, list[int]()

    def _words(self, size: int) -> NDArray[np.int64]:  # type: ignore[override]
        words = [
            self.rng.choice(self.turns) if self.rng.random() < 0.5 else self.rng.getrandbits(53) for _ in range(size)
        ]
        self.drawn += words
        return np.array(words, dtype=np.int64)


def turning_words(mechanism: Answer) -> list[int]:
    """Return the words at which decisions change: those of the table, and the ends of every rejected range."""
    ends = [0, WORDS]
    if isinstance(mechanism, NeighbourhoodClass):
        ends += [mechanism.sets.table.inside, *(WORDS - WORDS % bound for bound in range(1, mechanism.num_classes))]
    elif isinstance(mechanism, NeighbourhoodHistogram):
        ends += [mechanism.noise.more] * 3
    else:
        ends += [mechanism.bit.table.true] * 3
    return [word for end in ends for word in (end - 1, end, end + 1) if 0 <= word < WORDS]


def document(mechanism: Answer) -> dict[str, Any]:
    """Return the integers of a mechanism under the names of the browser's module."""
    if isinstance(mechanism, NeighbourhoodClass):
        table = mechanism.sets.table
        return {
            "sets": {"domainSize": table.domain_size, "setSize": table.size, "yes": table.inside, "no": table.outside}
        }
    if isinstance(mechanism, RandomizedNeighbourList):
        bit = mechanism.bit.table
        return {
            "list": {"domainSize": bit.domain_size, "yes": bit.true, "no": bit.other},
            "people": mechanism.num_people,
        }
    return {
        "classCount": mechanism.num_classes,
        "more": mechanism.noise.more,
        "scale": mechanism.scale,
        "cap": mechanism.cap,
        "largest": mechanism.largest,
    }


def answer_of(mechanism: Answer, sums: list[int], words: OSRandom) -> list[int] | str:
    """Return what words make of the sums of a list, as the campaign format has it: codes of classes, counts or text."""
    if isinstance(mechanism, NeighbourhoodClass):
        pointed = [code for code, count in enumerate(sums) if count == max(sums)]
        picked = pointed[int(words.integers(0, len(pointed), size=1)[0])]
        return list(mechanism.sets.decode(mechanism.sets.randomize(np.array([picked]), rng=words))[0])
    if isinstance(mechanism, RandomizedNeighbourList):
        drawn = words.integers(0, WORDS, size=mechanism.num_people).tolist()
        kept = [word < mechanism.bit.table.true for word in drawn]
        named = (row for row, (count, is_kept) in enumerate(zip(sums, kept, strict=True)) if bool(count) == is_kept)
        return text_of(named, mechanism.num_people)

    def geometric() -> int:
        return next(n for n in itertools.count() if words.integers(0, WORDS, size=1)[0] >= mechanism.noise.more)

    counted = mechanism.cut(np.array([sums]))[0].tolist()
    noisy = [count + geometric() - geometric() for count in counted]
    return [max(-mechanism.largest, min(mechanism.largest, value)) for value in noisy]


def names_of(people: int) -> list[str]:
    """Return the names of some people in the order of their rows, with characters of one to four bytes."""
    first = "a\u00e9\uffee\U0001f4cf"
    return list(PeopleFile.of(f"{first[i % len(first)]}{i}" for i in range(people)).names)


def published(people: int, classes: int, table: BeliefTable | None) -> dict[str, Any]:
    """Return what is published about some people, with the hashes that a wave states."""
    file = people_file(names_of(people))
    return {
        "people": base64.b64encode(file).decode(),
        "table": table and base64.b64encode(table.to_bytes()).decode(),
        "hashes": [hashlib.sha256(file).hexdigest(), table and table.sha256],
        "nodes": people,
        "classes": classes,
    }


def table_of(classes: int, people: int, rng: random.Random) -> BeliefTable:
    """Return a table with beliefs of every kind: certain, spread and unknown."""
    scale = finest_scale(classes)
    certain = BeliefTable.of(np.eye(classes)).codes.tolist()
    possible = math.comb(scale + classes - 1, classes - 1)
    codes = [rng.choice(certain) if rng.random() < 0.4 else rng.randrange(possible + 1) for _ in range(people - 2)]
    return BeliefTable(classes, np.array([0, *codes, possible], dtype=np.uint16))


def vectors_of(name: str, mechanism: Answer) -> dict[str, Any]:
    rng, people, names = random.Random(name), range(NUM_PEOPLE), names_of(NUM_PEOPLE)
    is_list = isinstance(mechanism, RandomizedNeighbourList)
    classes = 3 if is_list else mechanism.num_columns
    table = None if is_list else table_of(classes, NUM_PEOPLE, rng)
    some = [rng.sample(people, rng.randrange(2, 9)) for _ in range(4)]
    cases = []
    for rows in ([], [0], [29, 29], list(people), *some):
        words = RecordedWords(rng, turning_words(mechanism))
        sums = table.sums([rows])[0].tolist() if table else [int(row in rows) for row in people]
        looked_up = {"sums": sums} if table else {"rows": sorted(set(rows))}
        answer = answer_of(mechanism, sums, words)
        cases.append({"list": [names[row] for row in rows], **looked_up, "words": words.drawn, "answer": answer})
    loss = mechanism.list_loss
    costs = asdict(loss) | {"one_relationship": loss.one_relationship}
    return {
        "name": name,
        **published(NUM_PEOPLE, classes, table),
        "mechanism": document(mechanism),
        "loss": {key: None if np.isinf(epsilon) else epsilon for key, epsilon in costs.items()},
        "cases": cases,
    }


def make() -> str:
    vectors = [vectors_of(name, mechanism) for name, mechanism in MECHANISMS.items()]
    return "[\n" + ",\n".join(json.dumps(each) for each in vectors) + "\n]\n"


def make_turns() -> str:
    """Return the turns of some ids by the last two bytes of their hash, written down once more for the clients."""
    vectors = []
    for name, turns in itertools.product(TURN_IDS, (2, 3, 4, 7, 36)):
        digest = hashlib.sha256(name.encode()).digest()
        vectors.append({"id": name, "turns": turns, "wave": 1 + (256 * digest[30] + digest[31]) % turns})
    return "[\n" + ",\n".join(json.dumps(each) for each in vectors) + "\n]\n"


if __name__ == "__main__":
    TURNS_PATH.write_text(make_turns(), encoding="utf-8")
    PATH.write_text(make(), encoding="utf-8")
