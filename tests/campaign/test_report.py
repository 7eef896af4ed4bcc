"""Every value of a report is validated."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.support.campaigns import CAMPAIGNS
from tests.support.mutations import ODD, mutate
from veilgraph.campaign.document import Campaign
from veilgraph.campaign.report import Report, check_node
from veilgraph.errors import ReportError

BINARY = CAMPAIGNS["binary"]
LABEL_ONLY = CAMPAIGNS["label only"]
FEATURES_ONLY = CAMPAIGNS["features only"]
GOOD: dict[str, Any] = {"campaign": BINARY.id, "node": "u17", "features": [0, 1] * 4, "label": 1}


def test_a_report_survives_a_round_trip_through_json() -> None:
    report = Report.parse(GOOD, BINARY)
    assert Report.from_json(report.to_json(), BINARY) == report
    assert report.document == GOOD
    assert report == Report.parse(json.loads(json.dumps(GOOD)), BINARY)
    assert report != Report.parse(GOOD | {"label": 0}, BINARY)
    assert hash(report) == hash(Report.from_json(report.to_json().encode(), BINARY))


def test_a_part_may_be_left_out_if_the_campaign_collects_it_and_not_everything() -> None:
    assert Report.parse(GOOD | {"label": None}, BINARY).label is None
    assert Report.parse(GOOD | {"features": None}, BINARY).features is None
    with pytest.raises(ReportError, match="empty"):
        Report.parse(GOOD | {"features": None, "label": None}, BINARY)
    with pytest.raises(ReportError, match="features: the campaign collects none"):
        Report.parse(GOOD | {"campaign": LABEL_ONLY.id}, LABEL_ONLY)
    with pytest.raises(ReportError, match="label: the campaign collects none"):
        Report.parse(GOOD | {"campaign": FEATURES_ONLY.id, "features": [0] * 5}, FEATURES_ONLY)


NOT_CODES = [value for value in ODD if value is not None and not (type(value) is int and value in (0, 1))]


def test_a_code_is_a_whole_number_in_its_domain() -> None:
    for value in NOT_CODES:
        for part, name in ({"label": value}, "label"), ({"features": [0, 0, 0, value, 0, 0, 0, 0]}, "feature 'x3'"):
            with pytest.raises(ReportError, match=f"{name}: the code must be a whole number from 0 to 1"):
                pytest.fail(f"{str(value)[:20]!r} was read as {Report.parse(GOOD | part, BINARY)}")


def test_a_report_is_an_object_with_exactly_its_keys_and_a_node_that_a_url_can_hold() -> None:
    for key in GOOD:
        with pytest.raises(ReportError, match=f"lacks the key '{key}'"):
            Report.parse({k: v for k, v in GOOD.items() if k != key}, BINARY)
    with pytest.raises(ReportError, match="unknown key 'sent_at'"):
        Report.parse(GOOD | {"sent_at": 1}, BINARY)
    with pytest.raises(ReportError, match="another campaign"):
        Report.parse(GOOD, LABEL_ONLY)
    document: Any
    for document in (None, [], "x", 7, [GOOD], True):
        with pytest.raises(ReportError, match="JSON object"):
            Report.parse(document, BINARY)
    for text in ("", "{", "[" * 100_000, "9" * 5000, b"\xff\xff", '{"a":'):
        with pytest.raises(ReportError):
            Report.from_json(text, BINARY)
    node: Any
    for node in ("", ".", "..", "a\nb", "\x7f", "x" * 257, "\udfff", None, 7, ["u"], b"u"):
        with pytest.raises(ReportError, match="node must be"):
            Report.parse(GOOD | {"node": node}, BINARY)
    for node in ("a", "007", "a/b", "...", "é \U0001f4cf", "x" * 256, "%2F", " "):
        assert check_node(node) == node


def test_features_are_a_list_of_one_code_each() -> None:
    features: Any
    for features in ([], [0] * 7, [0] * 9, "00000000", {"0": 0}, 0, [[0] * 8], (0,) * 8):
        with pytest.raises(ReportError, match="list of 8 codes"):
            Report.parse(GOOD | {"features": features}, BINARY)


SETS = CAMPAIGNS["a set of 6 of 18 classes"]
GOOD_SET: dict[str, Any] = {"campaign": SETS.id, "node": "u17", "features": None, "label": [0, 2, 4, 6, 8, 17]}
BAD_SETS: list[Any] = [
    *(3, [], [0, 2, 4, 6, 8], [0, 2, 4, 6, 8, 10, 17], [0, 2, 4, 6, 8, 8], [0, 2, 2, 4, 6, 8], [2, 0, 4, 6, 8, 17]),
    *([0, 2, 4, 6, 8, 18], [-1, 2, 4, 6, 8, 17], [0, 2, 4, 6, 8, "17"], [0, True, 4, 6, 8, 17], [0, 2, 4, 6, 8, 17.0]),
    *([0, 2, 4, 6, 8, None], [[0], [2], [4], [6], [8], [17]], 131413, "c0", {"0": True}),
]


def test_a_set_has_exactly_its_size_of_different_known_classes_in_order() -> None:
    report = Report.parse(GOOD_SET, SETS)
    assert report.label == (0, 2, 4, 6, 8, 17)
    assert Report.from_json(report.to_json(), SETS) == report
    assert report.document == GOOD_SET
    said = r"^label: it must be a list of 6 different codes from 0 to 17, in ascending order$"
    for label in BAD_SETS:
        with pytest.raises(ReportError, match=said):
            Report.parse(GOOD_SET | {"label": label}, SETS)


def test_a_set_for_another_campaign_is_refused() -> None:
    other = CAMPAIGNS["a set of 40 of 130 classes"]
    with pytest.raises(ReportError, match="answers another campaign"):
        Report.parse(GOOD_SET, other)
    with pytest.raises(ReportError, match="40 different codes"):
        Report.parse(GOOD_SET | {"campaign": other.id}, other)
    with pytest.raises(ReportError, match="label: the code must be a whole number"):
        Report.parse(GOOD | {"label": [0]}, BINARY)


JOINT = CAMPAIGNS["joint features of mixed domains"]
GOOD_JOINT: dict[str, Any] = {"campaign": JOINT.id, "node": "u", "features": [2, None, 1, None, 0], "label": None}


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([2, 4, 1, 0, 0], "codes of 3 features, and null for all others"),
        ([2, None, 1, None, None], "codes of 3 features, and null for all others"),
        ([None] * 5, "codes of 3 features, and null for all others"),
        ([2, None, 1, 0], "list of 5 codes"),
        ([3, None, 1, None, 0], "feature 'age': the code must be a whole number from 0 to 2"),
        ([-1, None, 1, None, 0], "feature 'age'"),
        ([True, None, 1, None, 0], "feature 'age'"),
    ],
)
def test_joint_features_have_codes_of_the_features_that_were_picked(features: list[Any], message: str) -> None:
    report = Report.parse(GOOD_JOINT, JOINT)
    assert report.features == (2, None, 1, None, 0)
    assert Report.from_json(report.to_json(), JOINT) == report
    with pytest.raises(ReportError, match=message):
        Report.parse(GOOD_JOINT | {"features": features}, JOINT)


@pytest.mark.parametrize(
    ("campaign", "good"),
    [(BINARY, GOOD), (SETS, GOOD_SET), (JOINT, GOOD_JOINT | {"label": 1})],
    ids=["binary", "sets", "joint"],
)
def test_mutated_reports_are_refused_cleanly_or_valid(campaign: Campaign, good: dict[str, Any]) -> None:
    rng = random.Random(7)
    accepted, messages = 0, [""]
    for _ in range(5000):
        mutant = mutate(good, rng)
        try:
            report = Report.parse(mutant, campaign)
        except ReportError as error:
            messages.append(str(error))
            continue
        accepted += 1
        assert report.document == mutant
        assert campaign is not BINARY or {*(report.features or ()), report.label} <= {0, 1, None}
    assert 0 < accepted < 2500
    assert max(map(len, messages)) < 300
