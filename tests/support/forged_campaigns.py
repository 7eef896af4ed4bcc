"""Forged campaigns of every kind: the package, the Python client and the browser must refuse each."""

from __future__ import annotations

import json
from typing import Any

from tests.support.campaigns import CAMPAIGNS, FEATURES_AND_LABEL, MONTHLY
from tests.support.forgeries import FORGERIES, JOINT_FORGERIES, NOTICE_FORGERIES, SET_FORGERIES, rewritten
from veilgraph.campaign import Campaign

_ROUNDS: dict[str, dict[str, Any]] = {
    "a smaller cost of unchanged values": {"rounds__guarantee__unchanged": "1.5"},
    "a smaller cost of answers that repeat in the same rounds": {"rounds__guarantee__same_pattern": "1.5"},
    "a smaller cost of any histories": {"rounds__guarantee__any_histories": "1.5"},
    "a smaller total": {"guarantee__user_level__label": "2", "guarantee__user_level__total": "2"},
    "a relation left out": {"rounds__guarantee": {"unchanged": "2"}},
    "more rounds": {"rounds__count": 13},
    "too many rounds": {"rounds__count": 37},
    "no rounds": {"rounds__count": 0},
    "more values": {"rounds__values": 3},
    "more values than classes": {"rounds__values": 6},
    "a round table that tells more": {"rounds__table": {"domain_size": 5, "true": 2**53 - 2**42, "other": 2**40}},
    "a round table of another domain": {"rounds__table": {"domain_size": 2, "true": 2**53 - 2**50, "other": 2**50}},
    "a permanent table that tells more": {"label__table": {"domain_size": 5, "true": 2**53 - 2**42, "other": 2**40}},
    "an open round beyond the last": {"notice__round": 13},
    "round 0": {"notice__round": 0},
    "a round that is true": {"notice__round": True},
    "a round without rounds": {"rounds": None},
    "an unknown key": {"rounds__extra": 1},
    "an epsilon of 0": {"rounds__epsilon": "0"},
}


def _tables(series: Campaign, part: str) -> list[dict[str, int]]:
    """Return the tables of the features, of the permanent answers or of the rounds."""
    document = json.loads(series.to_json())["bound"]
    return list(document["features"]["tables"] if part == "features" else document["rounds"]["features"]["tables"])


_ROUND_TABLES, _PERMANENT_TABLES = (_tables(FEATURES_AND_LABEL, part) for part in ("rounds", "features"))
_TELLING = {"domain_size": 2, "true": 2**53 - 2**40, "other": 2**40}
_FEATURES_IN_ROUNDS: dict[str, dict[str, Any]] = {
    "a smaller cost of unchanged values": {"rounds__guarantee__unchanged": "1.5"},
    "a smaller cost of any histories": {"rounds__guarantee__any_histories": "1.5"},
    "a smaller cost of the features": {"guarantee__user_level__features": "1"},
    "a smaller attribute level": {"guarantee__attribute_level": ["0.1"] * 4},
    "a round table that tells more": {"rounds__features__tables": [_TELLING, *_ROUND_TABLES[1:]]},
    "a permanent table that tells more": {"features__tables": [_TELLING, *_PERMANENT_TABLES[1:]]},
    "a missing table": {"rounds__features__tables": _ROUND_TABLES[1:]},
    "tables in another order": {"rounds__features__tables": _ROUND_TABLES[::-1]},
    "more features": {"features__sampled": 3},
    "more values": {"rounds__values": 3},
    "more rounds": {"rounds__count": 13},
    "features by another mechanism": {"features__mechanism": "grr_fs"},
    "features that are asked once": {"rounds__features": None},
    "an epsilon of 0": {"rounds__features__epsilon": "0"},
    "an unknown key": {"rounds__features__extra": 1},
    "no label in the rounds": {"rounds__table": None},
}

HONEST: dict[str, Campaign] = {
    name: CAMPAIGNS[name]
    for name in ("binary", "a set of 6 of 18 classes", "joint features of mixed domains", "texts and retention")
} | {"rounds": MONTHLY, "features in rounds": FEATURES_AND_LABEL}
"""The campaigns that were forged."""

_CHANGES = (FORGERIES, SET_FORGERIES, JOINT_FORGERIES, NOTICE_FORGERIES, _ROUNDS, _FEATURES_IN_ROUNDS)
FORGED: dict[str, str] = {
    f"{kind}: {forgery}": rewritten(HONEST[kind], **change)
    for kind, changes in zip(HONEST, _CHANGES, strict=True)
    for forgery, change in changes.items()
}
"""Documents with another content and a valid id, as a forger who knows the format would write them."""
