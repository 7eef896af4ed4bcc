"""Verification of a campaign: what the Python client refuses before it touches the record."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.campaigns import BEFORE, CAMPAIGNS, CLOSES
from tests.support.device import BINARY, SETS, Untouchable, ask
from tests.support.forgeries import rewritten
from veilgraph.campaign.report import Report
from veilgraph.client import answer, verify
from veilgraph.errors import CampaignError


def test_a_set_that_states_what_its_integers_give_is_answered_whatever_epsilon_was_requested(tmp_path: Path) -> None:
    """The client judges the integers: ln(2 * 3) for three quarters of the words."""
    epsilon = repr(math.log(6))
    changes = {"inside": 3 * 2**51, "outside": 2**51, "domain_size": 18, "size": 6}
    text = rewritten(
        SETS, label__table=changes, guarantee__user_level={"features": "0", "label": epsilon, "total": epsilon}
    )
    assert len(ask(text, tmp_path, {"country": "c3"})["label"]) == 6


def test_a_campaign_with_the_label_alone_is_answered_by_the_label_alone(tmp_path: Path) -> None:
    report = answer(SETS.to_json(), {"country": "c3"}, node="p17", store=tmp_path, max_epsilon=1.0)
    assert Report.parse(report, SETS).label == tuple(report["label"])
    assert report["features"] is None
    assert answer(SETS.to_json(), Untouchable(), node="p17", store=tmp_path, max_epsilon=1.0) == report


def test_an_altered_campaign_is_refused_before_the_record_is_touched(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="altered"):
        ask(BINARY.to_json().replace('"nonce":"0', '"nonce":"1'), tmp_path, Untouchable())


def test_a_closed_campaign_is_refused_before_the_record_is_touched(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="closed at 2100-01-01"):
        ask(BINARY.to_json(), tmp_path, Untouchable(), now=CLOSES)
    assert ask(BINARY.to_json(), tmp_path, now=CLOSES - timedelta(seconds=1))


def test_a_clock_without_a_zone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="time zone"):
        ask(BINARY.to_json(), tmp_path, Untouchable(), now=datetime(2026, 1, 1))


@pytest.mark.parametrize("limit", [0, -1, float("nan"), True, None, "5"])
def test_an_invalid_limit_is_refused(limit: Any, tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="max_epsilon"):
        ask(BINARY.to_json(), tmp_path, Untouchable(), max_epsilon=limit)


@pytest.mark.parametrize("node", ["", ".", "..", "a\nb", "x" * 257, "\ud800", None, 7])
def test_a_node_that_a_url_cannot_hold_is_refused(node: Any, tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="node must be"):
        ask(BINARY.to_json(), tmp_path, Untouchable(), node=node)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "1e400", '{"a": NaN}', "[" * 100_000, b"\xff\xfe", "1" * 5000])
def test_what_is_not_a_campaign_is_refused(text: str | bytes, tmp_path: Path) -> None:
    with pytest.raises(CampaignError):
        answer(text, Untouchable(), node="u1", store=tmp_path, max_epsilon=1)


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_the_client_computes_the_guarantee_that_the_mechanisms_claim(name: str) -> None:
    question = verify(CAMPAIGNS[name].to_json(), max_epsilon=1e6, now=BEFORE)
    assert float(question.epsilon) == pytest.approx(CAMPAIGNS[name].guarantee.total_user_level, abs=1e-12, rel=1e-14)


def test_an_unclosed_text_of_quotation_marks_is_refused_at_once() -> None:
    """The depth of brackets is counted in one pass: from each mark on, these 2 MB would be read for hours."""
    with pytest.raises(CampaignError, match="not readable"):
        verify('["' + '\\"' * 2**20, max_epsilon=1, now=BEFORE)


def test_a_campaign_is_verified_against_a_limit_before_anything_else_is_known(tmp_path: Path) -> None:
    """The binary campaign costs exactly 2; who verifies it with less is told so, and not only who answers."""
    assert verify(BINARY.to_json(), max_epsilon=2, now=BEFORE).epsilon == pytest.approx(2, abs=1e-12)
    for limit in (1.999_999, 1e-9):
        with pytest.raises(CampaignError, match=r"a report would cost epsilon 2\.0000 .* above your limit"):
            verify(BINARY.to_json(), max_epsilon=limit, now=BEFORE)
    with pytest.raises(CampaignError, match=r"above your limit of 1\.99"):
        ask(BINARY.to_json(), tmp_path, Untouchable(), max_epsilon=1.99)
    assert ask(BINARY.to_json(), tmp_path, max_epsilon=2)
