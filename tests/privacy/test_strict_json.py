"""Every reader of JSON has limits on depth and size, and raises nothing but the project's own errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.browser_module import in_node, needs_node
from tests.support.campaigns import CAMPAIGNS
from tests.support.forgeries import rewritten
from veilgraph.campaign import Campaign
from veilgraph.campaign.assessment import Assessment
from veilgraph.campaign.receipt import read_receipt
from veilgraph.campaign.report import Report, parse_report
from veilgraph.client import verify
from veilgraph.collector import audit_log
from veilgraph.collector.errors import Refusal
from veilgraph.collector.validation import parse_body
from veilgraph.errors import VeilgraphError
from veilgraph.privacy.strict_json import MAX_JSON_DEPTH, MAX_JSON_LENGTH, UnreadableError, parse_json

CAMPAIGN = CAMPAIGNS["texts and retention"]
READERS: list[Callable[[bytes], object]] = [
    lambda text: verify(text, max_epsilon=1e4),
    Campaign.from_json,
    lambda text: Report.parse(parse_report(text), CAMPAIGN),
    read_receipt,
    Assessment.from_json,
    audit_log.parse,
    parse_body,
]
# At Python's own limit of 1,000 calls, at its limit of 4,300 digits, at both sides of ours, and far beyond.
DEPTHS = st.sampled_from([1, MAX_JSON_DEPTH - 1, MAX_JSON_DEPTH, MAX_JSON_DEPTH + 1, 980, 993, 1000, 5000, 100_000])
# JSON that says nothing that a reader knows; the collector validates it later.
SENSELESS = [
    b'"\\ud800"',
    b'{"\\udc00": 1}',
    b"1e999",
    b"-1e999",
    b"NaN",
    b"-Infinity",
    b"-0",
    b"1" * 4300,
    b'"' + b"[" * 100_000 + b'"',
]
# An unclosed text of escaped quotation marks: a reader that begins again at each of them does not end.
UNREADABLE = [
    b'"' + b'\\"' * 500_000,
    b"",
    b"\xef\xbb\xbf{}",
    "{}".encode("utf-16"),
    b"\xff",
    b"\0",
    b'"\0"',
    b'{"a": 1, "a": 2}',
    b"1" * 4301,
    b"1" * 100_000,
    b'"\\"' + b"[" * 100_000,
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b"[1, 2",
    b"nul",
]
ODD = SENSELESS + UNREADABLE


def nested(depth: int, inside: bytes, opening: bytes = b"[", closing: bytes = b"]") -> bytes:
    return opening * depth + inside + closing * depth


def documents() -> st.SearchStrategy[bytes]:
    """Odd values below so many levels, and anywhere in a document that each reader knows."""
    odd = st.one_of(st.sampled_from(ODD), st.binary(max_size=20), st.text(max_size=20).map(lambda t: t.encode("utf-8")))
    brackets = st.sampled_from([(b"[", b"]"), (b'{"a":', b"}"), (b'{"receipt":', b"}"), (b'{"entries":', b"}")])
    levels = st.builds(lambda depth, inside, pair: nested(depth, inside, *pair), DEPTHS, odd, brackets)
    known = st.sampled_from([CAMPAIGN.to_json().encode(), b'{"node":"a","label":1}', b'{"entries":[]}'])
    inserted = st.builds(
        lambda text, at, more: text[: at % len(text)] + more + text[at % len(text) :],
        known,
        st.integers(0, 10**6),
        st.one_of(odd, levels),
    )
    return st.one_of(levels, inserted)


@pytest.mark.parametrize("read", READERS)
@given(text=documents())
@example(text=nested(993, b""))
@example(text=nested(MAX_JSON_DEPTH + 1, b""))
def test_whatever_is_read_nothing_but_an_error_of_the_project_comes_out(
    read: Callable[[bytes], object], text: bytes
) -> None:
    with suppress(VeilgraphError, Refusal):
        read(text)


@pytest.mark.parametrize("read", READERS)
def test_every_odd_document_is_refused_by_every_reader(read: Callable[[bytes], object]) -> None:
    for odd in ODD:
        if read is parse_body and odd in SENSELESS:
            read(odd)
            continue
        with pytest.raises((VeilgraphError, Refusal)):
            pytest.fail(f"{odd[:100]!r} was read as {read(odd)}")


def test_the_deepest_and_the_longest_json_is_read_and_nothing_beyond() -> None:
    depth: Any = parse_json(nested(MAX_JSON_DEPTH, b"7"))
    for _ in range(MAX_JSON_DEPTH):
        (depth,) = depth
    assert depth == 7
    with pytest.raises(UnreadableError, match="17 levels"):
        parse_json(nested(MAX_JSON_DEPTH + 1, b"7"))
    padding = b" " * (MAX_JSON_LENGTH - 1)
    assert parse_json(b"1" + padding) == 1
    with pytest.raises(UnreadableError, match="at most 67108864"):
        parse_json(b"1 " + padding)
    with pytest.raises(VeilgraphError, match="too large"):
        verify(b"1 " + padding, max_epsilon=1.0)


def test_brackets_in_texts_are_no_levels() -> None:
    text = json.dumps({"a": ["[" * 100, '\\"]]]{{{', "\\", '"']})
    assert parse_json(text) == json.loads(text)


def levels(count: int) -> Any:
    inner: Any = "x"
    for _ in range(count):
        inner = [inner]
    return inner


@needs_node
@pytest.mark.parametrize("depth", [1, MAX_JSON_DEPTH, 100, 900])
def test_a_campaign_with_a_valid_id_that_is_nested_deeply_is_refused_by_all(depth: int) -> None:
    text = rewritten(CAMPAIGN, notice__purpose=levels(depth))
    for read in READERS[:2]:
        with pytest.raises(VeilgraphError):
            read(text.encode())
    assert in_node("verify", [text])[0]["error"] == "This is not a campaign."


@needs_node
def test_the_browser_refuses_json_that_is_too_deep_or_odd() -> None:
    texts = [nested(depth, b"").decode() for depth in (MAX_JSON_DEPTH, MAX_JSON_DEPTH + 1, 993, 100_000)]
    texts += [odd.decode() for odd in ODD if odd.isascii()]
    assert {reply["error"] for reply in in_node("verify", texts)} == {"This is not a campaign."}
    assert {reply["error"] for reply in in_node("verifyWave", texts)} <= {
        "This is not a wave about neighbours.",
        "This is not a campaign.",
    }
