"""The Python client: what it refuses, that it draws once, that its channel is exact, and how it sends."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import random
import shutil
import stat
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from email.utils import format_datetime
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, HTTPServer
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from tests.support.campaigns import BEFORE, CAMPAIGNS, CLOSES, campaign, joint, records
from tests.support.forgeries import FORGERIES, JOINT_FORGERIES, MISTAKES, RECORD, SECRET, SET_FORGERIES, rewritten
from tests.support.participant_page import answer_to
from veilgraph.campaign import Campaign
from veilgraph.campaign.report import Report
from veilgraph.client import (
    DrawnReport,
    NoticeWarning,
    answer,
    answered,
    check_receipt,
    encode,
    has_reported,
    ledger,
    mechanisms,
    randomize,
    refusals,
    send,
    set_limit,
    verify,
    withdraw,
)
from veilgraph.client import words as source_of_words
from veilgraph.client.mechanisms import JointFeatures, SampledFeatures, SetTable, Table
from veilgraph.client.one_file import FILES
from veilgraph.client.question import Question
from veilgraph.client.record import encode_value
from veilgraph.client.words import uniform_below
from veilgraph.errors import CampaignError, DomainError, RunError, SendError, VeilgraphError
from veilgraph.privacy.mechanisms import SubsetSelection
from veilgraph.privacy.mechanisms.feature_sampling import NOT_ASKED, mean_over_subsets
from veilgraph.privacy.schema import Column, FeatureSchema
from veilgraph.privacy.strict_json import canonical_json

BINARY = CAMPAIGNS["binary"]
SETS = CAMPAIGNS["a set of 6 of 18 classes"]
NOTICE = verify(BINARY.to_json(), max_epsilon=9, now=BEFORE).notice
GRAPH = verify(BINARY.to_json(), max_epsilon=9, now=BEFORE).graph


CLIENT = Path(mechanisms.__file__).parent


def take_words(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let words be below a small number, so that all of them can be enumerated."""
    for module in (source_of_words, mechanisms):
        monkeypatch.setattr(module, "WORDS", count)


class Untouchable(dict[str, Any]):
    """A record that must not be read."""

    def __getitem__(self, key: str) -> Any:
        pytest.fail("the record was looked at")

    def __contains__(self, key: object) -> bool:
        pytest.fail("the record was looked at")


def ask(text: str, store: Path, record: Any = RECORD, **settings: Any) -> dict[str, Any]:
    defaults: dict[str, Any] = {"node": "u1", "store": store, "max_epsilon": 5.0, "now": BEFORE}
    return answer(text, record, **(defaults | settings))


# --- Refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_campaign_is_refused_before_the_record_is_touched(forgery: str, tmp_path: Path) -> None:
    text = rewritten(BINARY, **FORGERIES[forgery])
    with pytest.raises(CampaignError):
        ask(text, tmp_path, Untouchable())
    with pytest.raises(CampaignError):
        Campaign.from_json(text)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("forgery", SET_FORGERIES)
def test_a_forged_campaign_of_sets_is_refused_before_the_record_is_touched(forgery: str, tmp_path: Path) -> None:
    text = rewritten(SETS, **SET_FORGERIES[forgery])
    with pytest.raises(CampaignError):
        ask(text, tmp_path, Untouchable())
    with pytest.raises(CampaignError):
        Campaign.from_json(text)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("forgery", JOINT_FORGERIES)
def test_a_forged_campaign_of_joint_features_is_refused_before_the_record_is_touched(
    forgery: str, tmp_path: Path
) -> None:
    text = rewritten(CAMPAIGNS["joint features of mixed domains"], **JOINT_FORGERIES[forgery])
    with pytest.raises(CampaignError):
        ask(text, tmp_path, Untouchable())
    with pytest.raises(CampaignError):
        Campaign.from_json(text)
    assert list(tmp_path.iterdir()) == []


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


def test_a_campaign_above_the_persons_limit_is_refused_before_the_record_is_touched(tmp_path: Path) -> None:
    """The binary campaign costs 2 * 0.5 + 1 = 2 at user level: exactly that is accepted, less is not."""
    with pytest.raises(CampaignError, match=r"above your limit of 1\.99"):
        ask(BINARY.to_json(), tmp_path, Untouchable(), max_epsilon=1.99)
    assert ask(BINARY.to_json(), tmp_path, max_epsilon=2)


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


# --- The record ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mistake", MISTAKES)
def test_no_exception_contains_a_private_value(mistake: str, tmp_path: Path) -> None:
    record = next(records(CAMPAIGNS["large epsilon"], random.Random(0))) | MISTAKES[mistake]
    with pytest.raises(DomainError) as caught:
        ask(CAMPAIGNS["all features sampled"].to_json(), tmp_path, record)
    shown = "".join(traceback.format_exception_only(caught.value)) + repr(caught.value.__context__)
    assert SECRET not in shown
    assert list(tmp_path.iterdir()) == []


class Explosive:
    """A value that quotes itself in every error and every repr."""

    def __repr__(self) -> str:
        return SECRET

    def __eq__(self, other: object) -> bool:
        raise ValueError(SECRET)

    __hash__ = None  # type: ignore[assignment]
    __str__ = __float__ = __int__ = __index__ = __repr__


class ExplosiveText(str):
    """Text that quotes itself when it is compared."""

    __slots__ = ()
    __eq__ = Explosive.__eq__
    __hash__ = str.__hash__


class UnreadableRecord(dict[str, Any]):
    """A record that quotes a value when it is read."""

    def __getitem__(self, key: str) -> Any:
        raise OSError(f"/home/{SECRET}")


odd_texts = st.text(
    st.one_of(
        st.sampled_from("\x00\x1c\x1d\x1e\x1f\x85\xa0\u2028\u202e\u2066\u200f\u0663 +-.eE_\ud800"), st.characters()
    )
)
odd_values = st.one_of(
    st.builds(lambda before, after: f"{before}{SECRET}{after}", odd_texts, odd_texts),
    st.builds(lambda text: ExplosiveText(text + SECRET), odd_texts),
    st.integers(31337 * 10**3, 31337 * 10**3 + 999),
    st.sampled_from(
        [31337e100, -31337, b"31337", Explosive(), [Explosive()], {SECRET: SECRET}, object, 31337 * 10**5000]
    ),
)


def assert_shows_no_secret(error: BaseException) -> None:
    """Assert that neither the error, nor its causes, nor the client's local variables show the secret."""
    assert error.__cause__ is None
    assert error.__context__ is None
    assert SECRET not in str(error) + repr(error)
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if Path(frame.f_code.co_filename).parent == CLIENT:
            assert SECRET not in repr(frame.f_locals), f"a local variable of {frame.f_code.co_name}"


@given(name=st.sampled_from(["age", "weight", "city", "smoker", "größe \U0001f4cf", "label"]), value=odd_values)
def test_no_exception_shows_a_private_value_whatever_it_is(name: str, value: Any) -> None:
    question = verify(CAMPAIGNS["all features sampled"].to_json(), max_epsilon=5, now=BEFORE)
    record = next(records(CAMPAIGNS["large epsilon"], random.Random(0))) | {name: value}
    try:
        encode(question, record)
    except DomainError as error:
        assert_shows_no_secret(error)
    else:  # such as ' 31337 ' in a column of unlimited weights
        assert name == "weight"


@pytest.mark.parametrize("separator", "\x1c\x1d\x1e\x1f\x85\xa0\u2007")
def test_only_spaces_may_stand_around_a_number(separator: str, tmp_path: Path) -> None:
    record = next(records(CAMPAIGNS["all features sampled"], random.Random(0))) | {"age": f"{separator}44{separator}"}
    with pytest.raises(DomainError, match="must be a number"):
        ask(CAMPAIGNS["all features sampled"].to_json(), tmp_path, record)
    assert ask(CAMPAIGNS["all features sampled"].to_json(), tmp_path, record | {"age": "  44 "})


@pytest.mark.parametrize("record", [UnreadableRecord(RECORD), {**RECORD, "x0": SECRET}, {**RECORD, "x0": Explosive()}])
def test_no_local_variable_of_the_client_shows_the_record(record: Any, tmp_path: Path) -> None:
    with pytest.raises(DomainError) as caught:
        ask(BINARY.to_json(), tmp_path, record)
    assert_shows_no_secret(caught.value)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(CampaignError) as refused:
        ask(BINARY.to_json(), tmp_path, record, max_epsilon=1)
    assert_shows_no_secret(refused.value)


@pytest.mark.parametrize("missing", ["age", "label"])
def test_a_record_without_a_declared_column_is_refused_by_its_name(missing: str, tmp_path: Path) -> None:
    record = next(records(CAMPAIGNS["all features sampled"], random.Random(0)))
    del record[missing]
    with pytest.raises(DomainError, match=f"has no '{missing}'"):
        ask(CAMPAIGNS["all features sampled"].to_json(), tmp_path, record)


def test_a_label_can_be_left_out_but_not_everything(tmp_path: Path) -> None:
    assert ask(BINARY.to_json(), tmp_path, {**RECORD, "ill": None})["label"] is None
    with pytest.raises(DomainError, match="leaves out everything"):
        ask(CAMPAIGNS["label only"].to_json(), tmp_path, {"label": None})


@given(
    edges=st.lists(st.floats(-1e9, 1e9), min_size=3, max_size=8, unique=True).map(sorted),
    position=st.floats(0, 1),
    at_edge=st.integers(0, 7),
    text=st.booleans(),
)
def test_records_are_encoded_as_the_schema_does(edges: list[float], position: float, at_edge: int, text: bool) -> None:
    column = Column(name="x", edges=tuple(edges))
    for value in (edges[0] + position * (edges[-1] - edges[0]), edges[at_edge % len(edges)]):
        value = min(max(value, edges[0]), edges[-1])
        given_value = repr(value) if text else value
        code = encode_value({"name": "x", "edges": [repr(edge) for edge in edges]}, {"x": given_value})
        assert code == column.encode([given_value])[0]


@given(value=st.one_of(st.booleans(), st.integers(-3, 3), st.sampled_from([0.0, 1.0, 0.5, "0", "1", "True", "0.5"])))
def test_values_are_read_as_the_schema_does(value: Any) -> None:
    for values in (("0", "1"), ("True", "False"), ("0.5", "1", "-2")):
        column = Column(name="x", values=values)
        try:
            expected = column.encode([value])[0]
        except DomainError:
            with pytest.raises(DomainError):
                encode_value({"name": "x", "values": values}, {"x": value})
        else:
            assert encode_value({"name": "x", "values": values}, {"x": value}) == expected


# --- Drawn once ------------------------------------------------------------------------------------------------------


def test_a_report_is_drawn_once_and_the_record_is_not_read_again(tmp_path: Path) -> None:
    first = ask(BINARY.to_json(), tmp_path)
    assert Report.parse(first, BINARY).node == "u1"
    assert all(ask(BINARY.to_json(), tmp_path, Untouchable()) == first for _ in range(3))


def test_another_campaign_is_another_report(tmp_path: Path) -> None:
    ask(BINARY.to_json(), tmp_path)
    ask(rewritten(BINARY, nonce="a" * 32), tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_200_invitations_for_invented_nodes_draw_one_report(tmp_path: Path) -> None:
    """The organiser chooses the node: 200 draws of one record would expose it."""
    first = ask(BINARY.to_json(), tmp_path, node="u0", max_epsilon=1e6)
    for i in range(1, 200):
        with pytest.raises(CampaignError, match="one device answers a campaign once"):
            ask(BINARY.to_json(), tmp_path, Untouchable(), node=f"u{i}", max_epsilon=1e6)
    (path,) = tmp_path.iterdir()
    kept = json.loads(path.read_text())
    assert {key: value for key, value in kept.items() if key not in ("epsilon", "graph", "notices")} == first


def test_a_shared_device_counts_every_person_against_the_limit(tmp_path: Path) -> None:
    """Each report of the campaign costs 2: with a limit of 5, one other person can answer, and no third."""
    first = ask(BINARY.to_json(), tmp_path)
    second = ask(BINARY.to_json(), tmp_path, node="u2/../x", shared_device=True)
    assert second["node"] == "u2/../x"
    with pytest.raises(CampaignError, match=r"With 4\.0000 for 2 reports before .* above your limit of 5"):
        ask(BINARY.to_json(), tmp_path, Untouchable(), node="u3", shared_device=True)
    for report in (first, second):
        assert ask(BINARY.to_json(), tmp_path, Untouchable(), node=report["node"]) == report
    assert [(one.node, float(round(one.epsilon, 9))) for one in answered(tmp_path)] == [("u2/../x", 2.0), ("u1", 2.0)]


def earlier_version(store: Path, **changes: Any) -> dict[str, Any]:
    """Draw a report and keep it as earlier versions did: in a file named by campaign and node, without its cost."""
    report = ask(rewritten(BINARY, **changes), store / "new", node="old")
    name = f"{report['campaign']}.{hashlib.sha256(b'old').hexdigest()[:32]}.json"
    (store / name).write_text(json.dumps(report, sort_keys=True, separators=(",", ":")))
    shutil.rmtree(store / "new")
    return report


def test_a_report_of_an_earlier_version_is_returned_and_never_drawn_again(tmp_path: Path) -> None:
    report = earlier_version(tmp_path)
    with pytest.raises(CampaignError, match="one device answers a campaign once"):
        ask(BINARY.to_json(), tmp_path, Untouchable(), node="u2")
    assert ask(BINARY.to_json(), tmp_path, Untouchable(), node="old") == report
    assert [round(one.epsilon, 9) for one in answered(tmp_path)] == [2]
    assert len(list(tmp_path.iterdir())) == 1


def test_a_report_of_an_earlier_version_counts_in_full_until_its_cost_is_known(tmp_path: Path) -> None:
    """Its cost is not recorded: 9 integer tables can cost 9 * ln(2**53) = 331 at most."""
    earlier_version(tmp_path)
    other = rewritten(BINARY, nonce="a" * 32)
    with pytest.raises(CampaignError, match="cost of 1 is not recorded"):
        ask(other, tmp_path, Untouchable(), max_epsilon=300)
    ask(BINARY.to_json(), tmp_path, Untouchable(), node="old")
    assert ask(other, tmp_path, max_epsilon=4)


def test_100_campaigns_that_differ_in_nothing_but_their_nonce_share_one_limit(tmp_path: Path) -> None:
    made = campaign(FeatureSchema.binary(8, classes=["no", "yes"]), epsilon_y=0.5, label="ill")
    texts = [rewritten(made, nonce=f"{i:032x}") for i in range(100)]
    for i, text in enumerate(texts):
        if i < 3:
            ask(text, tmp_path, max_epsilon=1.5)
        else:
            with pytest.raises(CampaignError, match=r"above your limit of 1\.5"):
                ask(text, tmp_path, Untouchable(), max_epsilon=1.5)
    assert len(answered(tmp_path)) == 3
    assert sum(one.epsilon for one in answered(tmp_path)) == pytest.approx(Decimal("1.5"))


CHEAP = campaign(FeatureSchema.binary(8, classes=["no", "yes"]), epsilon_y=1.0, label="ill", retention=CLOSES)


def test_the_persons_limit_is_kept_and_never_exceeded(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="no limit yet"):
        ask(CHEAP.to_json(), tmp_path, Untouchable(), max_epsilon=None)
    set_limit(tmp_path, 1.5)
    ask(CHEAP.to_json(), tmp_path, max_epsilon=None)
    dear = campaign(FeatureSchema.binary(8, classes=["no", "yes"]), epsilon_y=0.6, label="ill").to_json()
    for most in (None, 5.0, 1.59):
        with pytest.raises(CampaignError, match=r"With 1\.0000 for 1 reports before .* above your limit of 1\.5"):
            ask(dear, tmp_path, Untouchable(), max_epsilon=most)
    set_limit(tmp_path, 1.6)
    with pytest.raises(CampaignError, match=r"above your limit of 1\.2"):
        ask(dear, tmp_path, Untouchable(), max_epsilon=1.2)
    ask(dear, tmp_path, max_epsilon=None)
    kept = ledger(tmp_path)
    assert kept.limit == Decimal("1.6")
    assert float(kept.spent) == pytest.approx(1.6)
    assert {entry.campaign for entry in kept.entries} == {CHEAP.id, json.loads(dear)["id"]}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"limit": 5}', '{"limit": "0"}', '{"limit": "much"}', "\udcff"])
def test_a_limit_that_cannot_be_read_answers_nothing(content: str, tmp_path: Path) -> None:
    set_limit(tmp_path, 5)
    (path,) = tmp_path.iterdir()
    path.write_bytes(content.encode(errors="surrogateescape"))
    for refused in (
        lambda: ask(CHEAP.to_json(), tmp_path, Untouchable(), max_epsilon=2.0),
        lambda: ledger(tmp_path),
        lambda: set_limit(tmp_path, 9),
    ):
        with pytest.raises(RunError, match="your limit unknown"):
            refused()


@pytest.mark.parametrize("limit", [0, -1, float("nan"), float("inf"), True, "5"])
def test_what_is_no_limit_is_refused(limit: Any, tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="give a number above 0"):
        set_limit(tmp_path, limit)


def test_the_notice_that_the_person_saw_is_kept_beside_the_report(tmp_path: Path) -> None:
    """An older notice, and another one of the same version, are refused; a new one is recorded, and draws nothing."""
    first = ask(CHEAP.to_json(), tmp_path)
    later = CHEAP.revise(closes=CLOSES - timedelta(days=1))
    assert ask(later.to_json(), tmp_path, Untouchable()) == first
    assert ask(later.to_json(), tmp_path, Untouchable()) == first
    (entry,) = ledger(tmp_path).entries
    agreed, seen = entry.notices
    assert agreed == (1, CHEAP.notice_sha256, "To learn", "2100-01-01T00:00:00Z", "2099-01-01")
    assert (seen.version, seen.sha256) == (2, later.notice_sha256)
    with pytest.raises(CampaignError, match="has version 1, and this device has seen version 2"):
        ask(CHEAP.to_json(), tmp_path, Untouchable())
    with pytest.raises(CampaignError, match="another notice of version 2"):
        ask(CHEAP.revise(purpose="Another").to_json(), tmp_path, Untouchable())
    assert float(ledger(tmp_path).spent) == pytest.approx(1)


@pytest.mark.parametrize("retention", [None, CLOSES + timedelta(days=1)])
def test_a_device_warns_if_reports_are_kept_longer_than_agreed(retention: datetime | None, tmp_path: Path) -> None:
    first = ask(CHEAP.to_json(), tmp_path)
    longer = replace(CHEAP.revise(purpose="Another"), retention=retention)
    with pytest.warns(NoticeWarning, match="you agreed that reports are deleted after 2100-01-01T00:00:00Z"):
        assert ask(longer.to_json(), tmp_path, Untouchable()) == first


def test_a_damaged_record_of_notices_stops_every_draw(tmp_path: Path) -> None:
    ask(CHEAP.to_json(), tmp_path)
    (path,) = tmp_path.iterdir()
    kept = json.loads(path.read_text())
    damaged: list[Any] = [None, {}, [1], [{"version": 1}], [kept["notices"][0] | {"version": "1"}]]
    for notices in damaged:
        path.write_text(json.dumps(kept | {"notices": notices}))
        with pytest.raises(RunError, match="damaged"):
            ask(CHEAP.to_json(), tmp_path, Untouchable())


@pytest.mark.parametrize("content", ["", "{", '{"campaign":1}', "\udcff", "null"])
def test_a_store_that_cannot_be_counted_answers_nothing(content: str, tmp_path: Path) -> None:
    ask(BINARY.to_json(), tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(RunError, match="damaged"):
        ask(rewritten(BINARY, nonce="a" * 32), tmp_path, Untouchable())
    with pytest.raises(RunError, match="damaged"):
        answered(tmp_path)


@pytest.mark.parametrize("cost", ["-1", "NaN", "", "1e-9", 2, [], "٣"])
def test_a_stored_cost_that_is_not_a_number_is_damaged(cost: Any, tmp_path: Path) -> None:
    ask(BINARY.to_json(), tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_text(json.dumps(json.loads(path.read_text()) | {"epsilon": cost}))
    with pytest.raises(RunError, match="damaged"):
        ask(BINARY.to_json(), tmp_path, Untouchable())


def _answer_another(arguments: tuple[str, int]) -> bool:
    store, i = arguments
    try:
        ask(rewritten(BINARY, nonce=f"{i:032x}"), Path(store))
    except CampaignError:
        return False
    return True


def test_processes_that_answer_different_campaigns_at_once_share_one_limit(tmp_path: Path) -> None:
    with get_context("fork").Pool(4) as pool:
        drawn = pool.map(_answer_another, [(str(tmp_path), i) for i in range(40)], chunksize=1)
    assert sum(drawn) == len(answered(tmp_path)) == 2


def test_a_device_that_has_answered_nothing_has_spent_nothing(tmp_path: Path) -> None:
    assert answered(tmp_path / "none") == ()
    assert not (tmp_path / "none").exists()


def test_the_store_is_the_persons_alone(tmp_path: Path) -> None:
    ask(BINARY.to_json(), tmp_path / "new" / "store")
    (path,) = (tmp_path / "new" / "store").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


DAMAGE = ["", "{", "null", '{"campaign":1}', "[" * 50_000]


@pytest.mark.parametrize("content", DAMAGE, ids=range(len(DAMAGE)))
def test_a_damaged_store_never_leads_to_a_second_draw(content: str, tmp_path: Path) -> None:
    ask(BINARY.to_json(), tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_text(content)
    with pytest.raises(RunError, match="Do not delete it"):
        ask(BINARY.to_json(), tmp_path, Untouchable())


@pytest.mark.parametrize("key", ["features", "label", "node", "campaign"])
def test_a_stored_report_that_does_not_fit_is_damaged(key: str, tmp_path: Path) -> None:
    ask(BINARY.to_json(), tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: [7]}))
    with pytest.raises(RunError, match="damaged"):
        ask(BINARY.to_json(), tmp_path, Untouchable())


NO_SETS = [
    7,
    [],
    [0, 1, 2, 3, 4],
    [0, 1, 2, 3, 4, 4],
    [5, 4, 3, 2, 1, 0],
    [0, 1, 2, 3, 4, 18],
    [-1, 1, 2, 3, 4, 5],
    "c",
]


@pytest.mark.parametrize("label", NO_SETS, ids=str)
def test_a_stored_set_that_does_not_fit_is_damaged(label: Any, tmp_path: Path) -> None:
    ask(SETS.to_json(), tmp_path, {"country": "c3"})
    (path,) = tmp_path.iterdir()
    path.write_text(json.dumps(json.loads(path.read_text()) | {"label": label}))
    with pytest.raises(RunError, match="damaged"):
        ask(SETS.to_json(), tmp_path, Untouchable())


@pytest.mark.parametrize("features", [[0] * 5, [0, 0, 0, 0, None], [0, 0, 0, None], [3, 0, 0, None, None]])
def test_stored_joint_features_that_do_not_fit_are_damaged(features: Any, tmp_path: Path) -> None:
    joint = CAMPAIGNS["joint features of mixed domains"]
    ask(joint.to_json(), tmp_path, next(records(joint, random.Random(0))))
    (path,) = tmp_path.iterdir()
    path.write_text(json.dumps(json.loads(path.read_text()) | {"features": features}))
    with pytest.raises(RunError, match="damaged"):
        ask(joint.to_json(), tmp_path, Untouchable())


def test_a_stored_set_without_its_cost_is_damaged(tmp_path: Path) -> None:
    """Every version that draws sets records their cost."""
    report = ask(SETS.to_json(), tmp_path, {"country": "c3"})
    (path,) = tmp_path.iterdir()
    path.write_text(json.dumps(report))
    with pytest.raises(RunError, match="damaged"):
        ask(SETS.to_json(), tmp_path, Untouchable())


def test_a_report_that_cannot_be_stored_is_not_returned(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file where the folder should be")
    with pytest.raises(RunError, match="store"):
        ask(BINARY.to_json(), tmp_path / "store")


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match="No space left"):
        ask(BINARY.to_json(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_draft_of_a_killed_client_is_removed_at_the_next_start(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from tests.client.test_participant import BINARY, ask\n"
        "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
        "ask(BINARY.to_json(), Path(sys.argv[1]))"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    (draft,) = tmp_path.iterdir()
    assert draft.suffix == ".part"
    ask(BINARY.to_json(), tmp_path)
    (kept,) = tmp_path.iterdir()
    assert kept.suffix == ".json"


def _answer_in_process(store: str) -> str:
    return json.dumps(ask(BINARY.to_json(), Path(store)))


def test_processes_that_answer_at_once_agree(tmp_path: Path) -> None:
    with get_context("fork").Pool(4) as pool:
        reports = pool.map(_answer_in_process, [str(tmp_path)] * 40, chunksize=1)
    assert len(set(reports)) == 1
    assert len(list(tmp_path.iterdir())) == 1


# --- The channel -----------------------------------------------------------------------------------------------------


def outcomes(
    features: SampledFeatures | JointFeatures, record: tuple[int | None, ...], drawn: int
) -> dict[tuple[int | None, ...], Fraction]:
    """Return the exact probability of every report, by listing every sequence of words."""
    question = Question("", GRAPH, (), 1, "y", ("a", "b"), features, None, NOTICE, Decimal(0))
    counts: Counter[tuple[int | None, ...]] = Counter()
    for words in itertools.product(range(source_of_words.WORDS), repeat=drawn + record.count(None)):
        left = iter(words)
        reported, _ = randomize(question, record, None, word=left.__next__)
        assert reported is not None
        assert next(left, None) is None
        counts[reported] += 1
    return {report: Fraction(count, counts.total()) for report, count in counts.items()}


SMALL_MECHANISMS: dict[str, tuple[int, int, Any]] = {
    "GRR-FS": (6, 4, SampledFeatures((Table(2, 4, 2), Table(3, 4, 1)), 1)),
    "joint GRR": (12, 3, JointFeatures((2, 3), 2, {6: Table(6, 7, 1)})),
}


@pytest.mark.parametrize("name", SMALL_MECHANISMS)
def test_leaving_an_answer_out_costs_no_hidden_bit_by_enumeration(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No report is more likely, by more than the stated factor, with one answer than with another or with none.

    The report of an answer that is left out is exactly uniform, and independent of the other one.
    """
    words, drawn, features = SMALL_MECHANISMS[name]
    take_words(words, monkeypatch)
    known = list(itertools.product(range(2), range(3)))
    some: list[tuple[int | None, ...]] = [(None, value) for value in range(3)] + [(value, None) for value in range(2)]
    tables = features.tables.values() if isinstance(features.tables, dict) else features.tables
    odds = max(table.odds for table in tables)
    chances = {record: outcomes(features, record, drawn) for record in [*known, *some]}
    reports = {report for chance in chances.values() for report in chance}
    for report in reports:
        likely = [chance.get(report, Fraction(0)) for chance in chances.values()]
        assert max(likely) <= odds * min(likely)
        # Records that differ in one feature: leaving it out stays within the range of its values.
        for value in range(3):
            apart = [chances[other, value][report] for other in range(2)]
            assert min(apart) <= chances[None, value][report] <= max(apart)
        for value in range(2):
            apart = [chances[value, other][report] for other in range(3)]
            assert min(apart) <= chances[value, None][report] <= max(apart)
    for record in some:
        chance, out = chances[record], record.index(None)
        other: dict[int | None, Fraction] = defaultdict(Fraction)
        for report, probability in chance.items():
            other[report[1 - out]] += probability
        for report, probability in chance.items():
            assert probability == other[report[1 - out]] * Fraction(1, features.sizes[out]), (record, report)


def test_a_question_is_left_out_by_none_and_never_by_a_missing_key(tmp_path: Path) -> None:
    text = BINARY.to_json()
    for record in (dict.fromkeys(RECORD), RECORD | {"x3": None}, RECORD | {"ill": None}):
        report = ask(text, tmp_path / str(len(list(tmp_path.iterdir()))), record)
        assert Report.parse(report, BINARY).features is not None
        assert (report["label"] is None) == (record["ill"] is None)
    for name in RECORD:
        with pytest.raises(DomainError, match=f"has no '{name}'.* or None to leave it out"):
            ask(text, tmp_path / "missing", {key: value for key, value in RECORD.items() if key != name})


def test_merged_columns_are_left_out_together() -> None:
    merged = CAMPAIGNS["merged columns"]
    question = verify(merged.to_json(), max_epsilon=9, now=BEFORE)
    record: dict[str, Any] = {f"x{i}": 1 for i in range(10)} | {"label": "a"}
    assert encode(question, record | {"x4": None}) == ((1, None, 1, 1), 0)


def test_the_channel_is_exact_by_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 6 words in place of 2**53 every sequence of words can be listed, and every probability counted.

    The tables are 4 : 2 and 4 : 1 : 1 for the features, of which one is sampled, and 4 : 2 for the label, so a client
    states ln(4 * 2), from the more revealing feature and the label. No two records exceed it.
    """
    take_words(6, monkeypatch)
    tables = (Table(2, 4, 2), Table(3, 4, 1))
    label = Table(2, 4, 2)
    features = SampledFeatures(tables, 1)
    question = Question("", GRAPH, (), 1, "y", ("a", "b"), features, label, NOTICE, Decimal(0))
    everything = list(itertools.product(range(2), range(3), range(2)))
    counts: dict[tuple[int, ...], Counter[tuple[Any, ...]]] = {record: Counter() for record in everything}
    for record, words in itertools.product(everything, itertools.product(range(6), repeat=5)):
        left = iter(words)
        reported, said = randomize(question, record[:2], record[2], word=left.__next__)
        assert isinstance(reported, tuple)
        assert isinstance(said, int)
        counts[record][*reported, said] += 1
    for record, report in itertools.product(everything, repeat=2):
        factors = [
            Fraction(table.domain_size * (table.true if value == said else table.other), 6)
            for table, value, said in zip(tables, record, report, strict=False)
        ]
        of_label = Fraction(label.true if record[2] == report[2] else label.other, 6)
        expected = mean_over_subsets(factors, 1, one=Fraction(1)) / 6 * of_label
        assert Fraction(counts[record][report], 6**5) == expected
    worst = max(Fraction(counts[a][report], counts[b][report]) for a in counts for b in counts for report in everything)
    assert worst == Fraction(2 * 4 + 3 * 4, 2 * 2 + 3 * 1) * 2 < 4 * 2


def test_the_channel_of_sets_is_exact_by_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 12 words in place of 2**53: a set of 2 of 4 classes holds the true class for 8 of them."""
    take_words(12, monkeypatch)
    table = SetTable(4, 2, 8, 4)
    counts = {value: Counter[tuple[int, ...]]() for value in range(4)}
    for value, words in itertools.product(range(4), itertools.product(range(12), repeat=4)):
        left = iter(words)
        counts[value][table.report(value, left.__next__)] += 1
        assert list(left) == [], "12 is a multiple of 1, 2 and 3: no word is rejected"
    for value, named in itertools.product(range(4), itertools.combinations(range(4), 2)):
        share = Fraction(8, 12 * 3) if value in named else Fraction(4, 12 * 3)
        assert Fraction(counts[value][named], 12**4) == share
    assert table.odds == 2


def test_the_channel_of_joint_features_is_exact_by_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 12 words in place of 2**53: two of three features together, by tables of 4 and 6 joint values."""
    take_words(12, monkeypatch)
    tables = {4: Table(4, 6, 2), 6: Table(6, 7, 1)}
    features = JointFeatures((2, 2, 3), 2, tables)
    records = list(itertools.product(range(2), range(2), range(3)))
    counts = {record: Counter[Any]() for record in records}
    for record, words in itertools.product(records, itertools.product(range(12), repeat=4)):
        left = iter(words)
        counts[record][features.report(record, left.__next__)] += 1
        assert list(left) == []
    for asked in itertools.combinations(range(3), 2):
        table = tables[math.prod(features.sizes[i] for i in asked)]
        for record, said in itertools.product(records, repeat=2):
            report = tuple(said[i] if i in asked else None for i in range(3))
            share = table.true if all(record[i] == said[i] for i in asked) else table.other
            assert Fraction(counts[record][report], 12**4) == Fraction(share, 3 * 12)
    worst = max(Fraction(counts[a][report], counts[b][report]) for a in counts for b in counts for report in counts[a])
    assert worst == 7
    assert [level.exp() for level in features.attribute_levels] == pytest.approx([7, 7, 7])


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 7, 12, 16])
def test_numbers_below_a_bound_are_uniform(bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    take_words(16, monkeypatch)
    drawn: Counter[int] = Counter()
    for word in range(16):
        left = iter([word, -1])
        if (number := uniform_below(bound, left.__next__)) >= 0 and next(left, None) == -1:
            drawn[number] += 1
    assert set(drawn) == set(range(bound))
    assert len(set(drawn.values())) == 1


def test_reports_follow_the_mechanisms_probabilities() -> None:
    """20,000 reports through the client against the exact distribution, at one in a million."""
    small = campaign(
        FeatureSchema(columns=(Column(name="a"), Column(name="b", values=("x", "y", "z"))), classes=("n", "p")),
        epsilon_x=1.0,
        sampled=1,
        epsilon_y=0.5,
    )
    question = verify(small.to_json(), max_epsilon=2, now=BEFORE)
    rng = random.Random(20261115)
    seen: Counter[tuple[Any, ...]] = Counter()
    for _ in range(20_000):
        features, label = randomize(question, (1, 2), 0, word=lambda: rng.getrandbits(53))
        seen[*(features or ()), label or 0] += 1
    assert small.feature_mechanism is not None
    assert small.label_mechanism is not None
    reports = list(itertools.product(range(2), range(3), range(2)))
    expected = [
        20_000
        * float(small.feature_mechanism.probability(r[:2], (1, 2)) * small.label_mechanism.probability(r[2:], (0,)))
        for r in reports
    ]
    assert chisquare([seen[r] for r in reports], expected).pvalue > 1e-6
    # The same reports do not follow the distribution of another record: the test can fail.
    other = [
        20_000
        * float(small.feature_mechanism.probability(r[:2], (0, 2)) * small.label_mechanism.probability(r[2:], (0,)))
        for r in reports
    ]
    assert chisquare([seen[r] for r in reports], other).pvalue < 1e-6


@pytest.mark.parametrize("value", [0, 3])
def test_sets_follow_the_mechanisms_probabilities(value: int) -> None:
    """20,000 sets of the client against the exact distribution over all 10 sets, at one in a million."""
    mechanism = SubsetSelection(5, 0.7, size=2)
    small = replace(campaign(FeatureSchema(classes=tuple("abcde")), epsilon_y=0.7), label_mechanism=mechanism)
    question = verify(small.to_json(), max_epsilon=1, now=BEFORE)
    rng = random.Random(20261116)
    seen = Counter(randomize(question, None, value, word=lambda: rng.getrandbits(53))[1] for _ in range(20_000))
    for true in range(5):
        expected = [20_000 * float(mechanism.probability(named, (true,))) for named in mechanism.reports()]
        p_value = chisquare([seen[named] for named in mechanism.reports()], expected).pvalue
        # The sets do not follow the distribution of another class: the test can fail.
        assert (p_value > 1e-6) == (true == value)


def test_joint_features_follow_the_mechanisms_probabilities() -> None:
    """20,000 reports of the client against the exact distribution over all sets of features, at one in a million."""
    made = joint(
        FeatureSchema(
            columns=(Column(name="a"), Column(name="b", values=("x", "y", "z")), Column(name="c")), classes=("n", "p")
        ),
        2,
        0.6,
    )
    mechanism = made.feature_mechanism
    assert mechanism is not None
    question = verify(made.to_json(), max_epsilon=2, now=BEFORE)
    rng = random.Random(20261117)
    seen: Counter[Any] = Counter()
    for _ in range(20_000):
        features, _ = randomize(question, (1, 2, 0), None, word=lambda: rng.getrandbits(53))
        seen[tuple(NOT_ASKED if code is None else code for code in features or ())] += 1
    for record in itertools.product(range(2), range(3), range(2)):
        expected = [20_000 * float(mechanism.probability(report, record)) for report in mechanism.reports()]
        p_value = chisquare([seen[report] for report in mechanism.reports()], expected).pvalue
        assert (p_value > 1e-6) == (record == (1, 2, 0))


def test_words_come_from_the_operating_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[int] = []

    def randbits(bits: int) -> int:
        asked.append(bits)
        return 0

    monkeypatch.setattr("veilgraph.client.words.secrets.randbits", randbits)
    ask(BINARY.to_json(), tmp_path)
    assert asked == [53] * 17


def test_an_unclosed_text_of_quotation_marks_is_refused_at_once() -> None:
    """The depth of brackets is counted in one pass: from each mark on, these 128 kB would be read for a minute."""
    begun = time.monotonic()
    with pytest.raises(CampaignError, match="not readable"):
        verify('["' + '\\"' * 2**16, max_epsilon=1, now=BEFORE)
    assert time.monotonic() - begun < 10


# --- Alone -----------------------------------------------------------------------------------------------------------


def test_the_client_loads_nothing_of_third_parties() -> None:
    program = (
        "import sys; before = set(sys.modules); from veilgraph.client import answer; "
        "new = {name.split('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(new - set(sys.stdlib_module_names)), "
        "sorted(name for name in sys.modules if name.startswith('veilgraph.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    files = sorted(["veilgraph.client", "veilgraph.errors", *(f"veilgraph.client.{name}" for name in FILES)])
    assert done.stdout.strip() == f"['veilgraph'] {files}"


# --- Sending ---------------------------------------------------------------------------------------------------------

REPORT = DrawnReport({"campaign": "c", "node": "a/b ü", "features": [0], "label": 1}, 300)


class Collector:
    """A collector that gives prepared responses, and records the requests."""

    def __init__(self, replies: list[tuple[int, dict[str, str]]]) -> None:
        self.replies = replies
        self.answer: bytes | None = None
        self.standing = b'{"status":"missing"}'
        self.asked: list[tuple[str, str]] = []
        self.seen: list[tuple[str, str, bytes]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"] or 0))
                collector.seen.append((self.path, self.headers["Authorization"], body))
                code, headers = collector.replies.pop(0)
                if code == 0:  # hangs up
                    self.close_connection = True
                    return
                self.send_response(code)
                for name, value in headers.items():
                    self.send_header(name, value)
                answer = collector.answer if collector.answer is not None else answer_to(body)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_DELETE = do_POST = do_PUT  # noqa: N815 (the names of http.server)

            def do_GET(self) -> None:
                collector.asked.append((self.path, self.headers["Authorization"]))
                self.send_response(200)
                self.send_header("Content-Length", str(len(collector.standing)))
                self.end_headers()
                self.wfile.write(collector.standing)

            def log_message(self, *_: Any) -> None: ...

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@contextmanager
def collector(*replies: int | tuple[int, dict[str, str]]) -> Iterator[Collector]:
    started = Collector([(reply, {}) if isinstance(reply, int) else reply for reply in replies])
    thread = threading.Thread(target=started.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield started
    finally:
        started.server.shutdown()
        thread.join()
        started.server.server_close()


@pytest.mark.parametrize(("code", "stored"), [(201, True), (200, False)])
def test_a_report_is_put_under_its_node_with_its_token(code: int, stored: bool) -> None:
    with collector(code) as running:
        receipt = send(running.url + "/", REPORT, "t0ken")
    assert bool(receipt) is receipt.is_new is stored
    assert receipt.document == json.loads(answer_to(canonical_json(REPORT).encode()))["receipt"]
    ((path, token, body),) = running.seen
    assert path == "/v1/reports/a%2Fb%20%C3%BC"
    assert token == "Bearer t0ken"  # noqa: S105
    assert json.loads(body) == REPORT
    assert body.decode() == REPORT.text
    assert len(body) == 300
    assert running.asked == [(path, token)]


@pytest.mark.parametrize("standing", ["stored", "withdrawn", "purged", "another", "", None])
def test_no_second_report_leaves_the_device_and_none_that_is_not_wanted(standing: str | None) -> None:
    with collector(200) as running:
        running.standing = b"<html>Welcome!" if standing is None else json.dumps({"status": standing}).encode()
        with pytest.raises(SendError):
            send(running.url, REPORT, "t0ken", attempts=1)
        assert running.seen == []
        assert not send(running.url, REPORT, "t0ken", again=True)
    assert len(running.seen) == len(running.asked) == 1


def test_a_report_of_a_later_wave_is_sent() -> None:
    with collector(201) as running:
        running.standing = b'{"status":"earlier"}'
        assert has_reported(running.url, "a/b", "t0ken") == "earlier"
        assert send(running.url, REPORT, "t0ken")


def altered_answer(**changes: Any) -> bytes:
    document = json.loads(answer_to(canonical_json(REPORT).encode()))
    document["receipt"] |= changes
    return json.dumps(document).encode()


NO_CONFIRMATIONS = {
    "a login page": b"<html>Welcome! Please accept our terms.</html>",
    "nothing": b"",
    "an empty object": b"{}",
    "a list": b"[]",
    "no receipt": b'{"node": "a/b", "status": "stored"}',
    "a receipt of another campaign": altered_answer(campaign="d"),
    "a receipt of another node": altered_answer(node="b"),
    "a receipt of another report": altered_answer(report_sha256="0" * 64),
    "a signature that is not text": altered_answer(signature=1),
    "a signature that steers a terminal": altered_answer(signature="\x1b[2K"),
    "an endless answer": b" " * 2**17 + altered_answer(),
    "deep nesting": b"[" * 2**16,
}


@pytest.mark.parametrize("code", [200, 201])
@pytest.mark.parametrize("answer", NO_CONFIRMATIONS)
def test_an_answer_that_does_not_confirm_the_report_is_not_believed(answer: str, code: int) -> None:
    """Such as that of a captive portal, which answers 200 to everything."""
    with collector(code) as running:
        running.answer = NO_CONFIRMATIONS[answer]
        with pytest.raises(SendError, match="did not confirm this report"):
            send(running.url, REPORT, "t", sleep=lambda _: pytest.fail("it waited"))
    assert len(running.seen) == 1


@pytest.mark.parametrize("answer", NO_CONFIRMATIONS)
def test_an_answer_that_confirms_no_withdrawal_and_checks_no_receipt_is_not_believed(answer: str) -> None:
    with collector(200, 200) as running:
        running.answer = NO_CONFIRMATIONS[answer]
        with pytest.raises(SendError, match="did not confirm the withdrawal"):
            withdraw(running.url, "a/b", "t", sleep=lambda _: pytest.fail("it waited"))
        with pytest.raises(SendError, match="did not say what the collector holds"):
            check_receipt(running.url, {"node": "a/b"}, sleep=lambda _: pytest.fail("it waited"))
    assert running.seen == [
        ("/v1/reports/a%2Fb", "Bearer t", b""),
        ("/v1/receipts", None, b'{"node":"a/b"}'),  # it needs no token
    ]


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "all_proxy"])
def test_no_proxy_is_used_for_this_machine(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with collector() as proxy, collector(201) as running:
        monkeypatch.setenv(variable, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        assert send(running.url, REPORT, "t")
    assert proxy.seen == []


def test_a_busy_or_absent_collector_is_tried_again_with_the_same_report() -> None:
    pauses: list[float] = []
    with collector(503, 0, 429, 500, 507, 408, 502, 201) as running:
        assert send(running.url, REPORT, "t", sleep=pauses.append)
    assert len({body for _, _, body in running.seen}) == 1
    assert all(0.25 * 2**i <= pause <= 0.5 * 2**i for i, pause in enumerate(pauses))
    assert len(pauses) == 7


def test_the_collectors_own_pause_is_honoured() -> None:
    pauses: list[float] = []
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    replies = [(429, {"Retry-After": "7"}), (503, {"Retry-After": date}), (503, {"Retry-After": "soon"}), (200, {})]
    with collector(*replies) as running:
        assert not send(running.url, REPORT, "t", sleep=pauses.append)
    assert pauses[0] == 7
    assert 50 < pauses[1] <= 60
    assert pauses[2] <= 2


def test_a_pause_that_is_too_long_is_an_error() -> None:
    with collector((503, {"Retry-After": "9" * 50})) as running, pytest.raises(SendError, match="asks to wait"):
        send(running.url, REPORT, "t", sleep=lambda _: pytest.fail("it waited"))


def test_an_unreachable_collector_is_an_error_after_all_attempts() -> None:
    pauses: list[float] = []
    with collector() as running:
        url = running.url
    with pytest.raises(SendError, match="3 times; nothing was sent, and what this device drew stays here"):
        send(url, REPORT, "t", attempts=3, sleep=pauses.append)
    assert len(pauses) == 2


REFUSED = {
    409: "first one counts",
    401: "token",
    410: "closed",
    422: "does not fit",
    418: "answered 418",
    302: "leads elsewhere",
}


@pytest.mark.parametrize("code", REFUSED)
def test_a_refusal_is_final_and_says_why(code: int) -> None:
    with collector(code) as running, pytest.raises(SendError, match=REFUSED[code]) as caught:
        send(running.url, REPORT, "s3cret", sleep=lambda _: pytest.fail("it waited"))
    assert "s3cret" not in str(caught.value)
    assert len(running.seen) == 1


@pytest.mark.parametrize(
    "url", ["http://example.org", "ftp://127.0.0.1", "file:///etc/passwd", "", "http://127.0.0.1.example.org"]
)
def test_a_token_never_travels_in_the_clear(url: str) -> None:
    with pytest.raises(SendError, match="https"):
        send(url, REPORT, "t")


@pytest.mark.parametrize("url", ["https://[::1", "https://x:port", "https://exa mple.org", "https://" + "ü" * 70])
def test_an_invalid_address_is_not_tried_again(url: str) -> None:
    with pytest.raises(SendError, match="cannot be used"):
        send(url, REPORT, "t", sleep=lambda _: pytest.fail("it waited"))


def test_a_slow_collector_does_not_block_a_device() -> None:
    with collector() as running:
        running.server.RequestHandlerClass.do_PUT = lambda _: time.sleep(0.5)  # type: ignore[attr-defined]
        with pytest.raises(SendError, match="cannot be reached"):
            send(running.url, REPORT, "t", attempts=1, timeout=0.05)


def test_every_error_of_the_client_is_the_packages() -> None:
    assert issubclass(refusals.CampaignError, VeilgraphError)
    assert refusals.CampaignError is CampaignError
