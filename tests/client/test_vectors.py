"""The same words make the same report in Python, in numpy and in the browser."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.support import make_vectors
from tests.support.browser_module import in_node, needs_node
from tests.support.campaigns import BEFORE, CAMPAIGNS, ScriptedWords
from veilgraph.campaign import Campaign, Report
from veilgraph.client import encode, randomize, verify
from veilgraph.client.words import uniform_below
from veilgraph.privacy.mechanisms.feature_sampling import NOT_ASKED
from veilgraph.privacy.schema import NO_LABEL

VECTORS: list[dict[str, Any]] = json.loads(make_vectors.PATH.read_text(encoding="utf-8"))
by_name = pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])


def test_the_vectors_are_what_the_script_writes() -> None:
    assert make_vectors.make() == make_vectors.PATH.read_text(encoding="utf-8")


def test_the_vectors_cover_every_campaign_and_every_threshold() -> None:
    assert [vector["name"] for vector in VECTORS] == list(CAMPAIGNS)
    words = [len(case["words"]) for vector in VECTORS for case in vector["cases"]]
    assert len(words) == 25 * len(CAMPAIGNS)
    binary = next(vector for vector in VECTORS if vector["name"] == "binary")
    assert any(len(case["words"]) > 2 * 8 + 1 for case in binary["cases"]), "no word was ever rejected"
    assert any(case["label"] is None and case["features"] for vector in VECTORS for case in vector["cases"])
    assert any(case["record"].get("city", "") is None for vector in VECTORS for case in vector["cases"])
    sets = next(vector for vector in VECTORS if vector["name"] == "a set of 40 of 130 classes")
    held = [int(case["record"]["label"].removeprefix("c")) in case["label"] for case in sets["cases"]]
    assert set(held) == {True, False}
    assert {len(case["label"]) for case in sets["cases"]} == {40}


def as_json(reported: Any) -> Any:
    return list(reported) if isinstance(reported, tuple) else reported


@by_name
def test_the_python_client_agrees(vector: dict[str, Any]) -> None:
    question = verify(vector["campaign"], max_epsilon=1e6, now=BEFORE)
    for case in vector["cases"]:
        left = iter(case["words"])
        codes = encode(question, case["record"])
        features, label = randomize(question, *codes, word=left.__next__)
        assert (as_json(features), as_json(label)) == (case["features"], case["label"])
        assert list(left) == []


def encoded(campaign: Campaign, record: dict[str, Any], rng: ScriptedWords) -> Any:
    """Return the codes of a record, with a number below its domain size for each feature that is left out."""
    columns = campaign.schema.columns
    given = {
        column.name: [(column.edges or column.values)[0] if record[column.name] is None else record[column.name]]
        for column in columns
    }
    row = campaign.schema.encode(given)
    for i, size in enumerate(campaign.schema.domain_sizes):
        members = columns[i * campaign.schema.group : (i + 1) * campaign.schema.group]
        if any(record[column.name] is None for column in members):
            row[0, i] = uniform_below(size, lambda: rng.left.pop(0))
    return row


@by_name
def test_the_simulations_mechanisms_agree(vector: dict[str, Any]) -> None:
    campaign = Campaign.from_json(vector["campaign"])
    for case in vector["cases"]:
        rng = ScriptedWords(case["words"])
        if campaign.feature_mechanism is not None:
            row = encoded(campaign, case["record"], rng)
            reported = campaign.feature_mechanism.randomize(row, rng=rng)[0].tolist()
            assert [None if code == NOT_ASKED else code for code in reported] == case["features"]
        label = campaign.schema.encode_labels([case["record"][campaign.label_name]])
        if campaign.label_mechanism is not None and label[0] != NO_LABEL:
            said = campaign.label_mechanism.randomize(label, rng=rng)
            assert as_json(campaign.label_mechanism.decode(said)[0]) == case["label"]
        else:
            assert case["label"] is None
        assert rng.left == []


@by_name
def test_the_report_of_a_vector_is_one_of_its_campaign(vector: dict[str, Any]) -> None:
    campaign = Campaign.from_json(vector["campaign"])
    for case in vector["cases"]:
        document = {"campaign": campaign.id, "node": "u", "features": case["features"], "label": case["label"]}
        report = Report.parse(document, campaign)
        assert report.document == document
        assert Report.from_json(report.to_json(), campaign) == report


@needs_node
def test_the_browser_agrees() -> None:
    for vector, reply in zip(VECTORS, in_node("vectors", VECTORS), strict=True):
        expected = [
            {"features": case["features"], "label": case["label"], "consumed": len(case["words"])}
            for case in vector["cases"]
        ]
        assert reply == {"result": expected}, vector["name"]


@needs_node
def test_the_browser_makes_words_of_53_bits_from_its_own_randomness() -> None:
    """A word is 21 bits of one number and 32 of the next; the 11 bits that are dropped change nothing."""
    items = [
        {
            "campaign": vector["campaign"],
            "cases": [
                {
                    "record": case["record"],
                    "pairs": [[(word >> 32) << 11 | 0x2A5, word & 0xFFFFFFFF] for word in case["words"]],
                }
                for case in vector["cases"]
            ],
        }
        for vector in VECTORS
    ]
    for vector, reply in zip(VECTORS, in_node("system", items), strict=True):
        assert reply == {"result": [[case["features"], case["label"]] for case in vector["cases"]]}, vector["name"]


def test_a_changed_word_changes_reports() -> None:
    """The comparison above can fail: shifting every word by one turns some decision of every campaign."""
    for vector in VECTORS:
        question = verify(vector["campaign"], max_epsilon=1e6, now=BEFORE)
        different = 0
        for case in vector["cases"]:
            left = iter([*[(word + 1) % 2**53 for word in case["words"]], *range(1000)])
            codes = encode(question, case["record"])
            features, label = randomize(question, *codes, word=left.__next__)
            different += (as_json(features), as_json(label)) != (case["features"], case["label"])
        assert different, vector["name"]


def test_numpy_is_drawn_row_by_row_in_the_same_order() -> None:
    """Many rows at once take words feature by feature, so the order is the clients' for one row only."""
    mechanism = CAMPAIGNS["binary"].feature_mechanism
    assert mechanism is not None
    rng = ScriptedWords(list(range(1000)))
    mechanism.randomize(np.zeros((1, 8), dtype=np.uint8), rng=rng)
    assert len(rng.left) == 1000 - 2 * 8
