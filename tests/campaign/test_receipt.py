"""A receipt is signed by one key over everything that it says."""

from __future__ import annotations

import base64
import dataclasses
import hmac
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilgraph.campaign.receipt import Receipt, SignedReceipt, WithdrawalReceipt, read_receipt
from veilgraph.campaign.report import Report
from veilgraph.campaign.tokens import check_token
from veilgraph.errors import ReportError

KEY = "k" * 43
REPORT = Report(campaign="c0ffee", node="ä 17", features=(0, 1), label=None)
RECEIPT = Receipt.sign(KEY, REPORT, hour=7200)
WITHDRAWAL = WithdrawalReceipt.sign(KEY, "c0ffee", "ä 17", hour=7200)


def test_the_signatures_are_the_hmacs_that_the_documentation_says() -> None:
    message = (
        b"veilgraph receipt 1\0"
        b'{"campaign":"c0ffee","node":"\\u00e4 17","report_sha256":"%s","stored":"1970-01-01T02:00:00Z"}'
    ) % RECEIPT.report_sha256.encode()
    digest = hmac.digest(KEY.encode(), message, "sha256")
    assert RECEIPT.signature == base64.urlsafe_b64encode(digest).decode().rstrip("=")
    message = (
        b'veilgraph withdrawal receipt 1\0{"campaign":"c0ffee","node":"\\u00e4 17","withdrawn":"1970-01-01T02:00:00Z"}'
    )
    digest = hmac.digest(KEY.encode(), message, "sha256")
    assert WITHDRAWAL.signature == base64.urlsafe_b64encode(digest).decode().rstrip("=")


@pytest.mark.parametrize("receipt", [RECEIPT, WITHDRAWAL])
@given(data=st.data(), value=st.text(max_size=80))
def test_a_receipt_with_another_text_anywhere_is_not_signed(
    receipt: SignedReceipt, data: st.DataObject, value: str
) -> None:
    name = data.draw(st.sampled_from(sorted(receipt.document)))
    changed = dataclasses.replace(receipt, **{name: value})
    assert changed.is_signed_by(["l" * 43, KEY]) == (changed == receipt)


def test_a_receipt_is_no_token() -> None:
    for receipt in (RECEIPT, WITHDRAWAL):
        assert not check_token(KEY, REPORT.campaign, REPORT.node, receipt.signature)


def test_another_report_and_another_hour_have_another_signature() -> None:
    others = [Receipt.sign(KEY, dataclasses.replace(REPORT, label=1), hour=7200), Receipt.sign(KEY, REPORT, hour=10800)]
    assert len({RECEIPT.signature, *(other.signature for other in others)}) == 3
    assert Receipt.sign(KEY, REPORT, hour=7200) == RECEIPT


def test_a_receipt_is_read_alone_and_in_the_answer() -> None:
    for receipt in (RECEIPT, WITHDRAWAL):
        answer = {"node": "x", "receipt": receipt.document}
        for document in (receipt.document, answer, [answer]):
            assert read_receipt(json.dumps(document)) == receipt


@pytest.mark.parametrize(
    "text",
    ["", "[" * 100_000, "7", "{}", "[{}, {}]", '{"receipt": null}', json.dumps(RECEIPT.document | {"stored": 7})],
)
def test_anything_else_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(ReportError, match="receipt"):
        read_receipt(text)
