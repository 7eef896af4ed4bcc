"""The browser's module: small, independent, and in agreement with the Python client and the package."""

from __future__ import annotations

import json
import random
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser_module import MODULE, in_node, needs_node
from tests.support.campaigns import BEFORE, CAMPAIGNS, CLOSES
from tests.support.forgeries import FORGERIES, MISTAKES, RECORD, SECRET, rewritten
from tests.support.mutations import mutated_campaigns
from veilgraph.campaign import Campaign
from veilgraph.campaign.report import Report
from veilgraph.campaign.strict_json import canonical_json
from veilgraph.client import participant
from veilgraph.errors import CampaignError, VeilgraphError

BINARY = CAMPAIGNS["binary"]
COMPLETE = {"age": 1, "city": "oslo", "smoker": "no", "weight": 1, "größe \U0001f4cf": "<1", "label": "ill"}


def test_the_module_is_below_12_kb_and_imports_nothing() -> None:
    source = MODULE.read_text(encoding="utf-8")
    assert len(MODULE.read_bytes()) < 12_000
    assert not re.search(r"^\s*import\b|import\(|Math\.random|eval\(|Function\(", source, flags=re.MULTILINE)


@needs_node
@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_campaign_is_refused(forgery: str, tmp_path: Path) -> None:
    (reply,) = in_node(tmp_path, "verify", [rewritten(BINARY, **FORGERIES[forgery])])
    assert "error" in reply


@needs_node
def test_altered_closed_and_too_revealing_campaigns_are_refused(tmp_path: Path) -> None:
    text = BINARY.to_json()
    altered, untouched = in_node(tmp_path, "verify", [text.replace("To learn", "To earn"), text])
    assert "altered" in altered["error"]
    assert untouched["result"]["epsilon"] == pytest.approx(2.0)
    assert "closed" in in_node(tmp_path, "verify", [text], now=CLOSES)[0]["error"]
    assert "result" in in_node(tmp_path, "verify", [text], now=CLOSES - timedelta(seconds=1))[0]
    assert "above your limit" in in_node(tmp_path, "verify", [text], max_epsilon=1.99)[0]["error"]
    assert "result" in in_node(tmp_path, "verify", [text], max_epsilon=2)[0]


@needs_node
def test_every_client_computes_the_same_guarantee(tmp_path: Path) -> None:
    replies = in_node(tmp_path, "verify", [campaign.to_json() for campaign in CAMPAIGNS.values()])
    for campaign, reply in zip(CAMPAIGNS.values(), replies, strict=True):
        assert reply["result"]["id"] == campaign.id
        assert reply["result"]["epsilon"] == pytest.approx(campaign.guarantee.total_user_level, rel=1e-12, abs=1e-12)


@needs_node
def test_no_message_contains_a_private_value(tmp_path: Path) -> None:
    text = CAMPAIGNS["all features sampled"].to_json()
    wrong = {name: change for name, change in MISTAKES.items() if "huge" not in name and name != "not a number"}
    items = [{"campaign": text, "record": COMPLETE | change} for change in wrong.values()]
    for name, reply in zip(wrong, in_node(tmp_path, "encode", items), strict=True):
        assert "error" in reply, name
        assert SECRET not in reply["error"]
    assert "result" in in_node(tmp_path, "encode", [{"campaign": text, "record": COMPLETE}])[0]


@needs_node
def test_no_message_contains_a_private_value_whatever_it_is(tmp_path: Path) -> None:
    """Control and bidirectional characters in texts and numbers, and values that quote themselves in their errors."""
    rng = random.Random(13)
    odd = "\x00\x1c\x1f\x85\xa0\u2028\u202e\u2066\u200f\u0663 +-.eE_\ud800"
    text = CAMPAIGNS["all features sampled"].to_json()
    names = ["age", "weight", "city", "smoker", "größe \U0001f4cf", "label"]
    items = []
    for i in range(600):
        before, after = ("".join(rng.choices(odd, k=rng.randrange(4))) for _ in range(2))
        items.append({"campaign": text, "record": COMPLETE | {names[i % 6]: f"{before}{SECRET}{after}"}})
    replies = in_node(tmp_path, "encode", items)
    items = [{"campaign": text, "record": COMPLETE, "name": name, "secret": SECRET} for name in names]
    replies += [{"error": message} for reply in in_node(tmp_path, "explode", items) for message in reply["result"]]
    for reply in replies:
        assert SECRET not in str(reply.get("error"))
    assert sum("error" in reply for reply in replies) > 500


@needs_node
def test_only_spaces_may_stand_around_a_number(tmp_path: Path) -> None:
    text = CAMPAIGNS["all features sampled"].to_json()
    ages = ["  44 ", *(f"{separator}44" for separator in "\x1c\x1f\x85\xa0\u2007\t\n")]
    replies = in_node(tmp_path, "encode", [{"campaign": text, "record": COMPLETE | {"age": age}} for age in ages])
    assert ["result" in reply for reply in replies] == [True] + [False] * 7


@needs_node
def test_a_report_is_drawn_once_and_kept(tmp_path: Path) -> None:
    item: dict[str, Any] = {"campaign": BINARY.to_json(), "record": RECORD, "node": "u/1", "times": 5}
    (reply,) = in_node(tmp_path, "answer", [item])
    reports = reply["result"]["reports"]
    assert [Report.parse(report, BINARY).node for report in reports] == ["u/1"] * 5
    assert all(report == reports[0] for report in reports)
    ((key, kept),) = reply["result"]["kept"].items()
    assert key == f"veilgraph:{BINARY.id}"
    assert Report.parse(without_cost(kept), BINARY) == Report.parse(reports[0], BINARY)
    assert float(json.loads(kept)["epsilon"]) == pytest.approx(2)
    # A kept report is sent again whatever the record is now; a damaged one never leads to a second draw.
    again, damaged = in_node(
        tmp_path, "answer", [item | {"record": {}, "planted": {key: kept}}, item | {"planted": {key: "{"}}]
    )
    assert again["result"]["reports"][0] == reports[0]
    assert "damaged" in damaged["error"]


def without_cost(kept: str) -> dict[str, Any]:
    return {key: value for key, value in json.loads(kept).items() if key != "epsilon"}


def on_one_device(folder: Path, *requests: dict[str, Any], **planted: str) -> Any:
    (reply,) = in_node(folder, "device", [{"planted": planted, "requests": requests}])
    assert "result" in reply, reply
    return reply["result"]


ASK: dict[str, Any] = {"campaign": BINARY.to_json(), "record": RECORD, "node": "u0", "maxEpsilon": 5}


@needs_node
def test_200_invitations_for_invented_nodes_draw_one_report(tmp_path: Path) -> None:
    """All at once: the lock lets one draw, and the others see its report. Names of JavaScript's own are nodes, too."""
    nodes = ["u0", "__proto__", "constructor", *(f"u{i}" for i in range(1, 200))]
    asked = [ASK | {"node": node, "maxEpsilon": 1e6} for node in nodes]
    device = on_one_device(tmp_path, *asked)
    first, *others = device["replies"]
    assert Report.parse(first["result"], BINARY).node == "u0"
    assert all("answers it once" in reply["error"] for reply in others)
    assert list(device["kept"]) == [f"veilgraph:{BINARY.id}"]


@needs_node
def test_a_shared_device_counts_every_person_against_the_limit(tmp_path: Path) -> None:
    others = [ASK | {"node": f"u{i}", "sharedDevice": True} for i in (1, 2)]
    device = on_one_device(tmp_path, ASK, *others, ASK | {"record": {}})
    first, second, third, again = device["replies"]
    assert Report.parse(second["result"], BINARY).node == "u1"
    assert "With 4.0000 for earlier reports" in third["error"]
    assert "above your limit of 5" in third["error"]
    assert again == first
    assert device["spent"] == pytest.approx(4)


@needs_node
def test_100_campaigns_that_differ_in_purpose_alone_share_one_limit(tmp_path: Path) -> None:
    asked = [ASK | {"campaign": rewritten(BINARY, purpose=f"Purpose {i}")} for i in range(100)]
    device = on_one_device(tmp_path, *asked)
    assert ["result" in reply for reply in device["replies"]] == [True, True] + [False] * 98
    assert device["spent"] == pytest.approx(4)


@needs_node
def test_a_report_of_an_earlier_version_is_never_drawn_again_and_counted_in_full(tmp_path: Path) -> None:
    """Its key held the node, and its cost was not recorded: 9 integer tables can cost 9 * ln(2**53) = 331 at most."""
    old = {"campaign": BINARY.id, "node": "old", "features": [0] * 8, "label": 1}
    planted = {f"veilgraph:{BINARY.id}:old": json.dumps(old)}
    device = on_one_device(
        tmp_path,
        ASK | {"node": "old", "record": {}},
        ASK,
        ASK | {"campaign": rewritten(BINARY, purpose="Another"), "maxEpsilon": 300},
        **planted,
    )
    same, other, another = device["replies"]
    assert same == {"result": old}
    assert "answers it once" in other["error"]
    assert "With 330.6600 for earlier reports" in another["error"]
    assert device["kept"] == planted


BAD_REPORTS: dict[str, Any] = {
    "a code outside its domain": {"features": [2] + [0] * 7},
    "a negative code": {"label": -1},
    "a code that is text": {"label": "1"},
    "too few codes": {"features": [0] * 7},
    "nothing": {"features": None, "label": None},
    "another campaign": {"campaign": "0" * 64},
    "no node": {"node": None},
    "a cost that is not a number": {"epsilon": "little"},
    "a negative cost": {"epsilon": "-2"},
    "an empty cost": {"epsilon": None},
    "another key": {"x": 1},
}


@needs_node
@pytest.mark.parametrize("damage", BAD_REPORTS)
def test_a_stored_report_that_does_not_fit_is_damaged_and_stops_every_draw(damage: str, tmp_path: Path) -> None:
    good = {"campaign": BINARY.id, "node": "u0", "features": [0] * 8, "label": 1, "epsilon": "2"}
    for text in (json.dumps(good | BAD_REPORTS[damage]), "{", "null", "[]", ""):
        device = on_one_device(tmp_path, ASK, ASK | {"node": "u1"}, **{f"veilgraph:{BINARY.id}": text})
        assert ["damaged" in str(reply.get("error")) for reply in device["replies"]] == [True, True], text


@needs_node
def test_drawn_reports_differ_from_draw_to_draw(tmp_path: Path) -> None:
    """16 bits of 8 features, nearly uniform: 40 draws collide in all with probability far below 1e-60."""
    item = {"campaign": BINARY.to_json(), "record": RECORD, "times": 1}
    replies = in_node(tmp_path, "answer", [item | {"node": f"u{i}"} for i in range(40)])
    assert len({str(reply["result"]["reports"][0]["features"]) for reply in replies}) > 10


@needs_node
def test_canonical_forms_agree(tmp_path: Path) -> None:
    values: list[Any] = [
        {"b": [1, None, {"é": '\x7f\x00\n\t"\\/\U0001f4cf\u2028\uffff'}], "a": True, "": []},
        {},
        [2**53 - 1, -7, 0],
        "",
    ]
    assert [reply["result"] for reply in in_node(tmp_path, "canonical", values)] == [canonical_json(v) for v in values]


@needs_node
def test_whatever_the_package_accepts_both_clients_accept_and_no_mutant_crashes_one(tmp_path: Path) -> None:
    rng = random.Random(6)
    texts = [
        text
        for name in ("binary", "mixed domains, bins and names beyond ASCII", "merged columns")
        for text in mutated_campaigns(CAMPAIGNS[name].to_json(), 700, rng)
    ]
    accepted = 0
    for text, reply in zip(texts, in_node(tmp_path, "verify", texts), strict=True):
        try:
            question = participant.verify(text, max_epsilon=1e6, now=BEFORE)
        except CampaignError:
            question = None
        if question is not None and "result" in reply:
            assert reply["result"]["epsilon"] == pytest.approx(float(question.epsilon), abs=1e-9)
        try:
            Campaign.from_json(text)
        except VeilgraphError:
            continue
        if question is None or "result" not in reply:
            assert "closed" in reply["error"]
        accepted += 1
    assert accepted > 20, "no mutant was a campaign: the mutations are too wild to compare anything"
