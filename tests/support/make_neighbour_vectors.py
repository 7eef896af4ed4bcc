"""Write the common test vectors of private neighbours: `python -m tests.support.make_neighbour_vectors`.

Each vector is a published table, an answer's mechanism with its epsilons, and lists of neighbours with the words that
were drawn and the answer that they make. Half of the words are those at which a decision turns.
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

from veilgraph.campaign.people_file import PeopleFile, people_file
from veilgraph.privacy.belief_table import BeliefTable, finest_scale
from veilgraph.privacy.mechanisms import NeighbourhoodClass, NeighbourhoodHistogram, OSRandom
from veilgraph.privacy.mechanisms.random_source import WORDS

PATH = Path(__file__).parents[1] / "client" / "neighbour_vectors.json"
Answer = NeighbourhoodClass | NeighbourhoodHistogram


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
    else:
        ends += [mechanism.noise.more] * 3
    return [word for end in ends for word in (end - 1, end, end + 1) if 0 <= word < WORDS]


def document(mechanism: Answer) -> dict[str, Any]:
    """Return the integers of a mechanism under the names of the browser's module."""
    if isinstance(mechanism, NeighbourhoodClass):
        table = mechanism.sets.table
        return {"sets": {"k": table.domain_size, "w": table.size, "yes": table.inside, "no": table.outside}}
    return {
        "k": mechanism.num_classes,
        "more": mechanism.noise.more,
        "scale": mechanism.scale,
        "cap": mechanism.cap,
        "largest": mechanism.largest,
    }


def answer_of(mechanism: Answer, sums: list[int], words: OSRandom) -> list[int]:
    """Return what words make of the sums of a list, as the campaign format has it: codes of classes, or counts."""
    if isinstance(mechanism, NeighbourhoodClass):
        pointed = [code for code, count in enumerate(sums) if count == max(sums)]
        picked = pointed[int(words.integers(0, len(pointed), size=1)[0])]
        return list(mechanism.sets.codes(mechanism.sets.randomize(np.array([picked]), rng=words))[0])

    def geometric() -> int:
        return next(n for n in itertools.count() if words.integers(0, WORDS, size=1)[0] >= mechanism.noise.more)

    counted = mechanism.cut(np.array([sums]))[0].tolist()
    noisy = [count + geometric() - geometric() for count in counted]
    return [max(-mechanism.largest, min(mechanism.largest, value)) for value in noisy]


def names_of(people: int) -> list[str]:
    """Return the names of some people in the order of their rows, with characters of one to four bytes."""
    first = "a\u00e9\uffee\U0001f4cf"
    return list(PeopleFile.of(f"{first[i % len(first)]}{i}" for i in range(people)).names)


def published(table: BeliefTable) -> dict[str, Any]:
    """Return what is published of a table, with the hashes that a wave states."""
    people, beliefs = people_file(names_of(len(table))), table.to_bytes()
    return {
        "people": base64.b64encode(people).decode(),
        "table": base64.b64encode(beliefs).decode(),
        "hashes": [hashlib.sha256(people).hexdigest(), table.sha256],
        "nodes": len(table),
        "classes": table.num_classes,
    }


def table_of(classes: int, people: int, rng: random.Random) -> BeliefTable:
    """Return a table with beliefs of every kind: certain, spread and unknown."""
    scale = finest_scale(classes)
    certain = BeliefTable.of(np.eye(classes)).codes.tolist()
    possible = math.comb(scale + classes - 1, classes - 1)
    codes = [rng.choice(certain) if rng.random() < 0.4 else rng.randrange(possible + 1) for _ in range(people - 2)]
    return BeliefTable(classes, np.array([0, *codes, possible], dtype=np.uint16))


def vectors_of(name: str, mechanism: Answer) -> dict[str, Any]:
    rng, people = random.Random(name), range(30)
    table, names = table_of(mechanism.num_classes, len(people), rng), names_of(len(people))
    some = [rng.sample(people, rng.randrange(2, 9)) for _ in range(4)]
    cases = []
    for rows in ([], [0], [29, 29], list(people), *some):
        words, sums = RecordedWords(rng, turning_words(mechanism)), table.sums([rows])[0].tolist()
        answer = answer_of(mechanism, sums, words)
        cases.append({"list": [names[row] for row in rows], "sums": sums, "words": words.drawn, "answer": answer})
    loss = mechanism.list_loss
    costs = asdict(loss) | {"one_relationship": loss.one_relationship}
    return {
        "name": name,
        **published(table),
        "mechanism": document(mechanism),
        "loss": {key: None if np.isinf(epsilon) else epsilon for key, epsilon in costs.items()},
        "cases": cases,
    }


def make() -> str:
    vectors = [vectors_of(name, mechanism) for name, mechanism in MECHANISMS.items()]
    return "[\n" + ",\n".join(json.dumps(each) for each in vectors) + "\n]\n"


if __name__ == "__main__":
    PATH.write_text(make(), encoding="utf-8")
