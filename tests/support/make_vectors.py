"""Write the common test vectors: `python -m tests.support.make_vectors`.

Each vector is a campaign, a raw record, the words that were drawn and the report that they make. Half of the words
are those at which a decision turns. Any client, in any language, can be held against them.
"""

from __future__ import annotations

import json
import random
from itertools import islice
from pathlib import Path
from typing import Any

from tests.support.campaigns import BEFORE, CAMPAIGNS, edge_words, records
from veilgraph.campaign import Campaign
from veilgraph.client import encode, randomize, verify

PATH = Path(__file__).parents[1] / "client" / "vectors.json"
_RECORDS = 25


def vectors_of(name: str, campaign: Campaign) -> dict[str, Any]:
    rng = random.Random(name)
    question = verify(campaign.to_json(), max_epsilon=1e6, now=BEFORE)
    turns = edge_words(campaign)
    cases = []
    for record in islice(records(campaign, rng), _RECORDS):
        words: list[int] = []

        def word() -> int:
            words.append(rng.choice(turns) if rng.random() < 0.5 else rng.getrandbits(53))  # noqa: B023
            return words[-1]  # noqa: B023

        codes = encode(question, record)
        features, label = randomize(question, *codes, word=word)
        cases.append({"record": record, "words": words, "features": features, "label": label})
    return {"name": name, "campaign": campaign.to_json(), "cases": cases}


def make() -> str:
    vectors = [vectors_of(name, campaign) for name, campaign in CAMPAIGNS.items()]
    return "[\n" + ",\n".join(json.dumps(each) for each in vectors) + "\n]\n"


if __name__ == "__main__":
    PATH.write_text(make(), encoding="utf-8")
