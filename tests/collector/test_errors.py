"""Reasons of refusals are a fixed vocabulary: stored counts and clients depend on their words and statuses."""

from __future__ import annotations

import json

from veilgraph.collector.errors import Refusal, RefusalReason

WORDS = {
    "another_node": 422,
    "broken_off": 400,
    "closed": 410,
    "conflict": 409,
    "http_404": 404,
    "earlier_wave": 410,
    "http_405": 405,
    "not_admin": 401,
    "not_json": 422,
    "not_valid": 422,
    "purged": 410,
    "store_full": 507,
    "store_unavailable": 503,
    "too_busy": 503,
    "too_large": 413,
    "too_many_requests": 429,
    "too_slow": 408,
    "unexpected": 500,
    "unknown_node": 404,
    "withdrawn": 410,
    "wrong_receipt": 422,
    "wrong_token": 401,
}


def test_words_and_statuses_stay_as_they_are() -> None:
    assert {reason.value: reason.status for reason in RefusalReason} == WORDS


def test_a_refusal_has_the_headers_of_its_status_and_its_own_detail() -> None:
    for reason in RefusalReason:
        response = Refusal(reason).response()
        assert json.loads(bytes(response.body)) == {"error": reason.value, "detail": reason.text}
        assert response.status_code == reason.status
        assert ("retry-after" in response.headers) == (reason.status in (429, 503, 507))
        assert ("www-authenticate" in response.headers) == (reason.status == 401)
    assert Refusal(RefusalReason.TOO_LARGE, "at most 3 bytes").detail == "at most 3 bytes"
