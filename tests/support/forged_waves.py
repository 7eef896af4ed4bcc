"""Forged waves about private neighbours, which the package, the Python client and the browser must refuse."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from tests.support.forgeries import rewritten
from tests.support.neighbour_series import CAPPED, CLASS, HISTOGRAM, LIST, NAMES, TABLE, waves_of
from veilgraph.campaign import Campaign

HONEST: dict[str, Campaign] = {
    "counts": waves_of(HISTOGRAM)[1],
    "counts and a class": waves_of(HISTOGRAM, CLASS)[2],
    "a list": waves_of(LIST)[1],
    "turns": waves_of(CLASS, HISTOGRAM, turns=4)[2],
    "three turns": waves_of(CLASS, CAPPED, HISTOGRAM, turns=3)[2],
    "three waves in turns": waves_of(CLASS, CLASS, CLASS, turns=3)[3],
}
"""The waves that were forged."""


class Forgery(NamedTuple):
    """What is written into a wave, and words of the refusal of the package and of the Python client."""

    changes: dict[str, Any]
    package: str = "."
    client: str = "."


def _answer(**changes: Any) -> dict[str, Any]:
    return {f"neighbours__answers__0__{key}": value for key, value in changes.items()}


def _bit(true: int, other: int, values: int = 2) -> dict[str, Any]:
    return _answer(table={"domain_size": values, "true": true, "other": other})


def _bound(wave: Campaign) -> Any:
    return json.loads(wave.to_json())["bound"]


_A, _B, _WHOLE = "a" * 64, "b" * 64, "must be a whole number"
_INTEGERS, _NOT_HELD, _LIES = "not what the integers give", "does not hold the integers", "do not give the guarantee"
_SETS = {"domain_size": 3, "size": 1, "inside": 2**53 - 2**40, "outside": 2**40}
_BINARY = {"domain_size": 2, "size": 1, "inside": 2**53 - 2**50, "outside": 2**50}
_SERIES, _RECORD = "guarantee__series__lists", "guarantee__series__lists_and_record"
_LISTS = _bound(HONEST["a list"])["neighbours"]
_ASKED, _COUNTED = _LISTS["answers"][0], _bound(HONEST["counts"])["neighbours"]["answers"][0]
_TWO_WAVES = _LISTS | {"documents": [_A, _B]}

_COUNTS: dict[str, Forgery] = {
    "a smaller epsilon of one entry": Forgery({"guarantee__wave__one_entry": "0.5"}, _INTEGERS),
    "a smaller epsilon of a relationship": Forgery({"guarantee__wave__one_relationship": "1"}),
    "lists that are said to be private": Forgery({"guarantee__wave__any_lists": "1"}),
    "lists of the series that are said to be private": Forgery({f"{_SERIES}__any_lists": "1"}, _INTEGERS),
    "a smaller epsilon of the series": Forgery({f"{_SERIES}__one_entry": "0.1"}),
    "record and list that are said to be private": Forgery({f"{_RECORD}__any_lists": "7"}),
    "a smaller epsilon of the label": Forgery({"guarantee__series__label": "1"}),
    "more noise is promised": Forgery(_answer(more=2**52), _NOT_HELD),
    "noise without end": Forgery(_answer(more=2**53 - 1)),
    "another unit": Forgery(_answer(scale=59), f"{_NOT_HELD}|units"),
    "a larger unit": Forgery(_answer(scale=61)),
    "counts beyond 16 bits": Forgery(_answer(largest=2**15)),
    "a cap of 0": Forgery(_answer(cap=0)),
    "an unknown mechanism": Forgery(_answer(mechanism="plain"), "clients know no other"),
    "another label": Forgery({"neighbours__label__table__true": 1}, _NOT_HELD),
    "no label": Forgery({"neighbours__label": None}, "label"),
    "a table that is no hash": Forgery({"neighbours__table": "table.bin"}, "neighbours.table is not a SHA-256"),
    "a table with a short hash": Forgery({"neighbours__table": "0" * 63}),
    "no table": Forgery({"neighbours__table": None}, "published for every wave", r"neighbours\.table must be"),
    "people that are no hash": Forgery({"neighbours__people": None}, "neighbours.people is not a SHA-256"),
    "a document twice": Forgery({"neighbours__documents": [_A, _A]}, "each once"),
    "a wave too many": Forgery({"neighbours__documents": [_A, _B]}, "describes 1 waves"),
    "no document": Forgery({"neighbours__documents": []}, "neighbours.documents must be a list, not empty"),
    "a document that is no id": Forgery({"neighbours__documents": ["x"]}),
    "no answers": Forgery({"neighbours__answers": []}),
    "another number of classes": Forgery({"schema__label__classes": ["a", "b"]}, _NOT_HELD),
    "true for a group": Forgery({"schema__group": True}),
    "a column": Forgery({"schema__columns": [{"name": "a", "values": ["0", "1"]}]}),
    "people in words": Forgery({"graph__nodes": "6"}),
}
_SECOND = HONEST["counts and a class"].asked.bound["neighbours"]["documents"]
_COUNTS_AND_A_CLASS: dict[str, Forgery] = {
    "a smaller epsilon of one entry": Forgery({"guarantee__wave__one_entry": "0.5"}),
    "a smaller epsilon of a relationship": Forgery({"guarantee__wave__one_relationship": "1"}),
    "lists that are said to be private": Forgery({"guarantee__wave__any_lists": "1"}),
    "lists of the series that are said to be private": Forgery({f"{_SERIES}__any_lists": "1"}),
    "a smaller epsilon of the series": Forgery({f"{_SERIES}__one_entry": "0.5"}),
    "a smaller relationship of the series": Forgery({f"{_SERIES}__one_relationship": "1"}),
    "a smaller epsilon of record and list": Forgery({f"{_RECORD}__one_entry": "1"}),
    "record and list that are said to be private": Forgery({f"{_RECORD}__any_lists": "3"}),
    "a relation left out": Forgery({"guarantee__wave": {"one_entry": "1"}}),
    "no guarantee of the series": Forgery({"guarantee__series": None}),
    "less noise": Forgery(_answer(more=2**52)),
    "no noise": Forgery(_answer(more=0)),
    "words that are no whole number": Forgery(_answer(more=0.5)),
    "another unit": Forgery(_answer(scale=59)),
    "a cap that is true": Forgery(_answer(cap=True)),
    "a cap that protects nothing more": Forgery(_answer(cap=2**31)),
    "counts below a unit": Forgery(_answer(largest=59)),
    "no epsilon": Forgery(_answer(epsilon="0")),
    "an unknown key": Forgery(_answer(extra=1)),
    "an answer that is null": Forgery({"neighbours__answers__0": None}),
    "sets that tell more": Forgery({"neighbours__answers__1__table": _SETS}),
    "sets of other classes": Forgery({"neighbours__answers__1__table": _BINARY}),
    "sets of another size": Forgery({"neighbours__answers__1__size": 2}),
    "sets without a size": Forgery({"neighbours__answers__1__size": None}),
    "no table": Forgery({"neighbours__table": None}, "published for every wave", r"neighbours\.table must be"),
    "a hash in a list": Forgery({"neighbours__table": [TABLE.sha256]}),
    "a document twice": Forgery({"neighbours__documents": [_SECOND[0]] * 2}),
    "a wave too many": Forgery({"neighbours__documents": [*_SECOND, _A]}, "describes 2 waves"),
    "a document that is no id": Forgery({"neighbours__documents": [_SECOND[0], "wave 1"]}),
    "a class twice": Forgery({"schema__label__classes": ["red", "red", "blue"]}),
    "a group": Forgery({"schema__group": 2}),
    "no people": Forgery({"graph__nodes": 0}),
    "another format": Forgery({"bound__format": 3}),
}
_A_LIST: dict[str, Forgery] = {
    "a table": Forgery({"neighbours__table": TABLE.sha256}, "but for one that asks for the list", "must be null"),
    "a table without a name": Forgery({"neighbours__table": ""}, ".", "must be null"),
    "fewer people than take part": Forgery(_answer(people=5), ".", "all 6 people of the campaign"),
    "more people than take part": Forgery(_answer(people=7), "lists are of 7 people", "all 6 people"),
    "people in words": Forgery(_answer(people=f"{len(NAMES)}"), ".", _WHOLE),
    "more participants": Forgery({"graph__nodes": 7}, ".", "all 7 people of the campaign"),
    "too many people": Forgery(
        {"graph__nodes": 50_001, **_answer(people=50_001)}, f"people {_WHOLE} from 2", "must be 2 to 50000"
    ),
    "one person": Forgery({"graph__nodes": 1, **_answer(people=1)}, ".", "must be 2 to 50000"),
    "two lists": Forgery({"neighbours": _TWO_WAVES | {"answers": [_ASKED] * 2}}, ".", "the only wave"),
    "a list after counts": Forgery({"neighbours": _TWO_WAVES | {"answers": [_COUNTED, _ASKED]}}, ".", "the only wave"),
    "counts after a list": Forgery({"neighbours": _TWO_WAVES | {"answers": [_ASKED, _COUNTED]}}, ".", "the only wave"),
    "an answer too few": Forgery({"neighbours__documents": [_A, _B]}),
    "a list in turns": Forgery({"neighbours__turns": 2}, ".", "must be null: everybody is asked"),
    "a smaller epsilon of one entry": Forgery(
        {"guarantee__wave__one_entry": "2.9"}, _INTEGERS, r"epsilon 3\.0000 for one entry"
    ),
    "lists that are said to be private": Forgery({"guarantee__wave__any_lists": "18"}, ".", "for one entry"),
    "a relationship that costs as one entry": Forgery({"guarantee__wave__one_relationship": "3"}, ".", "for one entry"),
    "lists of the series that are said to be private": Forgery({f"{_SERIES}__any_lists": "18"}, _INTEGERS),
    "a smaller epsilon of the series": Forgery({f"{_SERIES}__one_entry": "2.9"}, ".", "for one entry"),
    "a smaller epsilon of record and list": Forgery({f"{_RECORD}__one_entry": "3"}, ".", "for one entry"),
    "another share of words": Forgery(_answer(table__true=2**52 + 1), _NOT_HELD),
    "another domain of words": Forgery(_answer(table__domain_size=3), _NOT_HELD),
    "words that tell more": Forgery(_bit(2**53 - 1, 1), ".", r"epsilon 36\.7369 for one entry"),
    "words that tell all": Forgery(_bit(2**53, 0)),
    "words that tell nothing": Forgery(_bit(2**52, 2**52), ".", "not a randomized response"),
    "words that lie": Forgery(_bit(2**40, 2**53 - 2**40), ".", "not a randomized resp"),
    "words left over": Forgery(_answer(table__other=1), ".", "not a randomized response"),
    "three values": Forgery(_bit(2**53 - 2 * 2**40, 2**40, 3), ".", "not a randomized response for its domain"),
    "sets": Forgery(_answer(table=_BINARY)),
    "no words": Forgery(_answer(table=None)),
    "no epsilon": Forgery(_answer(epsilon="0"), ".", "must be above 0"),
    "another key": Forgery(_answer(cap=3), ".", "exactly the keys"),
}
_RANGE = f"must be null, or {_WHOLE.removeprefix('must be ')} from 2 to 36"
_TURNS: dict[str, Forgery] = {
    "one turn": Forgery({"neighbours__turns": 1}, "neighbours.turns", _RANGE),
    "too many turns": Forgery({"neighbours__turns": 37}, "neighbours.turns", _RANGE),
    "no turn": Forgery({"neighbours__turns": 0}, ".", _WHOLE),
    "turns as text": Forgery({"neighbours__turns": "4"}, "neighbours.turns", _WHOLE),
    "turns that are true": Forgery({"neighbours__turns": True}, ".", _WHOLE),
    "a fraction of turns": Forgery({"neighbours__turns": 4.5}, ".", "is not whole"),
    "a list of turns": Forgery({"neighbours__turns": [4]}, ".", _WHOLE),
    "everybody, at the cost of one wave": Forgery({"neighbours__turns": None}, _INTEGERS, _LIES),
    "the sum of all waves": Forgery({"guarantee": _bound(waves_of(CLASS, HISTOGRAM)[2])["guarantee"]}, ".", _LIES),
    "the sum for one entry": Forgery({f"{_SERIES}__one_entry": "3"}, ".", _LIES),
    "the sum for a relationship": Forgery({f"{_SERIES}__one_relationship": "6"}, ".", _LIES),
    "the sum with the record": Forgery({f"{_RECORD}__one_entry": "5"}, ".", _LIES),
    "the cheaper wave": Forgery({f"{_SERIES}__one_entry": "1"}, ".", _LIES),
    "lists that are said to be private": Forgery({f"{_SERIES}__any_lists": "2"}, ".", _LIES),
}
_THREE_TURNS: dict[str, Forgery] = {
    "a turn too few": Forgery({"neighbours__turns": 1}),
    "a smaller epsilon of the series": Forgery({f"{_SERIES}__one_entry": "0.1"}),
    "a smaller epsilon of whole lists": Forgery({f"{_SERIES}__any_lists": "0.6"}),
    "a smaller relationship": Forgery({f"{_SERIES}__one_relationship": "2.1"}),
    "a smaller epsilon of record and list": Forgery({f"{_RECORD}__any_lists": "2.6"}),
}

_THREE_WAVES: dict[str, Forgery] = {
    "fewer turns than waves": Forgery(
        {"neighbours__turns": 2}, "everybody has had a turn", "has at most 2 waves, and this is wave 3"
    )
}
_KINDS = (_COUNTS, _COUNTS_AND_A_CLASS, _A_LIST, _TURNS, _THREE_TURNS, _THREE_WAVES)
FORGED: dict[str, tuple[str, Forgery]] = {
    f"{kind}: {name}": (rewritten(HONEST[kind], **forgery.changes), forgery)
    for kind, forgeries in zip(HONEST, _KINDS, strict=True)
    for name, forgery in forgeries.items()
}
"""Documents with another content and a valid id, as a forger who knows the format would write them."""
